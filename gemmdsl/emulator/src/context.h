// A context is a place to come back to: saved registers on a stack of its own.

#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(GEMM_EMU_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define GEMM_EMU_UCONTEXT 1
#endif

#ifdef GEMM_EMU_UCONTEXT
#include <ucontext.h>
#endif

namespace gemm_emu {

#ifdef GEMM_EMU_UCONTEXT

struct Context {
    ucontext_t registers;
};

inline void prepare(Context& context, char* stack, size_t bytes, void (*entry)()) {
    getcontext(&context.registers);
    context.registers.uc_stack.ss_sp = stack;
    context.registers.uc_stack.ss_size = bytes;
    context.registers.uc_link = nullptr;
    makecontext(&context.registers, entry, 0);
}

inline void switch_context(Context& from, const Context& to) {
    swapcontext(&from.registers, &to.registers);
}

#else

struct Context {
    void* stack_pointer;
};

// Saves what the ABI lets a callee not clobber, changes stacks and returns to where the other one left off.
extern "C" __attribute__((visibility("hidden"))) void gemm_emu_switch(void** save, void* load);

#if defined(__x86_64__)

constexpr size_t SAVED_WORDS = 6;
constexpr size_t RETURN_WORD = 6;
constexpr size_t FRAME_WORDS = 8;  // leaves the stack as a call would: a multiple of 16 plus 8

#ifdef GEMM_EMU_DEFINE_SWITCH
asm(R"(
    .text
    .globl gemm_emu_switch
    .hidden gemm_emu_switch
    .type gemm_emu_switch, @function
gemm_emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size gemm_emu_switch, .-gemm_emu_switch
)");
#endif

#else

constexpr size_t SAVED_WORDS = 20;
constexpr size_t RETURN_WORD = 11;  // x30 beside x29
constexpr size_t FRAME_WORDS = 20;

#ifdef GEMM_EMU_DEFINE_SWITCH
asm(R"(
    .text
    .globl gemm_emu_switch
    .hidden gemm_emu_switch
    .type gemm_emu_switch, %function
gemm_emu_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size gemm_emu_switch, .-gemm_emu_switch
)");
#endif

#endif

// `stack + bytes` must be a multiple of 16; `entry` must never return.
inline void prepare(Context& context, char* stack, size_t bytes, void (*entry)()) {
    uintptr_t* frame = reinterpret_cast<uintptr_t*>(stack + bytes) - FRAME_WORDS;
    for (size_t i = 0; i < FRAME_WORDS; ++i) frame[i] = 0;
    frame[RETURN_WORD] = reinterpret_cast<uintptr_t>(entry);
    context.stack_pointer = frame;
}

inline void switch_context(Context& from, const Context& to) {
    gemm_emu_switch(&from.stack_pointer, to.stack_pointer);
}

#endif

}  // namespace gemm_emu
