"""Shared staging: the block copies K tiles of A and B into shared memory and multiplies from there."""

from __future__ import annotations

from dataclasses import replace

from gemmdsl.index import Int, Named
from gemmdsl.ir import (
    K_TILES,
    TILE,
    Barrier,
    CopyTile,
    For,
    Kernel,
    MultiplyTile,
    Staging,
    StoreOutput,
)
from gemmdsl.layout import block_size, copy_map, shared_tile
from gemmdsl.spec import Operand

COMPLETE = "the tile is complete before anyone reads it"
CONSUMED = "everyone has read the tile before the next one overwrites it"


def stage_shared(kernel: Kernel) -> Kernel:
    """Walks K in tiles of BLOCK_K; each operand's tile is read from global memory once per block.

    Before: every thread reads its rows and columns from global memory.  After: one shared tile per operand,
    kept in the operand's own layout, filled element by element in order of address; two barriers per tile.
    Needs: a block tile with a K extent.  Establishes: the copies cover each tile exactly once.
    """
    schedule = kernel.spec.schedule
    if not schedule.staged:
        return kernel
    block_k = block_size("K", schedule.block_k)

    def staging(operand: Operand, fragment: Named) -> Staging:
        tile = shared_tile(operand, fragment, block_k)
        return Staging(
            tile=tile,
            copy=copy_map(tile, kernel.threads.threads, 1),
            store=Named(f"{operand.name}_STORE", Int(1), "floats per shared store"),
            read=Named(f"{operand.name}_READ", Int(1), "floats per shared read"),
        )

    problem = kernel.spec.problem
    loop = For(
        TILE,
        Int(0),
        K_TILES,
        (
            CopyTile("A", TILE, None),
            CopyTile("B", TILE, None),
            Barrier(COMPLETE),
            MultiplyTile(None),
            Barrier(CONSUMED),
        ),
    )
    return replace(
        kernel,
        block_k=block_k,
        staging=(staging(problem.a, kernel.block_m), staging(problem.b, kernel.block_n)),
        body=(loop, StoreOutput()),
    )
