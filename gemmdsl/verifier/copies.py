"""Asynchronous copies: as wide in shared as in global memory, and issued in batches that leave none out."""

from __future__ import annotations

from gemmdsl.index import Int, evaluate
from gemmdsl.ir import Staging
from gemmdsl.layout import CopyMap
from gemmdsl.spec import WIDTHS
from gemmdsl.verifier.failure import ASYNC_WIDTH, COPY_COVERAGE, Refuted


def prove_batches(copies: CopyMap, batches: int) -> None:
    """Batches of a tile's copies follow each other, from the first copy to the last one."""
    reached = 0
    for batch in range(batches):
        first, end = (evaluate(place, {}) for place in copies.batch(Int(batch), Int(batches)))
        if first != reached or end < first or (batch + 1 == batches and end != copies.copies.value):
            raise Refuted(
                COPY_COVERAGE,
                f"batch {batch} of {batches} of {copies.operand.name} has copies {first} to {end}",
                reached=reached,
                batch=batch,
                copies=copies.copies.value,
            )
        reached = int(end)


def prove_async_width(staging: Staging) -> None:
    """An asynchronous copy moves 4, 8 or 16 bytes to neighbouring words, 4 where it transposes."""
    width, store, transposed = staging.copy.width.value, staging.store.value, staging.tile.transposed
    if width not in WIDTHS or store != width or (transposed and width != 1):
        raise Refuted(
            ASYNC_WIDTH,
            f"async copies of {staging.tile.operand.name} cannot load {width} and store {store} floats",
            load=width,
            store=store,
            transposed=str(transposed).lower(),
        )
