"""Calls of a launcher that must be refused, each with its own status, and odd ones that must not be.

Like the error exits of the reference BLAS tests: one argument is wrong at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from gemmdsl.cuda_source import Aligned, CudaSource, Multiple, Status
from gemmdsl.emulator.run import arguments_of, launch
from gemmdsl.launch_errors import LaunchError
from gemmdsl.reference import StoredMatrix
from gemmdsl.spec import OperandName, Problem
from gemmdsl.testing.case import NAMES, Case, make_case
from gemmdsl.testing.edges import AXES, alignments, multiples, up
from gemmdsl.testing.outcome import Finding

_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Call:
    """A case with some arguments of the launcher replaced (addresses: 0, or the name of another operand), and
    the status that it must return."""

    title: str
    case: Case
    status: Status
    arguments: Mapping[str, int | str] = field(default_factory=dict)

    def check(self, source: CudaSource, *, cached: bool = True, checked: bool = False) -> tuple[Finding, ...]:
        """What is wrong with how the launcher answered: another status, or a write although it refused.

        `cached` and `checked` choose the build of the kernel: those of the runs before.
        """
        case = self.case
        stored: dict[OperandName, StoredMatrix] = {}
        for name in NAMES:
            operand = source.problem.operand(name)
            rows, cols = (case.extents[axis] for axis in (operand.rows, operand.cols))
            stored[name] = StoredMatrix(operand, rows, cols, ld=case.ld(name), offset=case.offset(name))
        arguments = arguments_of(stored, case.m, case.n, case.k)
        addresses: dict[str, int] = {name: matrix.address for name, matrix in stored.items()}
        for key, value in self.arguments.items():
            arguments[key] = value if isinstance(value, int) else addresses[value]
        before = {name: matrix.buffer.copy() for name, matrix in stored.items()}
        status, told = Status.SUCCESS, ""
        try:
            launch(source, arguments, case.alpha, case.beta, cached=cached, checked=checked)
        except LaunchError as refused:
            status, told = refused.status or Status.LAUNCH_FAILED, f": {refused.diagnostics[0].message}"
        if status is not self.status:
            return (Finding("status", f"{self.title}: returned {status.name}, not {self.status.name}{told}"),)
        if self.status is not Status.SUCCESS and any(
            not np.array_equal(before[name], stored[name].buffer) for name in NAMES
        ):
            return (
                Finding("memory", f"{self.title}: refused with {status.name}, and yet memory was written"),
            )
        if self.status is Status.SUCCESS and case.m * case.n and np.any(stored["C"].matrix != 0):
            return (Finding("result", f"{self.title}: C must become 0"),)
        return ()


def calls(source: CudaSource) -> Iterator[Call]:
    """Every kind of wrong argument that the problem and the schedule's assumptions have; then calls that look
    wrong and are right."""
    problem, plan = source.problem, source.plan
    needed, aligned = multiples(plan), alignments(plan)
    m, n, k = (up(size, needed[axis]) for size, axis in zip((5, 7, 9), AXES, strict=True))
    right = _tidy(problem, make_case(problem, m, n, k), aligned)
    for axis in AXES:
        yield Call(f"{axis} = -1", right, Status.NEGATIVE_SIZE, {axis: -1})
    for name in NAMES:
        operand = problem.operand(name)
        short = right.extents[operand.contiguous] - 1
        yield Call(f"{operand.ld} = {short}", right, Status.LEADING_DIMENSION, {operand.ld: short})
        yield Call(f"{operand.ld} = 0", right, Status.LEADING_DIMENSION, {operand.ld: 0})
        yield Call(f"{name} is null", right, Status.NULL_POINTER, {name: 0})
    for name in NAMES[:2]:
        yield Call(f"C is {name}", right, Status.OVERLAP, {"C": name})
    for condition in plan.preconditions:
        match condition:
            case Multiple(axis, of) if of > 1:
                wrong = right.changed(**{axis.lower(): right.extents[axis] + 1})
                wrong = _tidy(problem, wrong, aligned)
                yield Call(f"not {condition}", wrong, Status.PRECONDITION)
            case Aligned(operand_name, elements) if elements > 1:
                wrong = right.changed(**{f"offset_{operand_name.lower()}": 1})
                yield Call(f"not {condition}", wrong, Status.PRECONDITION)
    # 2^31 - 1 rows and columns are more blocks than a grid can have, for any block tile.
    huge: dict[str, int] = {axis: _INT_MAX // needed[axis] * needed[axis] for axis in AXES[:2]}
    lds = {problem.operand(name).ld: _INT_MAX // aligned[name] * aligned[name] for name in NAMES}
    if all(huge[axis] <= min(lds.values()) for axis in huge):
        nothing = right.changed(k=0)
        yield Call("a grid too large", nothing, Status.TOO_LARGE, {**huge, **lds, "K": 0})
    nowhere: dict[str, int | str] = {"A": 0, "B": 0}
    yield Call("M = 0, no memory", right.changed(m=0), Status.SUCCESS, {**nowhere, "C": 0})
    yield Call("N = 0, no memory", right.changed(n=0), Status.SUCCESS, {**nowhere, "C": 0})
    yield Call("K = 0, no inputs", right.changed(k=0), Status.SUCCESS, nowhere)
    if problem.alpha:
        yield Call("alpha = 0, no inputs", right.changed(alpha=0.0), Status.SUCCESS, nowhere)


def _tidy(problem: Problem, case: Case, aligned: Mapping[OperandName, int]) -> Case:
    """The case with leading dimensions that suit its sizes and alignments."""
    lds = {
        problem.operand(name).ld: up(max(2, case.extents[problem.operand(name).contiguous]), aligned[name])
        for name in NAMES
    }
    return case.changed(**lds)
