"""Kinds of mistakes that people make in GEMM kernels, planted into emitted text by textual rules.

A rule of the form (pattern, replacement) gives one mutant for each place where the pattern matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """A text with one fault: its kind, its function and line (from 1), what stands there before and after."""

    kind: str
    function: str
    line: int
    before: str
    after: str
    text: str


# A definition begins at the margin.
_FUNCTION = re.compile(r"^\w[^\n;]*?\b(\w+)\(", re.MULTILINE)

# One word per kind; what it changes; each `\g<0>` is the text that matched.
FAULTS: dict[str, tuple[tuple[str, str], ...]] = {
    "barrier removed": ((r"__syncthreads\(\);", ";"),),
    "barrier in a divergent branch": (
        (r"__syncthreads\(\);", r"if (thread + 1 < THREADS) __syncthreads();"),
    ),
    "wait removed": ((r"__pipeline_wait_prior\([^;]*\);", ";"),),
    "wait for too few": ((r"__pipeline_wait_prior\(([^;]*)\);", r"__pipeline_wait_prior((\1) + 1);"),),
    "wait behind the barrier": ((r"(__pipeline_wait_prior\([^;]*\);)(\s*)(__syncthreads\(\);)", r"\3\2\1"),),
    "commit removed": ((r"__pipeline_commit\(\);", ";"),),
    "wrong buffer": (
        (r"\[tile % BUFFERS\]", "[(tile + 1) % BUFFERS]"),
        (r"\[\(tile \+ (1|BUFFERS - 1)\) % BUFFERS\]", "[tile % BUFFERS]"),
        (r"stages\[0\]", "stages[1 % BUFFERS]"),
    ),
    "wrong set of fragments": (
        (r"\[\(k \+ 1\) % FRAGMENTS\]", "[k % FRAGMENTS]"),
        (r"\[k % FRAGMENTS\]", "[(k + 1) % FRAGMENTS]"),
        (r"([ab])\[0\](?=, stage)", r"\1[1 % FRAGMENTS]"),
    ),
    "slots out of step": (
        (r"slot = wrap\((\w+) \+ 1, BUFFERS\)", r"slot = \1"),
        (r"wrap\(slot \+ \([^()]*\), BUFFERS\)", "slot"),
    ),
    "prefetch one tile short": ((r"tile < BUFFERS - 1;", "tile < BUFFERS - 2;"),),
    "prefetch beyond the last tile": (
        (r"if \(tile \+ 1 < k_tiles\)", "if (tile < k_tiles)"),
        (r"if \(tile \+ BUFFERS - 1 < k_tiles\)", "if (tile < k_tiles)"),
        (r"if \(tile < k_tiles\)", "if (true)"),
        (r"if \(0 < k_tiles\)", "if (true)"),
    ),
    "prefetch stops early": (
        (r"if \(tile \+ 1 < k_tiles\)", "if (tile + 2 < k_tiles)"),
        (r"if \(tile \+ BUFFERS - 1 < k_tiles\)", "if (tile + BUFFERS < k_tiles)"),
    ),
    "guard of rows or columns off by one": (
        (r"(\bm < m_left|\bn < n_left|\bk < k_left)", r"\g<0> + 1"),
        (r"(\bm < m_left|\bn < n_left|\bk < k_left)", r"\g<0> - 1"),
    ),
    "guard of a vector off by one": (
        (r"\b(n_left - n|k_left - k|m_left - m)\b(?= :)", r"\1 + 1"),
        (r"\b(n_left - n|k_left - k|m_left - m)\b(?= :)", r"\1 - 1"),
        (r"e < valid", "e <= valid"),
        (r"valid >= WIDTH", "valid >= WIDTH - 1"),
    ),
    "wrong fill with zeros": (
        (r"inside \? BYTES : 0", "inside ? BYTES / WIDTH : 0"),
        (r"inside \? BYTES : 0", "BYTES"),
        (r"inside \? BYTES : 0", "0"),
    ),
    "guard dropped": (
        (r"FULL \|\| [mn] < [mn]_left \?", "true ?"),
        (r"= FULL \? (\w+) : [^;]*;", r"= \1;"),
        (r"inside = FULL \|\| [^;]*;", "inside = true;"),
        (r"inside = FULL \|\| \(([^&]*) && [^;]*;", r"inside = FULL || \1;"),
        (r"inside = FULL \|\| \([^&]* && ([^;]*)\);", r"inside = FULL || \1;"),
    ),
    "whole vectors not asked for": ((r"= [MNK] % [AB]_VECTOR == 0 && ", "= "),),
    "tail filled with ones": ((r": 0\.0f;", ": 1.0f;"), (r"= 0\.0f;", "= 1.0f;")),
    "leading dimensions swapped": (
        (r"\blda(?=, m_left, )", "ldb"),
        (r"\bldb(?=, n_left, )", "lda"),
        (r"(?<=, )lda\)(?=[^{;]*;)", "ldb)"),
        (r"(?<=, )ldb\)(?=[^{;]*;)", "lda)"),
        (r"(?<=block_row, )ldc", "lda"),
        (r"(?<=\(C, )ldc(?=, m_left)", "ldb"),
    ),
    "grid rounded down": ((r"([MN]) / BLOCK_([MN]) \+ \([MN] % BLOCK_[MN] != 0\)", r"\1 / BLOCK_\2"),),
    "block raster exchanged": (
        (r"block / blocks_n", "block % blocks_n"),
        (r"block % blocks_n", "block / blocks_n"),
    ),
    "last K tile stale": ((r"depth / BLOCK_K \+ \(depth % BLOCK_K != 0\)", "depth / BLOCK_K"),),
    "K tile too long": ((r"depth / BLOCK_K \+ \(depth % BLOCK_K != 0\)", "depth / BLOCK_K + 1"),),
    "K step lost": (
        (r"for \(int k = 0; k < BLOCK_K;", "for (int k = 1; k < BLOCK_K;"),
        (r"for \(int k = 0; k < BLOCK_K;", "for (int k = 0; k < BLOCK_K - 1;"),
        (r"for \(int k = 0; k < depth;", "for (int k = 0; k < depth - 1;"),
        (r"for \(int tile = 0; tile < k_tiles;", "for (int tile = 1; tile < k_tiles;"),
    ),
    "K step repeated": ((r"for \(int k = 0; k < BLOCK_K;", "for (int k = 0; k < BLOCK_K + 1;"),),
    "k left over from another tile": (
        (r"depth - \(tile \+ 1\) \* BLOCK_K", "depth - tile * BLOCK_K"),
        (r"depth - tile \* BLOCK_K", "depth"),
    ),
    "copy stays at its tile": ((r"\n  from \+= [^;]*;", "\n"),),
    "copy moves too far": (
        (r"from \+= BLOCK_K;", "from += BLOCK_K + 1;"),
        (r"offset\(BLOCK_K, ", "offset(BLOCK_K + 1, "),
    ),
    "copy of a tile left out": ((r"\n *(store|load|copy)_[ab](_async)?(<[\w, ]+>)?\([^;]*tile[^;]*;", "\n"),),
    "last copy of a thread left out": ((r"copy < ([AB](_WORD)?)_COPIES;", r"copy < \1_COPIES - 1;"),),
    "wrong transposition": (
        (r"e \* ([AB])_ROW", r"e * \1_PAD"),
        (r"(\)|\w) \* ([AB])_ROW(?=[ ,)\]])", r"\1 * (\2_ROW - 1)"),
        (r"tile\[k \+ e\]\[m\]", "tile[m % BLOCK_K][k + e]"),
        (r"tile\[k\]\[n \+ e\]", "tile[k][n]"),
        (r"&to\[k\]\[([mn])\]", r"&to[\1 % BLOCK_K][k]"),
        (r"tile\[([mn])\]\[k \+ e\]", r"tile[\1][k]"),
    ),
    "swizzle on one side only": ((r" \^ \([^\]]*SWIZZLE_UNIT\)", ""),),
    "swizzle wrong": ((r"/ (\d+)\) \* ([AB])_SWIZZLE_UNIT", r"/ \1 + 1) * \2_SWIZZLE_UNIT"),),
    "padding misaligns rows": ((r"constexpr int ([AB])_PAD = 4;", r"constexpr int \1_PAD = 3;"),),
    "row shorter than the tile": ((r"([AB])_ROW = BLOCK_(\w) \+ \w+;", r"\1_ROW = BLOCK_\2 - 4;"),),
    "wrong stride between pieces": (
        (r"(PIECE_STRIDE_[MN] = [^;]*);", r"\1 + 1;"),
        (r"\* PIECE_STRIDE_([MN])", r"* PIECE_\1"),
    ),
    "threads mapped wrongly": (
        (r"thread / THREADS_N", "thread % THREADS_M"),
        (r"thread % THREADS_N", "thread / THREADS_N"),
        (r"lane / (\w+)", r"lane % \1"),
        (r"warp / (\w+)", r"warp % \1"),
        (r"thread / WARP_SIZE", "0"),
        (r"thread / ([AB])_ROW_VECTORS", r"thread % \1_ROW_VECTORS"),
        (r"thread / (BLOCK_[MNK])", r"thread % \1"),
    ),
    "thread dropped": (
        (r"\n  store_c<", "\n  if (thread != 0) store_c<"),
        (r"\n  store_c<", "\n  if (thread != THREADS - 1) store_c<"),
    ),
    "output written twice": ((r"\n  (store_c<[^;]*;)", r"\g<0>\n  \1"),),
    "output left out": (
        (
            r"([ij]) < THREAD_([MN]); (\+\+[ij]|[ij] \+= C_VECTOR)"
            r"(?=\) \{\n(#pragma unroll\n    for|      const int m))",
            r"\1 < THREAD_\2 - 1; \3",
        ),
    ),
    "fragments swapped": ((r"fmaf\(a\[i\], b\[j\]", "fmaf(a[j % THREAD_M], b[i % THREAD_N]"),),
    "accumulator not cleared": ((r"acc\[THREAD_M\]\[THREAD_N\] = \{\};", "acc[THREAD_M][THREAD_N];"),),
    "accumulator overwritten": ((r"(acc\[i\]\[j\] = fmaf\([^;]*), acc\[i\]\[j\]\);", r"\1, 0.0f);"),),
    "C read when beta is 0": ((r"if \(beta != 0\.0f\)", "if (true)"),),
    "beta ignored": ((r"fmaf\(beta, out", "fmaf(1.0f, out"), (r"if \(beta != 0\.0f\)", "if (false)")),
    "alpha applied twice": ((r"scale \* acc", "scale * scale * acc"),),
    "alpha ignored": ((r"scale \* acc", "acc"),),
    "inputs read when alpha is 0": ((r"alpha == 0\.0f \? 0 : K", "K"),),
    "alpha applied to nothing": ((r"depth > 0 \? alpha : 0\.0f", "alpha"),),
    "last group of tiles not cut off": ((r"min\(RASTER, blocks_m - group_row\)", "RASTER"),),
    "32-bit offset": ((r"static_cast<int64_t>\(index\) \* ld", "index * ld"),),
    "alignment not asked for": (
        (r"const bool vectors = [^;]*;", "const bool vectors = true;"),
        (r" && ld % width == 0", ""),
        (r"reinterpret_cast<uintptr_t>\(matrix\) % \(width \* sizeof\(float\)\) == 0 && ", ""),
    ),
    "alignment of one operand not asked for": (
        (r"aligned\([ABC], ld\w, \w+\) && ", ""),
        (r" && aligned\([ABC], ld\w, \w+\)", ""),
        (r"(aligned\([ABC], )ld\w", r"\g<1>4"),
        (r"aligned\([ABC](?=, ld)", "aligned(nullptr"),
        (r"(aligned\([ABC], ld\w, )([ABC]_VECTOR)", r"\1\2 / 2"),
    ),
    "whole tiles not asked for": (
        (r"M % BLOCK_M == 0 && ", ""),
        (r"N % BLOCK_N == 0 && ", ""),
        (r" && K % BLOCK_K == 0", ""),
    ),
    "launcher's check left out": ((r"\n  if \([^\n]*\) return [A-Z_]+;", "\n"),),
    "launcher's check off by one": (
        (r"if \(lda < (\w)", r"if (lda <= \1"),
        (r"if \((ld\w) < (\w) ", r"if (\1 + 1 < \2 "),
    ),
    "memory for parts not looked after": (
        (r"(cudaMallocAsync\([^;]*\)) != cudaSuccess", r"(\1, false)"),
        (r"\n  if \(cudaFreeAsync[^;]*;", ""),
        (r"\n  (if \(cudaFreeAsync[^;]*;)", r"\g<0>\g<0>"),
        (r"PARTS \* part_floats", "(PARTS - 1) * part_floats"),
    ),
    "parts in another order": ((r"part \* part_floats", "(PARTS - 1 - part) * part_floats"),),
    "part left out or twice": (
        (r"part < PARTS;", "part < PARTS - 1;"),
        (r"min\(split, all_tiles % PARTS\)", "split"),
        (r"split < all_tiles % PARTS", "split <= all_tiles % PARTS"),
        (r"split \* \(all_tiles / PARTS\)", "split"),
    ),
    "parts in one place": ((r"split \* part_floats", "split / 2 * part_floats"),),
    "C not scaled first": ((r"\n  const int status = launch\([^;]*;\n  if \(status[^;]*;", ""),),
    "wrong number of threads": ((r"dim3\(THREADS\)", "dim3(THREADS - 1)"),),
}


def mutants(text: str) -> Iterator[Mutant]:
    """Every mutant of an emitted text, in the order of FAULTS; texts that stay the same are left out."""
    seen = {text}
    for kind, rules in FAULTS.items():
        for pattern, replacement in rules:
            for match in re.finditer(pattern, text):
                after = match.expand(replacement)
                changed = text[: match.start()] + after + text[match.end() :]
                if changed not in seen:
                    seen.add(changed)
                    line = text.count("\n", 0, match.start()) + 1 + match.group().startswith("\n")
                    above = _FUNCTION.findall(text, 0, match.start())
                    yield Mutant(
                        kind, above[-1] if above else "", line, match.group().strip(), after.strip(), changed
                    )


def barriers_and_waits(text: str) -> Iterator[Mutant]:
    """The text with each of its barriers and waits taken out in turn."""
    for mutant in mutants(text):
        if mutant.kind in ("barrier removed", "wait removed"):
            yield mutant
