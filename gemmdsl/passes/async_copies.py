"""Asynchronous copies: a pipeline of tiles that go from global to shared memory without registers."""

from __future__ import annotations

from gemmdsl.index import Bound, Int, Named, Var
from gemmdsl.ir import (
    K_TILES,
    TILE,
    AsyncCopyTile,
    Barrier,
    CommitGroup,
    Counter,
    For,
    If,
    Kernel,
    Less,
    MultiplyTile,
    StoreOutput,
    WaitGroups,
)
from gemmdsl.passes._tiles import with_buffers

LANDED = "this tile has landed for all, and nobody reads the last one any more"


def async_copies(kernel: Kernel) -> Kernel:
    """BUFFERS slots per operand, BUFFERS - 1 tiles in flight (cp.async, sm_80 and later).

    Before: copy, barrier, multiply, barrier.  After: the copies of tile t + BUFFERS - 1 are issued before
    tile t is multiplied; one group per tile, empty groups at the end keep the count; one barrier per tile.
    Needs: `buffers N async`, copies that keep their width (4 bytes each where the tile is transposed).
    """
    schedule = kernel.spec.schedule
    if not schedule.asynchronous:
        return kernel
    buffers = Named("BUFFERS", Int(schedule.buffers), "slots of each shared tile")
    slot = Bound("slot", TILE % buffers)
    ahead = TILE + buffers - 1
    free_slot = Bound("free_slot", ahead % buffers)
    prologue = Var("tile", schedule.buffers - 1)
    return with_buffers(
        kernel,
        buffers,
        (
            For(
                prologue,
                Int(0),
                buffers - 1,
                (
                    If(
                        Less(prologue, K_TILES),
                        (AsyncCopyTile("A", prologue, prologue), AsyncCopyTile("B", prologue, prologue)),
                    ),
                    CommitGroup(),
                ),
                unroll=True,
            ),
            For(
                TILE,
                Int(0),
                K_TILES,
                (
                    WaitGroups(buffers - 2),
                    Barrier(LANDED),
                    If(
                        Less(ahead, K_TILES),
                        (
                            AsyncCopyTile("A", ahead, free_slot),
                            AsyncCopyTile("B", ahead, free_slot),
                        ),
                    ),
                    CommitGroup(),
                    MultiplyTile(slot),
                ),
                counters=(Counter(slot, Int(0), buffers), Counter(free_slot, buffers - 1, buffers)),
            ),
            StoreOutput(),
        ),
    )
