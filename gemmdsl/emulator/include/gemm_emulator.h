// What emitted CUDA text needs to run on a CPU: who the current thread is, and where it can wait.
//
// One fiber runs per CUDA thread, and one block at a time per operating-system thread.  Every variable that
// CUDA keeps per block (`__shared__`) is therefore thread-local here.

#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__GNUC__) || (!defined(__clang__) && __GNUC__ < 9) || (defined(__clang__) && __clang_major__ < 12)
#error "the emulator needs GCC 9, Clang 12 or later"
#endif

namespace gemm_emu {

struct Index3 {
    unsigned x, y, z;
};

enum Order { FORWARD = 0, REVERSED = 1, SEEDED = 2 };

// How launches of the calling operating-system thread run; mirrored by gemmdsl/emulator/library.py.
struct Options {
    int32_t order;         // of the threads of a block and of the blocks of a grid
    int32_t early_copies;  // asynchronous copies land when issued instead of when waited for
    int32_t workers;       // operating-system threads; 0 lets the emulator choose
    int32_t limit_ms;      // processor time that one block may take; 0 is no limit
    int32_t catch_faults;  // a kernel's invalid accesses end the launch, not the process
    int32_t refuse_memory;  // a call gets no memory of the device
    uint64_t seed;           // of Order::SEEDED
    int64_t shared_limit;    // bytes of shared memory a block may have; 0 is no limit
    int64_t static_shared;   // bytes of it that the kernel declares with a fixed size
    int64_t optin_limit;     // dynamic bytes allowed without cudaFuncSetAttribute; 0 is no limit
};

struct Worker;
struct Allocated;

// One array of a stage of shared memory: `rows` of `row_length` floats, the first `columns` of each in use.
struct StageArray {
    const char* name;
    uint32_t offset;  // bytes from the start of the stage
    uint32_t rows;
    uint32_t columns;
    uint32_t row_length;
};

// What the kernel keeps in shared memory, as the compiler of the text sees it; nothing is known without arrays.
struct StageLayout {
    const char* variable;
    uint32_t is_dynamic;
    uint32_t is_array;  // of `slots` stages
    uint32_t slots;
    uint32_t stage_bytes;
    uint32_t array_count;
    StageArray arrays[2];
};

// Kernels that one call of a launcher launches, at most.
constexpr uint32_t MAX_LAUNCHES = 8;

// Everything the emulator itself keeps per operating-system thread, in one place so that poisoning the
// shared variables, which lie in the same thread-local segment, can step over it.
struct Local {
    Worker* worker;
    // The kernels that were launched since the emulator was configured, the first of them.
    const void* kernels[MAX_LAUNCHES];
    uint32_t launches;
    Options options;
    Allocated* allocated;  // memory of the call
    const void* freed;     // the last of it that was freed
    char message[2048];
};

extern __thread Local local __attribute__((visibility("hidden")));

void barrier(int line);

// Lanes named in `mask` meet; each contributes `value` and gets the value of lane `source`.
uint64_t exchange(uint32_t mask, uint64_t value, int source, int line);
// Lanes named in `mask` meet; each gets the mask of lanes whose `predicate` holds.
uint32_t ballot(uint32_t mask, bool predicate, int line);

void copy_async(void* shared, const void* global, size_t size, size_t zero_fill, int line);
void copy_commit();
void copy_wait(size_t pending_groups);

struct Launch {
    const void* kernel;
    Index3 grid;
    Index3 block;
    size_t dynamic_shared;
    void (*invoke)(const void* closure);
    const void* closure;
};

// to[i] += values[i], as one addition for all other threads; what is too small to be normal counts as 0.
void atomic_add(float* to, const float* values, unsigned count);
// Memory of the device, poisoned; null, and a message, when there is none.
void* allocate(size_t bytes);
// False, and a message, for what `allocate` did not give or was released before.
bool release(void* memory);
// All that is left.
void release_all();

// Where the copies of a vector lie: looked at by the checker, for compilers that do not show it the vector.
void check_vector(const void* to, const void* from, size_t bytes);

// Runs a whole grid; returns a cudaError value and leaves a message in `local` when it is not zero.
int launch(const Launch& launch);
int allow_dynamic_shared(const void* kernel, int64_t bytes);

template <typename... Parameters>
int launch_kernel(void (*kernel)(Parameters...), Index3 grid, Index3 block, size_t dynamic_shared,
                  Parameters... arguments) {
    // The arguments lie on the launching thread's stack, which the checker knows nothing of.
    auto call = [=]() __attribute__((no_sanitize("thread"))) { kernel(arguments...); };
    using Call = decltype(call);
    return launch({reinterpret_cast<const void*>(kernel), grid, block, dynamic_shared,
                   [](const void* closure) { (*static_cast<const Call*>(closure))(); }, &call});
}

}  // namespace gemm_emu

// Of the running fiber; the emulator keeps them up to date.  Not macros: launch configurations have members
// of the same names.
#define GEMM_EMU_THREAD_VARIABLE extern __thread gemm_emu::Index3 __attribute__((visibility("hidden")))
GEMM_EMU_THREAD_VARIABLE threadIdx;
GEMM_EMU_THREAD_VARIABLE blockIdx;
GEMM_EMU_THREAD_VARIABLE blockDim;
GEMM_EMU_THREAD_VARIABLE gridDim;
#undef GEMM_EMU_THREAD_VARIABLE
