"""Ping-pong buffers: the next tile travels through registers while this one is multiplied."""

from __future__ import annotations

from gemmdsl.index import Int, Named
from gemmdsl.ir import (
    K_TILES,
    TILE,
    Barrier,
    For,
    If,
    Kernel,
    Less,
    LoadTile,
    MultiplyTile,
    StoreOutput,
    StoreTile,
)
from gemmdsl.passes._tiles import with_buffers

FIRST = "the first tile is complete before anyone reads it"
NEXT = "the next tile is complete, and nobody reads this one any more"


def ping_pong(kernel: Kernel) -> Kernel:
    """Two slots per operand: loads of tile t + 1 overlap the multiplication of tile t.

    Before: copy, barrier, multiply, barrier.  After: one barrier per tile; the loads into registers start
    before the multiplication and are stored to the other slot after it.  Needs: `buffers 2`, staged tiles.
    """
    schedule = kernel.spec.schedule
    if schedule.buffers != 2 or schedule.asynchronous:
        return kernel
    buffers = Named("BUFFERS", Int(2), "slots of each shared tile")
    following = TILE + 1
    more = Less(following, K_TILES)
    return with_buffers(
        kernel,
        buffers,
        (
            If(
                Less(Int(0), K_TILES),
                (
                    LoadTile("A", Int(0)),
                    LoadTile("B", Int(0)),
                    StoreTile("A", Int(0)),
                    StoreTile("B", Int(0)),
                    Barrier(FIRST),
                ),
            ),
            For(
                TILE,
                Int(0),
                K_TILES,
                (
                    If(more, (LoadTile("A", following), LoadTile("B", following))),
                    MultiplyTile(TILE % buffers),
                    If(more, (StoreTile("A", following % buffers), StoreTile("B", following % buffers))),
                    Barrier(NEXT),
                ),
            ),
            StoreOutput(),
        ),
    )
