"""Single writing of C: who owns which outputs, and whether vectors of C are vectors."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.layout import AxisMap, ThreadMap
from gemmdsl.spec import Operand
from gemmdsl.verifier.enumerate import first, missing_or_repeated, values
from gemmdsl.verifier.failure import OUTPUT_VECTORS, OUTPUTS, Refuted

if TYPE_CHECKING:
    from gemmdsl.index import Array


@lru_cache(maxsize=16)
def owned(threads: ThreadMap, axis: str) -> Array:
    """[THREADS][count] coordinates along M or N of each thread's outputs, proved to lie in the block tile.

    M coordinates are free of j and N coordinates free of i, so the two arrays together are the whole map.
    """
    counter, of_axis = (threads.i, threads.rows) if axis == "M" else (threads.j, threads.cols)
    owned = values(of_axis.index(counter), threads.thread, counter)
    outside = (owned < 0) | (owned >= of_axis.block.value)
    if outside.any():
        thread, i = first(outside)
        raise Refuted(
            OUTPUTS,
            f"thread {thread} owns an output outside of the block tile",
            thread=thread,
            **{counter.name: i, axis.lower(): int(owned[thread, i]), of_axis.block.name: of_axis.block.value},
        )
    return owned


@lru_cache(maxsize=16)
def prove_outputs(threads: ThreadMap) -> str:
    """Every element of the block tile has exactly one owner."""
    rows, cols = owned(threads, "M"), owned(threads, "N")
    block_m, block_n = threads.rows.block.value, threads.cols.block.value
    elements = rows[:, :, None] * block_n + cols[:, None, :]
    broken = missing_or_repeated(elements, block_m * block_n)
    if broken is not None:
        m, n = divmod(broken, block_n)
        owners = [(int(t), int(i), int(j)) for t, i, j in np.argwhere(elements == broken)[:2]]
        if not owners:
            raise Refuted(OUTPUTS, f"no thread owns C[{m}][{n}] of the block tile", m=m, n=n)
        (thread, i, j), (other, other_i, other_j) = owners
        raise Refuted(
            OUTPUTS,
            f"C[{m}][{n}] of the block tile has two owners",
            m=m,
            n=n,
            thread=thread,
            i=i,
            j=j,
            other_thread=other,
            other_i=other_i,
            other_j=other_j,
        )
    count = rows.shape[1] * cols.shape[1]
    outputs = f"{block_m * block_n} outputs, {count} for each of {len(rows)} threads"
    return f"C tile: {outputs}, each written exactly once"


@lru_cache(maxsize=16)
def prove_output_vectors(threads: ThreadMap, operand: Operand, width: int) -> str:
    """`width` consecutive outputs of a thread are neighbours in C and start at a multiple of `width`."""
    of_axis: AxisMap = threads.rows if operand.contiguous == "M" else threads.cols
    owned_here = owned(threads, operand.contiguous)
    count = owned_here.shape[1]
    if count % width or of_axis.block.value % width:
        raise Refuted(
            OUTPUT_VECTORS,
            f"{width}-float vectors of C do not divide a thread's {count} outputs or the block tile",
            width=width,
            outputs=count,
            block=of_axis.block.value,
        )
    broken = not_vectors(owned_here, width)
    if broken is not None:
        thread, i = broken
        raise Refuted(
            OUTPUT_VECTORS,
            f"{width} outputs of thread {thread} along {operand.contiguous} are no aligned vector of C",
            thread=thread,
            width=width,
            **{f"{operand.contiguous.lower()}{d}": int(owned_here[thread, i + d]) for d in range(width)},
        )
    return f"C stores: {width} neighbours at a time, each vector at a multiple of {width}"


def not_vectors(coordinates: Array, width: int) -> tuple[int, int] | None:
    """(thread, i) of the first `width` columns that do not count up from a multiple of `width`."""
    grouped = coordinates.reshape(len(coordinates), -1, width)
    start = grouped[:, :, :1]
    wrong = ((grouped != start + np.arange(width)) | (start % width != 0)).any(axis=2)
    if not wrong.any():
        return None
    thread, group = first(wrong)
    return thread, group * width
