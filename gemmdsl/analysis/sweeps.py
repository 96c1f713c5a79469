"""Kernels that go through all of C around the main one: what they do to global memory, as written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import assert_never

import numpy as np

from gemmdsl.analysis.access import Access, Kind
from gemmdsl.analysis.classes import axis_classes
from gemmdsl.analysis.lines import SourceMap
from gemmdsl.analysis.parts import output_steps, part_classes
from gemmdsl.analysis.shape import Shape
from gemmdsl.analysis.tally import Tally
from gemmdsl.cuda_source import LaunchPlan
from gemmdsl.cuda_source import Sweep as PlannedSweep
from gemmdsl.ir import Kernel, ReduceParts, ScaleOutput, Sweep

_FLOAT = 4


@dataclass(frozen=True, slots=True)
class Swept:
    """One such kernel: `before` the main one or after it, its blocks and threads of each, its accesses."""

    name: str
    before: bool
    blocks: int
    threads: int
    accesses: tuple[Access, ...]


def swept(kernel: Kernel, plan: LaunchPlan, shape: Shape, places: SourceMap) -> tuple[Swept, ...]:
    """The kernels that a call launches around the main one; C is not read, as beta is 0."""
    pairs = (
        *((*pair, True) for pair in zip(kernel.before, plan.before, strict=True)),
        *((*pair, False) for pair in zip(kernel.after, plan.after, strict=True)),
    )
    found = []
    for sweep, planned, before in pairs:
        across, along, _ = planned.grid(shape.m, shape.n)
        accesses = tuple(_accesses(kernel, sweep, planned, shape, places))
        found.append(Swept(planned.name, before, across * along, planned.threads, accesses))
    return tuple(found)


def _accesses(
    kernel: Kernel, sweep: Sweep, planned: PlannedSweep, shape: Shape, places: SourceMap
) -> Iterator[Access]:
    match sweep:
        case ScaleOutput():
            pass
        case ReduceParts():
            ld, _ = output_steps(kernel, shape)
            starts = Counter[int]()
            for part in part_classes(kernel, shape):
                starts[part.residues[2]] += part.times
            yield from _elements(planned, shape, places, "load", ld, starts, "from[")
        case _:
            assert_never(sweep)
    yield from _elements(planned, shape, places, "store", shape.ldc, Counter({0: 1}), "*to = ")


def _elements(
    planned: PlannedSweep,
    shape: Shape,
    places: SourceMap,
    kind: Kind,
    ld: int,
    starts: Counter[int],
    marker: str,
) -> Iterator[Access]:
    """A word for each element of matrices with lines `ld` floats apart, which begin at these floats."""
    thread = np.arange(planned.threads)
    line, at = np.divmod(thread, planned.length)
    lines, length = shape.m, shape.n
    if planned.contiguous == "M":
        lines, length = length, lines
    tally = Tally("global", kind, _FLOAT)
    down, along = axis_classes(lines, planned.lines, (ld,)), axis_classes(length, planned.length, (1,))
    for row, col, (start, times) in product(down, along, starts.items()):
        address = row.residues[0] + col.residues[0] + start + line * ld + at
        active = (line < row.left) & (at < col.left)
        tally.add(address * _FLOAT, active, row.times * col.times * times)
    if tally.total.requests:
        yield Access(
            *("global", kind, "C", planned.name, places.find(planned.name, marker), _FLOAT),
            *(tally.total, None, tally.example),
        )
