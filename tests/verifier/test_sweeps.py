"""Planted faults in how kernels go through C: each is refuted, and what is proved is what counting finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from gemmdsl.cuda_source import Sweep
from gemmdsl.extents import ACROSS, ALL_DOWN, DOWN, SWEEP_THREAD, SweepMap, sweep_map, tiles
from gemmdsl.index import Int, Named, Var, evaluate, least
from gemmdsl.spec import Operand, Order
from gemmdsl.verifier.failure import Refuted
from gemmdsl.verifier.sweeps import prove_swept

ROWS, COLUMNS = (Operand("C", "M", "N", order) for order in (Order.ROW, Order.COLUMN))
LIMIT = Named("SWEEP_BLOCKS", Int(65535))

FAULTS: dict[str, Callable[[SweepMap], SweepMap]] = {
    "half the threads": lambda s: replace(s, threads=Named("SWEEP_THREADS", Int(128))),
    "more threads than a block has": lambda s: replace(
        s, threads=Named("SWEEP_THREADS", Int(2048)), lines=Named("SWEEP_LINES", Int(64))
    ),
    "every thread of a line at its first element": lambda s: replace(s, at=ACROSS * s.length),
    "all blocks at the start of a line": lambda s: replace(s, at=SWEEP_THREAD % s.length),
    "threads along a line as on another one": lambda s: replace(
        s, at=ACROSS * s.length + SWEEP_THREAD % s.lines
    ),
    "places that begin anew far away": lambda s: replace(s, at=s.at % Int(1 << 20)),
    "all threads in one line": lambda s: replace(s, first=DOWN * s.lines + Int(0)),
    "lines dealt as places are": lambda s: replace(s, first=DOWN * s.lines + SWEEP_THREAD % s.length),
    "blocks that overlap": lambda s: replace(s, first=DOWN + SWEEP_THREAD // s.length),
    "a step of a block": lambda s: replace(s, step=s.lines + Int(0)),
    "a step of a grid's blocks": lambda s: replace(s, step=ALL_DOWN + Int(0)),
    "no blocks for the rest of a line": lambda s: replace(s, grid=(Var("N") // s.length, s.grid[1])),
    "a block too many": lambda s: replace(s, grid=(s.grid[0] + Int(1), s.grid[1])),
    "no block for few lines": lambda s: replace(s, grid=(s.grid[0], least(Var("M") // s.lines, LIMIT))),
    "more blocks than CUDA allows": lambda s: replace(s, grid=(s.grid[0], tiles(Var("M"), s.lines))),
    "a grid along the other axes": lambda s: replace(s, grid=sweep_map(COLUMNS).grid),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_refuted(name: str) -> None:
    with pytest.raises(Refuted) as caught:
        prove_swept(FAULTS[name](sweep_map(ROWS)), ROWS)
    assert caught.value.rule.name == "sweeps"
    assert caught.value.witness


@pytest.mark.parametrize("c", [ROWS, COLUMNS])
def test_each_element_is_met_once_where_all_are_counted(c: Operand) -> None:
    sweep = sweep_map(c)
    assert prove_swept(sweep, c)
    plan = Sweep("sweep", (), c.contiguous, sweep.length.value, sweep.lines.value, sweep.grid)
    # Also on fewer blocks from line to line than there would be: they go on.
    for (m, n), fewer in product(((1, 1), (9, 33), (31, 64), (40, 70)), (False, True)):
        across, down, _ = plan.grid(m, n)
        down = 1 if fewer else down
        lines, length = (m, n) if c.contiguous == "N" else (n, m)
        met: Counter[tuple[int, int]] = Counter()
        for x, y, thread in product(range(across), range(down), range(plan.threads)):
            env = {ACROSS.name: x, DOWN.name: y, ALL_DOWN.name: down, SWEEP_THREAD.name: thread}
            at, first, step = (int(evaluate(part, env)) for part in (sweep.at, sweep.first, sweep.step))
            met.update((line, at) for line in range(first, lines, step) if at < length)
        assert met == Counter(product(range(lines), range(length)))
