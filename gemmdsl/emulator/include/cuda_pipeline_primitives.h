// Asynchronous copies from global to shared memory, as a queue of each thread.

#pragma once

#include "cuda_runtime.h"

#define __pipeline_memcpy_async(...) ::gemm_emu::pipeline_copy(__LINE__, __VA_ARGS__)
#define __pipeline_commit() ::gemm_emu::copy_commit()
#define __pipeline_wait_prior(groups) ::gemm_emu::copy_wait(groups)

namespace gemm_emu {

inline void pipeline_copy(int line, void* shared, const void* global, size_t size, size_t zero_fill = 0) {
    copy_async(shared, global, size, zero_fill, line);
}

}  // namespace gemm_emu
