"""The order in which the parts of K are summed, told by numbers that absorb each other.

Of three parts in a row the sums are 2^30, -2^30 and 1.  In FP32 their sum is 1 only if 1 is added last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm

import numpy as np

from gemmdsl.cuda_source import CudaSource
from gemmdsl.emulator.checker import Sanitizer
from gemmdsl.emulator.library import RunOptions
from gemmdsl.emulator.run import arguments_of, launch
from gemmdsl.launch_errors import LaunchError
from gemmdsl.reference import StoredMatrix
from gemmdsl.spec import OperandName
from gemmdsl.testing.case import NAMES, Case, make_case
from gemmdsl.testing.edges import alignments, multiples, up
from gemmdsl.testing.outcome import Finding

# 1 beside it is lost.
_LARGE = 2.0**30


@dataclass(frozen=True, slots=True)
class PartsOrder:
    """A case with as much of K for each of `parts` blocks; a column of B tells the order of three of them."""

    parts: int
    case: Case

    def check(
        self, source: CudaSource, *, cached: bool = True, sanitize: tuple[Sanitizer, ...] = ()
    ) -> tuple[Finding, ...]:
        """What is wrong with the run; `cached` and `sanitize` are those of the runs before."""
        case, length = self.case, self.case.k // self.parts
        stored: dict[OperandName, StoredMatrix] = {}
        for name in NAMES:
            operand = source.problem.operand(name)
            rows, cols = case.extents[operand.rows], case.extents[operand.cols]
            stored[name] = StoredMatrix(operand, rows, cols, ld=case.ld(name))
        b = np.zeros((case.k, case.n), np.float32)
        for column in range(case.n):
            first = column % (self.parts - 2) * length
            b[first : first + 3 * length : length, column] = _LARGE, -_LARGE, 1.0
        stored["A"].fill(np.ones((case.m, case.k), np.float32))
        stored["B"].fill(b)
        arguments = arguments_of(stored, case.m, case.n, case.k)
        try:
            launch(
                source,
                arguments,
                options=RunOptions(wanted=sanitize),
                cached=cached,
                checked=bool(sanitize),
            )
        except LaunchError as failed:
            return (Finding("launch", failed.diagnostics[0].message),)
        wrong = np.argwhere(stored["C"].matrix != 1)
        if not wrong.size:
            return ()
        row, column = map(int, wrong[0])
        first = column % (self.parts - 2)
        told = f"parts {first} to {first + 2} of K are not summed in their order: C[{row}, {column}]"
        return (Finding("result", f"{told} = {stored['C'].matrix[row, column]:.9g} where 1 is right"),)


def orders(source: CudaSource) -> Iterator[PartsOrder]:
    """One case where a kernel sums three parts or more in a fixed order; of two, either order is right."""
    problem, plan = source.problem, source.plan
    if plan.parts is None or plan.parts.atomic or plan.parts.count < 3:
        return
    needed, aligned = multiples(plan.preconditions), alignments(plan)
    m, n = up(2, needed["M"]), up(plan.parts.count - 2, needed["N"])
    case = make_case(problem, m, n, lcm(plan.parts.block_k * plan.parts.count, needed["K"]))
    lds = {problem.operand(name).ld: up(case.ld(name), aligned[name]) for name in NAMES}
    yield PartsOrder(plan.parts.count, case.changed(**lds))
