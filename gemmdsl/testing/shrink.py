"""The smallest case that still fails, found by simplifying one part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gemmdsl.cuda_source import LaunchPlan
from gemmdsl.spec import Problem
from gemmdsl.testing.case import NAMES, Case
from gemmdsl.testing.edges import alignments, multiples, paths, up

_MOST_RUNS = 300
_PLAIN = {"operands": "integers", "order": "forward", "landing": "late", "entry": "", "seed": 0}


def shrink(case: Case, problem: Problem, plan: LaunchPlan, fails: Callable[[Case], bool]) -> Case:
    """A case that fails and of which no part can be made simpler; `fails` is asked at most 300 times."""
    tried: set[Case] = {case}
    runs = 0
    simpler = True
    while simpler:
        simpler = False
        for candidate in _simpler(case, problem, plan):
            if candidate in tried or not candidate.allowed(plan):
                continue
            tried.add(candidate)
            if candidate.entry and candidate.entry not in paths(plan, candidate):
                continue
            if runs == _MOST_RUNS:
                return case
            runs += 1
            if fails(candidate):
                case, simpler = candidate, True
                break
    return case


def _simpler(case: Case, problem: Problem, plan: LaunchPlan) -> Iterator[Case]:
    """Cases that are one step simpler, the largest steps first."""
    least = multiples(plan.preconditions)
    aligned = alignments(plan)

    def sized(**sizes: int) -> Case:
        """Other sizes; the paddings behind the rows stay."""
        smaller = case.changed(**sizes)
        lds = {}
        for name in NAMES:
            operand = problem.operand(name)
            change = max(1, smaller.extents[operand.contiguous]) - max(1, case.extents[operand.contiguous])
            lds[operand.ld] = up(case.ld(name) + change, aligned[name])
        return smaller.changed(**lds)

    for axis, size in case.extents.items():
        unit = least[axis]
        steps = {0, unit, up(size // 2, unit), up(size * 3 // 4, unit), size - unit}
        for step in sorted(step for step in steps if 0 <= step < size):
            yield sized(**{axis.lower(): step})
    if case.alpha != 1:
        yield case.changed(alpha=1.0)
    if case.beta not in (0, 1):
        yield case.changed(beta=1.0)
    if case.beta != 0:
        yield case.changed(beta=0.0)
    for name in NAMES:
        tight = up(max(1, case.extents[problem.operand(name).contiguous]), aligned[name])
        if case.ld(name) > tight:
            yield case.changed(**{problem.operand(name).ld: tight})
        if case.offset(name):
            yield case.changed(**{f"offset_{name.lower()}": 0})
    for key, plain in _PLAIN.items():
        if getattr(case, key) != plain:
            yield case.changed(**{key: plain})
