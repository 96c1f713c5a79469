"""Arithmetic intensity per tier of memory, ceilings of the target's GPU, waves, and a range of times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from gemmdsl.analysis.access import Access
from gemmdsl.analysis.banks import BANKS, WORD
from gemmdsl.analysis.sectors import SECTOR
from gemmdsl.analysis.shape import Shape, blocks, ceil_div, k_tiles, part_tiles
from gemmdsl.index import evaluate
from gemmdsl.ir import Kernel
from gemmdsl.layout import BLOCK, BLOCKS_M, BLOCKS_N
from gemmdsl.occupancy import Occupancy
from gemmdsl.target import SM_PARTITIONS, WAVEFRONTS_PER_CYCLE

if TYPE_CHECKING:
    from gemmdsl.index import Array

Ceiling = Literal["FP32", "instruction issue", "L1 and shared memory", "DRAM"]
# Sectors that the L1 cache passes on per cycle: as many bytes as shared memory does.
_SECTORS_PER_CYCLE = BANKS * WORD // SECTOR


@dataclass(frozen=True, slots=True)
class Intensity:
    """Traffic of one tier: floats moved per FMA, and FLOP per byte."""

    tier: str
    floats_per_fma: float
    flop_per_byte: float


@dataclass(frozen=True, slots=True)
class Waves:
    """How the blocks of a launch fill the GPU.

    `waves` counts blocks over all that are resident at a time.  Blocks are dealt evenly to `sms` SMs: the
    busiest one gets `most` of them, and `lost` is the part of the GPU's time that SMs with fewer stand idle,
    in [0, 1].  `rows` and `cols` are the rows and columns of tiles of C in which the first wave's blocks lie:
    tiles of A and of B that it reads for each K tile, which the L2 cache hands to the blocks that share them.
    `parts` is how many parts of K those blocks multiply, each of which reads tiles of its own; 1 where K is
    not shared.
    """

    blocks: int
    resident: int
    waves: float
    sms: int
    most: int
    lost: float
    rows: int
    cols: int
    parts: int


@dataclass(frozen=True, slots=True)
class Roofline:
    """Seconds that each ceiling alone would take, for the whole launch on the target's example GPU.

    `fastest` is the slowest ceiling, stretched by the last wave: everything else hides behind it.  `slowest`
    adds the ceilings up: nothing overlaps.
    """

    gpu: str
    peak_tflops: float
    intensities: tuple[Intensity, ...]
    waves: Waves
    ceilings: tuple[tuple[Ceiling, float], ...]
    fastest: float
    slowest: float

    @property
    def binding(self) -> Ceiling:
        """The ceiling that takes longest."""
        return max(self.ceilings, key=lambda ceiling: ceiling[1])[0]


def intensities(kernel: Kernel, shape: Shape) -> tuple[Intensity, ...]:
    """Floats per multiply-add between tiers, from the extents of the tiles alone."""
    thread_m, thread_n = kernel.threads.rows.count.value, kernel.threads.cols.count.value
    block_m, block_n = kernel.block_m.value, kernel.block_n.value
    per_thread = 1 / thread_m + 1 / thread_n
    per_block = 1 / block_m + 1 / block_n if kernel.staging is not None else per_thread
    found = []
    if kernel.staging is not None:
        found.append(_intensity("shared memory to registers", per_thread))
        found.append(_intensity("global to shared memory", per_block))
    else:
        found.append(_intensity("global memory to registers", per_thread))
    fmas = shape.m * shape.n * shape.k
    moved = shape.m * shape.k + shape.k * shape.n + shape.m * shape.n
    if fmas and kernel.split is not None:
        # Blocks that add to C, or store a part, move as many floats as they have outputs.
        busy = sum(tiles > 0 for tiles in part_tiles(kernel, shape))
        found.append(_intensity("parts of C added up", busy / shape.k))
    if fmas:
        found.append(_intensity("matrices read and written once", moved / fmas))
    return tuple(found)


def _intensity(tier: str, floats_per_fma: float) -> Intensity:
    return Intensity(tier, floats_per_fma, 2 / (WORD * floats_per_fma))


def waves(kernel: Kernel, shape: Shape, occupancy: Occupancy) -> Waves:
    per_m, per_n = blocks(kernel, shape)
    tiles = per_m * per_n
    # A block without a part of K is done at once.
    busy = sum(depth > 0 for depth in part_tiles(kernel, shape)) if kernel.split is not None else 1
    count, sms = tiles * busy, kernel.spec.target.gpu.sms
    resident = max(1, occupancy.blocks) * sms
    most = ceil_div(count, sms)
    lost = 1 - count / (most * sms) if count else 0.0
    first = min(count, resident)
    # The first axis of the grid goes through the tiles of C, the second one through the parts of K.
    env: dict[str, Array | int] = {
        BLOCK.name: np.arange(min(first, tiles)),
        BLOCKS_M.name: per_m,
        BLOCKS_N.name: per_n,
    }
    rows, cols = (len(np.unique(evaluate(part, env))) for part in (kernel.grid.row, kernel.grid.col))
    parts = ceil_div(first, tiles) if tiles else 1
    return Waves(count, resident, count / resident, sms, most, lost, rows, cols, max(1, parts))


def executed(kernel: Kernel, shape: Shape) -> int:
    """Multiply-adds of a launch: blocks multiply whole tiles, also where these reach beyond the matrices."""
    rows, cols = blocks(kernel, shape)
    depth = shape.k if kernel.block_k is None else k_tiles(kernel, shape) * kernel.block_k.value
    return rows * cols * kernel.block_m.value * kernel.block_n.value * depth


def roofline(
    kernel: Kernel,
    shape: Shape,
    occupancy: Occupancy,
    accesses: Sequence[Access],
    instructions: int | None,
) -> Roofline:
    """Ceilings of a launch with these accesses; `instructions` are warps' issues, where they are known."""
    target = kernel.spec.target
    gpu = target.gpu
    cycles_per_second = gpu.clock_mhz * 1e6
    lanes = gpu.sms * target.fp32_lanes
    # Both memories are one array of banks behind one pipe; an access to global memory takes a cycle at least.
    pipe = sum(
        access.total.cost
        if access.space == "shared"
        else max(access.total.requests, access.total.cost / _SECTORS_PER_CYCLE)
        for access in accesses
    )
    # Without an output nothing is launched, and nothing read.
    moved = WORD * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n) if shape.m * shape.n else 0
    ceilings: list[tuple[Ceiling, float]] = [
        ("FP32", executed(kernel, shape) / lanes / cycles_per_second),
        ("L1 and shared memory", pipe / WAVEFRONTS_PER_CYCLE / gpu.sms / cycles_per_second),
        ("DRAM", moved / (gpu.dram_gb_s * 1e9)),
    ]
    if instructions is not None:
        issue = instructions / (SM_PARTITIONS * gpu.sms) / cycles_per_second
        ceilings.insert(1, ("instruction issue", issue))
    filled = waves(kernel, shape, occupancy)
    longest = max(seconds for _, seconds in ceilings)
    stretched = longest / (1 - filled.lost)
    return Roofline(
        gpu=gpu.name,
        peak_tflops=2 * lanes * cycles_per_second / 1e12,
        intensities=intensities(kernel, shape),
        waves=filled,
        ceilings=tuple(ceilings),
        fastest=stretched,
        slowest=sum(seconds for _, seconds in ceilings) / (1 - filled.lost),
    )


def bandwidths(kernel: Kernel) -> dict[str, float]:
    """Bytes per second of shared memory (all SMs) and DRAM of the target's example GPU."""
    gpu = kernel.spec.target.gpu
    shared = gpu.sms * WAVEFRONTS_PER_CYCLE * BANKS * WORD * gpu.clock_mhz * 1e6
    return {"shared memory": shared, "DRAM": gpu.dram_gb_s * 1e9}
