// What a kernel does to memory that several blocks share: atomic additions, and memory of a call.

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "checker.h"
#include "gemm_emulator.h"

namespace gemm_emu {

namespace {

float flushed(float value) {
    return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0f, value) : value;
}

}  // namespace

void atomic_add(float* to, const float* values, unsigned count) {
    check_atomic(to, count * static_cast<unsigned>(sizeof(float)), __builtin_return_address(0));
    for (unsigned i = 0; i < count; ++i) {
        uint32_t* const word = reinterpret_cast<uint32_t*>(to + i);
        uint32_t before = __atomic_load_n(word, __ATOMIC_RELAXED), after;
        do {
            float held;
            memcpy(&held, &before, sizeof held);
            const float sum = flushed(flushed(held) + flushed(values[i]));
            memcpy(&after, &sum, sizeof after);
        } while (!__atomic_compare_exchange_n(word, &before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
}

void* allocate(size_t bytes) {
    constexpr size_t ALIGNMENT = 256;
    constexpr int POISON = 0xff;  // a NaN in every word
    void* memory = nullptr;
    if (posix_memalign(&memory, ALIGNMENT, bytes) != 0) return nullptr;
    if (!check_allocated(memory, bytes)) {
        free(memory);
        return nullptr;
    }
    memset(memory, POISON, bytes);
    return memory;
}

void release(void* memory) {
    check_released(memory);
    free(memory);
}

}  // namespace gemm_emu

extern "C" {

__attribute__((visibility("default"))) void* gemm_emu_allocate(size_t bytes) { return gemm_emu::allocate(bytes); }
__attribute__((visibility("default"))) void gemm_emu_release(void* memory) { gemm_emu::release(memory); }
}
