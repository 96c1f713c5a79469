// What is remembered of each word that a call writes to global memory: of C, and of memory of the call itself.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace gemm_emu {

// A word's writer is 0 for none, else the launch and the thread.
constexpr unsigned LAUNCH_SHIFT = 56;
// Stands for all threads that added to an element in the present launch.
constexpr uint64_t ADDERS = ~uint64_t{0};

// The elements of C: their writers in the present launch, whether a launch of the call wrote them, and which
// parts of K were added to them, a bit each.
struct Outputs {
    uint64_t* writers;
    uint64_t* added;
    uint8_t* written;
    uint64_t elements;
    uint64_t capacity;
    uint32_t words;  // of `added`, for each element
    uint32_t capacity_words;

    // For a new call, of which nothing is done yet.
    bool begin(uint64_t count, uint32_t parts) {
        words = (parts + 63) / 64;
        if (count > capacity || words > capacity_words) {
            release();
            writers = static_cast<uint64_t*>(malloc(count * sizeof(uint64_t)));
            added = static_cast<uint64_t*>(malloc(count * words * sizeof(uint64_t) + 1));
            written = static_cast<uint8_t*>(malloc(count + 1));
            if (writers == nullptr || added == nullptr || written == nullptr) {
                release();
                return false;
            }
            capacity = count;
            capacity_words = words;
        }
        elements = count;
        memset(added, 0, count * words * sizeof(uint64_t));
        memset(written, 0, count);
        return true;
    }

    // Whatever was done before is done for all threads of the next launch.
    void begin_launch() { memset(writers, 0, elements * sizeof(uint64_t)); }

    bool has(uint64_t element, uint32_t part) const {
        return (added[element * words + part / 64] >> (part % 64) & 1) != 0;
    }
    void add(uint64_t element, uint32_t part) { added[element * words + part / 64] |= uint64_t{1} << (part % 64); }
    bool has_any(uint64_t element) const {
        for (uint32_t word = 0; word < words; ++word) {
            if (added[element * words + word] != 0) return true;
        }
        return false;
    }

    void release() {
        free(writers);
        free(added);
        free(written);
        writers = added = nullptr;
        written = nullptr;
        capacity = capacity_words = 0;
    }
};

// Memory that a call allocated, and who wrote its words.
struct Allocation {
    uint64_t address;
    uint64_t bytes;
    uint64_t* writers;

    bool holds(uintptr_t first, unsigned count) const {
        return writers != nullptr && first - address < bytes && first - address + count <= bytes;
    }
    bool reserve(const void* memory, uint64_t count) {
        release();
        writers = static_cast<uint64_t*>(calloc(count / sizeof(float) + 1, sizeof(uint64_t)));
        address = reinterpret_cast<uintptr_t>(memory);
        bytes = count;
        return writers != nullptr;
    }
    void release() {
        free(writers);
        writers = nullptr;
        bytes = 0;
    }
};

}  // namespace gemm_emu
