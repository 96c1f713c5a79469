"""Warp tiling: each warp owns a rectangle of the block tile, its lanes laid over it as asked."""

from __future__ import annotations

from dataclasses import replace

from gemmdsl.ir import Kernel
from gemmdsl.layout import ThreadTile, warp_map


def warp_tiling(kernel: Kernel) -> Kernel:
    """Groups outputs by warp, so that a warp's fragment reads touch few rows of A and columns of B.

    Before: threads lie over the block tile as one grid.  After: warps over the block tile, lanes (row,
    column or paired order) over the warp tile, a thread's pieces spread over the warp tile.  Needs: block
    tile divisible by the warp tile, warp tile = lanes x thread tile, 32 lanes.  Establishes: one owner each.
    """
    schedule = kernel.spec.schedule
    if schedule.warp is None:
        return kernel
    assert schedule.lanes is not None, "the checker derives lanes from the warp tile"
    tile = ThreadTile((schedule.thread_m, schedule.thread_n), (schedule.piece_m, schedule.piece_n))
    threads = warp_map(
        kernel.block_m, kernel.block_n, tile, schedule.warp, schedule.lanes, schedule.lane_order
    )
    return replace(kernel, threads=threads)
