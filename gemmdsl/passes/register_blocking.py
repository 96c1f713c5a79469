"""Register blocking: a thread owns a tile of outputs instead of one."""

from __future__ import annotations

from dataclasses import replace

from gemmdsl.ir import Kernel
from gemmdsl.layout import ThreadTile, grid_map
from gemmdsl.lowering import rows_first


def register_blocking(kernel: Kernel) -> Kernel:
    """Gives each thread thread_m x thread_n outputs, in pieces spread evenly over the block tile.

    Before: THREADS = BLOCK_M * BLOCK_N, one accumulator each.  After: THREADS shrinks by the thread tile and
    a value read once feeds a row or a column of it.  Needs: block tile divisible by the thread tile, thread
    tile by its pieces.  Establishes: every output still has exactly one owner.
    """
    schedule = kernel.spec.schedule
    if (schedule.thread_m, schedule.thread_n) == (1, 1):
        return kernel
    tile = ThreadTile((schedule.thread_m, schedule.thread_n), (schedule.piece_m, schedule.piece_n))
    return replace(kernel, threads=grid_map(kernel.block_m, kernel.block_n, tile, rows_first(kernel.spec)))
