// The arrays of the kernel's stages in shared memory: which word belongs to which, and what it is called.

#pragma once

#include <cstdio>
#include <cstring>

#include "checker.h"
#include "gemm_emulator.h"

// Defined beside the kernel by the builder.
extern "C" const gemm_emu::StageLayout gemm_emu_stages __attribute__((visibility("hidden")));

namespace gemm_emu {

constexpr unsigned WORD = 4;

// Whether a shared variable holds the stages.
inline bool holds_stages(const WatchedVariable& variable) {
    const StageLayout& layout = gemm_emu_stages;
    if (layout.array_count == 0) return false;
    if (layout.is_dynamic) return variable.bytes == 0;
    return variable.bytes == uint64_t{layout.slots} * layout.stage_bytes && strcmp(variable.name, layout.variable) == 0;
}

// The set of arrays that contain a byte of a stage: one of them or none.
inline uint8_t array_of(uint32_t byte_of_stage) {
    for (uint32_t i = 0; i < gemm_emu_stages.array_count; ++i) {
        const StageArray& array = gemm_emu_stages.arrays[i];
        if (byte_of_stage - array.offset < array.rows * array.row_length * WORD) return static_cast<uint8_t>(1u << i);
    }
    return 0;
}

// "stages[1].A[3][130]".
inline void name_stage_word(char* text, size_t size, uint64_t byte) {
    const StageLayout& layout = gemm_emu_stages;
    const uint32_t byte_of_stage = static_cast<uint32_t>(byte % layout.stage_bytes);
    char stage[96];
    if (layout.is_array) {
        snprintf(stage, sizeof stage, "%s[%u]", layout.variable, static_cast<unsigned>(byte / layout.stage_bytes));
    } else {
        snprintf(stage, sizeof stage, "%s", layout.variable);
    }
    const uint8_t array = array_of(byte_of_stage);
    if (array == 0) {
        snprintf(text, size, "byte %u of %s, between its arrays", byte_of_stage, stage);
        return;
    }
    const StageArray& found = layout.arrays[array == 1 ? 0 : 1];
    const uint32_t word = (byte_of_stage - found.offset) / WORD;
    snprintf(text, size, "%s.%s[%u][%u]", stage, found.name, word / found.row_length, word % found.row_length);
}

}  // namespace gemm_emu
