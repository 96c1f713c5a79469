// What a kernel does to memory that several blocks share: atomic additions, and memory of a call.

#include <cmath>
#include <cstdio>
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

// In front of the memory that a call gets.
constexpr size_t HEADER_BYTES = 256;

void* memory_of(void* header) { return static_cast<char*>(header) + HEADER_BYTES; }

}  // namespace

// What was allocated and not yet freed, the latest first.
struct Allocated {
    Allocated* next;
};

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
    constexpr int POISON = 0xff;  // a NaN in every word
    void* start = nullptr;
    const bool found = !local.options.refuse_memory && bytes <= SIZE_MAX - HEADER_BYTES &&
                       posix_memalign(&start, HEADER_BYTES, HEADER_BYTES + bytes) == 0;
    if (!found || !check_allocated(memory_of(start), bytes, __builtin_return_address(0))) {
        free(start);
        snprintf(local.message, sizeof local.message, "cudaMallocAsync has no %llu bytes",
                 static_cast<unsigned long long>(bytes));
        return nullptr;
    }
    Allocated* const header = static_cast<Allocated*>(start);
    header->next = local.allocated;
    local.allocated = header;
    memset(memory_of(header), POISON, bytes);
    return memory_of(header);
}

bool release(void* memory) {
    for (Allocated** link = &local.allocated; *link != nullptr; link = &(*link)->next) {
        Allocated* const header = *link;
        if (memory_of(header) != memory) continue;
        check_released(memory);
        *link = header->next;
        local.freed = memory;
        free(header);
        return true;
    }
    // What failed before comes first.
    if (local.message[0] != 0) return false;
    const char* const what = memory != nullptr && memory == local.freed
                                 ? "memory is freed a second time"
                                 : "memory is freed that cudaMallocAsync did not give";
    snprintf(local.message, sizeof local.message, "%s", what);
    check_wrong_release(what, __builtin_return_address(0));
    return false;
}

void release_all() {
    while (local.allocated != nullptr) release(memory_of(local.allocated));
    local.freed = nullptr;
}

}  // namespace gemm_emu

extern "C" {

__attribute__((visibility("default"))) void* gemm_emu_allocate(size_t bytes) { return gemm_emu::allocate(bytes); }
__attribute__((visibility("default"))) void gemm_emu_release(void* memory) { gemm_emu::release(memory); }
}
