// What is remembered of each word of shared memory, and when two accesses are ordered.
//
// A stamp names an access: [clock : 21][many : 1][thread : 10].  A thread's clock advances at each barrier, so
// that every access before the last barrier has a stamp below `floor`, and at each rendezvous of its warp.
// `many` marks a word that several threads have read since the last barrier.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace gemm_emu {

constexpr unsigned CLOCK_SHIFT = 11;
constexpr uint32_t MANY = 1u << 10;
constexpr uint32_t THREAD_MASK = MANY - 1;
constexpr uint32_t UNWRITTEN = 0;
// Values of `written` above every stamp.
constexpr uint32_t PADDING = 0xfffffffdu;    // part of a variable, and meant for nothing
constexpr uint32_t IN_FLIGHT = 0xfffffffeu;  // an asynchronous copy may write the word
constexpr uint32_t NO_VARIABLE = 0xffffffffu;
constexpr uint32_t LAST_CLOCK = (1u << (32 - CLOCK_SHIFT)) - 2;

constexpr unsigned MAX_THREADS = 1024;
constexpr unsigned LANES = 32;

inline unsigned thread_of(uint32_t stamp) { return stamp & THREAD_MASK; }
inline uint32_t clock_of(uint32_t stamp) { return stamp >> CLOCK_SHIFT; }

struct Shadow {
    uintptr_t begin;  // of the shared segment
    uint64_t bytes;   // 0 while no block runs
    uint32_t floor;
    uint32_t stamp;   // of an access now
    // Per word: the last write, the last read, and where in the library their code is.
    uint32_t* written;
    uint32_t* read;
    uint32_t* write_place;
    uint32_t* read_place;
    uint8_t* array;  // of a stage: a set of one, or of none
    uint64_t capacity;
    uint32_t clocks[MAX_THREADS];
    uint32_t known[MAX_THREADS][LANES];  // clocks of the lanes of its warp that a thread has met

    bool reserve(uint64_t words) {
        if (words <= capacity) return true;
        uint32_t* memory = static_cast<uint32_t*>(malloc(words * (4 * sizeof(uint32_t) + 1)));
        if (memory == nullptr) return false;
        free(written);
        written = memory;
        read = memory + words;
        write_place = memory + 2 * words;
        read_place = memory + 3 * words;
        array = reinterpret_cast<uint8_t*>(memory + 4 * words);
        capacity = words;
        return true;
    }

    void start_clocks() {
        for (uint32_t& clock : clocks) clock = 1;
        memset(known, 0, sizeof known);
        floor = 1u << CLOCK_SHIFT;
    }

    void enter(unsigned thread) { stamp = clocks[thread] << CLOCK_SHIFT | thread; }

    // Whether the access `earlier` happens before what the running thread does now.
    bool ordered(uint32_t earlier) const {
        const unsigned thread = thread_of(stamp), other = thread_of(earlier);
        if (earlier < floor) return true;
        if (earlier & MANY) return false;
        if (thread == other) return true;
        return thread / LANES == other / LANES && known[thread][other % LANES] >= clock_of(earlier);
    }

    bool pass_barrier() {
        uint32_t latest = 0;
        for (uint32_t clock : clocks) latest = clock > latest ? clock : latest;
        if (latest >= LAST_CLOCK) return false;
        for (uint32_t& clock : clocks) clock = latest + 1;
        floor = (latest + 1) << CLOCK_SHIFT;
        return true;
    }

    void meet(unsigned first, uint32_t mask) {
        uint32_t joined[LANES] = {};
        for (unsigned i = 0; i < LANES; ++i) {
            if ((mask >> i & 1) == 0) continue;
            for (unsigned j = 0; j < LANES; ++j) {
                if (known[first + i][j] > joined[j]) joined[j] = known[first + i][j];
            }
        }
        for (unsigned i = 0; i < LANES; ++i) {
            if ((mask >> i & 1) && clocks[first + i] > joined[i]) joined[i] = clocks[first + i];
        }
        for (unsigned i = 0; i < LANES; ++i) {
            if ((mask >> i & 1) == 0) continue;
            memcpy(known[first + i], joined, sizeof joined);
            ++clocks[first + i];
        }
    }
};

}  // namespace gemm_emu
