"""Kernels that go through all of C: each element is met once, whatever the extents.

An element gives back who meets it: its place in the line, divided by the threads along one, the block along
the line and the thread; its line, divided by those of a whole grid, how often the thread went on before, and
the rest the block and the thread again.  So nobody else meets it; and it is met, as a grid has blocks along
all of a line, and at least one from line to line.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gemmdsl.extents import ACROSS, ALL_DOWN, DOWN, SWEEP_THREAD, SweepMap
from gemmdsl.index import Expr, evaluate
from gemmdsl.spec import Operand
from gemmdsl.target import MAX_BLOCKS, MAX_BLOCKS_DOWN, MAX_THREADS_PER_BLOCK
from gemmdsl.verifier.failure import SWEEPS, Refuted
from gemmdsl.verifier.polynomials import Polynomial, number, polynomial, variables

_INT_MAX = 2**31 - 1


@lru_cache(maxsize=16)
def prove_swept(sweep: SweepMap, c: Operand) -> str:
    """Every element of `c` is met by one thread, once; the grid is one that CUDA allows."""
    threads, length, lines = sweep.threads.value, sweep.length.value, sweep.lines.value
    if threads != length * lines or threads > MAX_THREADS_PER_BLOCK:
        message = f"{threads} threads are not {length} along each of {lines} lines"
        raise Refuted(SWEEPS, message, threads=threads, length=length, lines=lines)
    _show_threads(sweep)
    _prove_grid(sweep, c)
    return "sweeps: a kernel that goes through C meets each element once"


def _show_threads(sweep: SweepMap) -> None:
    """Block, thread and turn follow from line and place, for all grids and any numbers of threads."""
    # The first ones count most: a division by threads or blocks is one by those that come after.
    beside, below, after, turn, across, down, along, line = variables(8)
    one = number(1)
    length, lines, blocks = along + one + beside, line + one + below, down + one + after
    known: dict[Expr, Polynomial] = {
        sweep.length: length,
        sweep.lines: lines,
        SWEEP_THREAD: line * length + along,
        ACROSS: across,
        DOWN: down,
        ALL_DOWN: blocks,
    }
    at, first, step = (polynomial(part, known) for part in (sweep.at, sweep.first, sweep.step))
    if at is None or at.divided(length) != (across, along):
        raise Refuted(SWEEPS, "two threads meet the same place of a line", length=sweep.length.value)
    if first is None or first.divided(lines) != (down, line):
        raise Refuted(SWEEPS, "two threads begin with the same line", lines=sweep.lines.value)
    if step != blocks * lines or (first + turn * step).divided(step) != (turn, first):
        raise Refuted(SWEEPS, "threads go on by other lines than those of a grid", lines=sweep.lines.value)


def _prove_grid(sweep: SweepMap, c: Operand) -> None:
    """Blocks along a line have all of it and no block more; from line to line there is one or more.

    Numbers of blocks depend on an extent by its quotient and its remainder by the threads, and are linear in
    the quotient up to CUDA's limit: every remainder is looked at with the first quotients, about that limit,
    and with the largest extents.
    """
    for axis, count, unit, most in (
        (c.contiguous, sweep.grid[0], sweep.length.value, MAX_BLOCKS),
        (c.strided, sweep.grid[1], sweep.lines.value, MAX_BLOCKS_DOWN),
    ):
        limit = unit * MAX_BLOCKS_DOWN
        ranges = ((1, 4 * unit), (limit - unit, limit + unit), (_INT_MAX - unit, _INT_MAX + 1))
        extents = np.concatenate([np.arange(*each, dtype=np.int64) for each in ranges])
        blocks = np.broadcast_to(evaluate(count, {"M": 1, "N": 1, axis: extents}), extents.shape)
        needed = np.minimum(-(-extents // unit), most)
        if (wrong := blocks != needed).any():
            extent, found = (int(part[int(np.argmax(wrong))]) for part in (extents, blocks))
            message = f"{found} blocks go through {axis} = {extent}"
            raise Refuted(SWEEPS, message, axis=axis, extent=extent, blocks=found)
