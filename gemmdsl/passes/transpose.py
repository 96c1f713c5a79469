"""Transposition: an operand's tile is kept in shared memory with its axes exchanged."""

from __future__ import annotations

from dataclasses import replace

from gemmdsl.ir import Kernel, Staging
from gemmdsl.layout import shared_tile
from gemmdsl.passes._tiles import map_staging
from gemmdsl.spec import StagedName


def transpose(kernel: Kernel) -> Kernel:
    """Exchanges rows and columns of the shared tile of every operand whose stage says `transpose`.

    Before: a tile's rows run along the operand's rows in global memory.  After: a row-major A is kept as
    [k][m], so that a fragment (neighbours along M) is contiguous and can be read as a vector; loads from
    global memory stay as they were, their elements are stored to different rows.
    """

    def change(name: StagedName, staging: Staging) -> Staging:
        if not kernel.spec.schedule.stage(name).transpose:
            return staging
        tile = staging.tile
        fragment, depth = (tile.cols, tile.rows) if tile.k_outer else (tile.rows, tile.cols)
        return replace(staging, tile=shared_tile(tile.operand, fragment, depth, transpose=True))

    return map_staging(kernel, change)
