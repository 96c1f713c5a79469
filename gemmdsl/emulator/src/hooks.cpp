// The functions that -fsanitize=thread calls before each access, and the checker's interface to Python.

#ifdef GEMM_EMU_CHECKED

#include <cstring>

#include "checker.h"

extern "C" {

// Says what the next launches of the process work on.  `watch` is copied, its variables are not.
__attribute__((visibility("default"))) void gemm_emu_watch(const gemm_emu::Watch* watch) {
    gemm_emu::checker.watch = *watch;
    gemm_emu::checker.launches = 0;
    gemm_emu::checker.wrong_release = nullptr;
}

// After a call that succeeded: whether it did all that it has to do to C.
__attribute__((visibility("default"))) int gemm_emu_call_ends() { return gemm_emu::check_call_ends(); }

__attribute__((visibility("default"))) void gemm_emu_forbid(const uint32_t* places, const uint8_t* arrays,
                                                            uint32_t count) {
    gemm_emu::forbid_arrays(places, arrays, count);
}

// Offsets in the library of the code that the last message calls {here} and {there}.
__attribute__((visibility("default"))) const uint64_t* gemm_emu_places() { return gemm_emu::checker.places; }

#define GEMM_EMU_HOOK(NAME, BYTES, WRITE)                                                            \
    void __tsan_##NAME##BYTES(void* address) {                                                        \
        gemm_emu::check_access(reinterpret_cast<uintptr_t>(address), BYTES, WRITE,                    \
                               __builtin_return_address(0));                                          \
    }
// Elements that the compiler has put together by itself: not a vector of the kernel's, which would be aligned.
#define GEMM_EMU_UNALIGNED_HOOK(NAME, BYTES, WRITE)                                                   \
    void __tsan_unaligned_##NAME##BYTES(void* address) {                                              \
        gemm_emu::check_elements(reinterpret_cast<uintptr_t>(address), BYTES, WRITE,                  \
                                 __builtin_return_address(0));                                        \
    }
#define GEMM_EMU_HOOKS(BYTES)                  \
    GEMM_EMU_HOOK(read, BYTES, false)          \
    GEMM_EMU_HOOK(write, BYTES, true)          \
    GEMM_EMU_UNALIGNED_HOOK(read, BYTES, false) \
    GEMM_EMU_UNALIGNED_HOOK(write, BYTES, true)
GEMM_EMU_HOOKS(1)
GEMM_EMU_HOOKS(2)
GEMM_EMU_HOOKS(4)
GEMM_EMU_HOOKS(8)
GEMM_EMU_HOOKS(16)

void __tsan_read_range(void* address, size_t bytes) {
    gemm_emu::check_range(reinterpret_cast<uintptr_t>(address), bytes, false, __builtin_return_address(0));
}

void __tsan_write_range(void* address, size_t bytes) {
    gemm_emu::check_range(reinterpret_cast<uintptr_t>(address), bytes, true, __builtin_return_address(0));
}

void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
    gemm_emu::check_range(reinterpret_cast<uintptr_t>(from), bytes, false, __builtin_return_address(0));
    gemm_emu::check_range(reinterpret_cast<uintptr_t>(to), bytes, true, __builtin_return_address(0));
    return memcpy(to, from, bytes);
}

void* __tsan_memmove(void* to, const void* from, size_t bytes) {
    gemm_emu::check_range(reinterpret_cast<uintptr_t>(from), bytes, false, __builtin_return_address(0));
    gemm_emu::check_range(reinterpret_cast<uintptr_t>(to), bytes, true, __builtin_return_address(0));
    return memmove(to, from, bytes);
}

void* __tsan_memset(void* to, int value, size_t bytes) {
    gemm_emu::check_range(reinterpret_cast<uintptr_t>(to), bytes, true, __builtin_return_address(0));
    return memset(to, value, bytes);
}

void __tsan_func_entry(void*) {}
void __tsan_func_exit(void*) {}
void __tsan_init() {}
}

#endif
