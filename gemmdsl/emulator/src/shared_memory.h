// The shared variables of the kernels: the thread-local segment of the library, and what a launch may use.

#pragma once

#include "gemm_emulator.h"

namespace gemm_emu {

struct SharedMemory {
    char* begin;
    char* end;
};

// Where the library itself lies: its code and constants.
struct Image {
    uintptr_t begin;
    uintptr_t bytes;
};
Image find_image();

// The calling thread's shared variables; empty when no kernel has any.
SharedMemory find_shared_memory();

// Fills them with NaN, so that what a block never wrote is seen.
void poison(const SharedMemory& shared);

// Dynamic bytes that cudaFuncSetAttribute allowed `kernel`, or -1 when it was not called.
int64_t raised_dynamic_shared(const void* kernel);

// Bytes behind the unsized `extern __shared__` array; 0 when the text declares none.
int64_t dynamic_shared_capacity();

}  // namespace gemm_emu
