// The checker's view of a launch: which accesses are ordered, which memory is whose.
//
// In a build without GEMM_EMU_CHECKED all of it is nothing.

#pragma once

#include "gemm_emulator.h"

namespace gemm_emu {

struct Worker;
struct Launch;

// One operand in memory; mirrored by gemmdsl/emulator/checker.py.
struct WatchedOperand {
    uint64_t address;
    int64_t lines;    // rows of a row-major matrix, columns of another
    int64_t width;    // elements of a line
    int64_t ld;       // elements from line to line
    int32_t row_major;
    int32_t readable;
};

// One shared variable: its place in the thread-local segment.
struct WatchedVariable {
    uint64_t offset;
    uint64_t bytes;    // 0: as many as the launch asks for
    const void* owner;  // the kernel that declares it; null when it is not known
    char name[96];
};

// What a finding is about: bits of a set, in the order of gemmdsl/emulator/checker.py.
enum Kind : uint32_t { RACE = 1, MEMORY = 2, INIT = 4, ALIGN = 8 };

struct Watch {
    WatchedOperand operands[3];  // A, B, C
    uint32_t variable_count;
    uint32_t kinds;  // of findings that end a launch
    const WatchedVariable* variables;
    // Of a call whose blocks add to C: parts of K, those that are not empty, and whether C is scaled before.
    // Without parts each element of C is stored once.
    uint32_t parts;
    uint32_t busy_parts;
    uint32_t scaled;
};

#ifdef GEMM_EMU_CHECKED

constexpr bool CHECKED = true;

// Before a launch; false when there is no memory for the shadows.
bool check_launch_begins(const Launch& launch);
// An atomic addition to global memory.
void check_atomic(const void* to, unsigned bytes, const void* place);
// Memory of the device for one call; false when there is none for its shadow.
bool check_allocated(const void* memory, uint64_t bytes, const void* place);
void check_released(const void* memory);
// Of what was not allocated, or is released no more; `what` says it in words.
void check_wrong_release(const char* what, const void* place);
void check_block_begins(Worker& worker);
void check_block_ends();
// `thread` of the block runs from here on.
void check_switch(unsigned thread);
void check_barrier();
// The lanes of `mask`, counted from thread `first`, have met.
void check_rendezvous(unsigned first, uint32_t mask);
void check_copy_issued(const void* shared, const void* global, unsigned bytes, unsigned zero_fill, const void* place);
void check_copy_landed(const void* shared, unsigned bytes);
// Code at these offsets of the library accesses no word of these arrays of a stage, a set of them for each.
void forbid_arrays(const uint32_t* places, const uint8_t* arrays, uint32_t count);
// Words for a message that say where the last access was made; {here} stands for it.
const char* check_last_access();

#else

constexpr bool CHECKED = false;

inline bool check_launch_begins(const Launch&) { return true; }
inline void check_atomic(const void*, unsigned, const void*) {}
inline bool check_allocated(const void*, uint64_t, const void*) { return true; }
inline void check_released(const void*) {}
inline void check_wrong_release(const char*, const void*) {}
inline void check_block_begins(Worker&) {}
inline void check_block_ends() {}
inline void check_switch(unsigned) {}
inline void check_barrier() {}
inline void check_rendezvous(unsigned, uint32_t) {}
inline void check_copy_issued(const void*, const void*, unsigned, unsigned, const void*) {}
inline void check_copy_landed(const void*, unsigned) {}
inline const char* check_last_access() { return ""; }

#endif

}  // namespace gemm_emu
