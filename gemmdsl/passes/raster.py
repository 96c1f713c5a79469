"""Raster: in which order blocks go through the tiles of C."""

from __future__ import annotations

from dataclasses import replace

from gemmdsl.ir import Kernel
from gemmdsl.layout import raster_grid


def raster(kernel: Kernel) -> Kernel:
    """Groups the rows (or columns) of tiles that blocks go through together.

    Before: one row of tiles after the other, so that the blocks that run at the same time read few rows of A
    and all columns of B.  After: down the columns of a group of rows, so that they read fewer of both, and
    more of it comes from the L2 cache.  The last group has what rows are left.  Which block computes a tile
    is all that changes.
    """
    schedule = kernel.spec.schedule
    grid = raster_grid(schedule.raster, schedule.raster_along)
    return kernel if grid == kernel.grid else replace(kernel, grid=grid)
