"""Calls of a launcher that must be refused, each with its own status, and odd ones that must not be.

Like the error exits of the reference BLAS tests: one argument is wrong at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from gemmdsl.conditions import Aligned, Multiple
from gemmdsl.cuda_source import CudaSource, Status
from gemmdsl.emulator.checker import Sanitizer
from gemmdsl.emulator.library import RunOptions
from gemmdsl.emulator.run import arguments_of, launch
from gemmdsl.launch_errors import LaunchError, extent
from gemmdsl.reference import Floats, StoredMatrix
from gemmdsl.spec import OperandName, Problem
from gemmdsl.testing.case import NAMES, Case, make_case
from gemmdsl.testing.edges import AXES, alignments, multiples, up
from gemmdsl.testing.outcome import Finding

_INT_MAX = 2**31 - 1
# Elements from one address of a whole alignment to the next.
_LINE = 64


@dataclass(frozen=True, slots=True)
class Place:
    """Where C begins: `elements` from the first element of `operand`, or with `end` from behind its last one;
    with `own`, less the elements that C takes."""

    operand: OperandName
    end: bool = False
    elements: int = 0
    own: bool = False

    def settle(self, problem: Problem, arguments: dict[str, int]) -> Floats:
        """Memory, all 0, with room for C on both sides of the operand; both addresses are put into
        `arguments`."""
        length, own = (extent(problem.operand(name), arguments) for name in (self.operand, "C"))
        arena = np.zeros(length + 2 * own + 2 * _LINE, np.float32)
        # The operand keeps the alignment that it may have to have.
        skipped = -(arena.ctypes.data // 4 + own) % _LINE + own
        arguments[self.operand] = int(arena.ctypes.data) + 4 * skipped
        away = (length if self.end else 0) + self.elements - (own if self.own else 0)
        arguments["C"] = arguments[self.operand] + 4 * away
        return arena


@dataclass(frozen=True, slots=True)
class Call:
    """A case with some arguments of the launcher replaced, or C somewhere else, or, with `starved`, no memory
    for partial sums; and the status that the launcher must return."""

    title: str
    case: Case
    status: Status
    arguments: Mapping[str, int] = field(default_factory=dict)
    place: Place | None = None
    starved: bool = False

    def check(
        self, source: CudaSource, *, cached: bool = True, sanitize: tuple[Sanitizer, ...] = ()
    ) -> tuple[Finding, ...]:
        """What is wrong with how the launcher answered: another status, or a write although it refused.

        `cached` and `sanitize` are those of the runs before, so that no other build of the kernel is made.
        """
        case = self.case
        stored: dict[OperandName, StoredMatrix] = {}
        for name in NAMES:
            operand = source.problem.operand(name)
            rows, cols = (case.extents[axis] for axis in (operand.rows, operand.cols))
            stored[name] = StoredMatrix(operand, rows, cols, ld=case.ld(name), offset=case.offset(name))
        arguments = arguments_of(stored, case.m, case.n, case.k)
        arena = np.zeros(0, np.float32)
        if self.place is not None:
            arena = self.place.settle(source.problem, arguments)
        arguments |= self.arguments
        before = {name: matrix.buffer.copy() for name, matrix in stored.items()}
        status, told = Status.SUCCESS, ""
        try:
            launch(
                source,
                arguments,
                case.alpha,
                case.beta,
                options=RunOptions(wanted=sanitize, refuse_memory=self.starved),
                cached=cached,
                checked=bool(sanitize),
            )
        except LaunchError as refused:
            status, told = refused.status or Status.LAUNCH_FAILED, f": {refused.diagnostics[0].message}"
        if status is not self.status:
            return (Finding("status", f"{self.title}: returned {status.name}, not {self.status.name}{told}"),)
        touched = any(not np.array_equal(before[name], stored[name].buffer) for name in NAMES)
        touched = touched or bool(np.any(arena != 0))
        if self.status is not Status.SUCCESS and touched:
            return (
                Finding("memory", f"{self.title}: refused with {status.name}, and yet memory was written"),
            )
        if (
            self.status is Status.SUCCESS
            and case.m * case.n
            and self.place is None
            and np.any(stored["C"].matrix != 0)
        ):
            return (Finding("result", f"{self.title}: C must become 0"),)
        return ()


def calls(source: CudaSource) -> Iterator[Call]:
    """Every kind of wrong argument that the problem and the schedule's assumptions have; then calls that look
    wrong and are right."""
    problem, plan = source.problem, source.plan
    needed, aligned = multiples(plan.preconditions), alignments(plan)
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
    yield from _overlaps(problem, right, aligned)
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
    if plan.workspace is not None:
        yield Call("no memory for partial sums", right, Status.NO_MEMORY, starved=True)
    nowhere: dict[str, int] = {"A": 0, "B": 0}
    yield Call("M = 0, no memory", right.changed(m=0), Status.SUCCESS, {**nowhere, "C": 0})
    yield Call("N = 0, no memory", right.changed(n=0), Status.SUCCESS, {**nowhere, "C": 0})
    yield Call("K = 0, no inputs", right.changed(k=0), Status.SUCCESS, nowhere)
    if problem.alpha:
        not_a_number = right.changed(k=0, alpha=float("nan"))
        yield Call("K = 0, alpha is NaN", not_a_number, Status.SUCCESS, nowhere)
        yield Call("alpha = 0, no inputs", right.changed(alpha=0.0), Status.SUCCESS, nowhere)


def _overlaps(problem: Problem, right: Case, aligned: Mapping[OperandName, int]) -> Iterator[Call]:
    """C on an input, C and an input with one element in common, and C beside an input, which is right."""
    # Leading dimensions that are all different: each has its part in where an operand ends.
    apart = {problem.operand(name).ld: 4 * turn for turn, name in enumerate(NAMES, 1)}
    case = right.changed(**{ld: getattr(right, ld) + extra for ld, extra in apart.items()})
    for name in NAMES[:2]:
        places = (
            ("is", Place(name), Status.OVERLAP),
            ("begins on the last element of", Place(name, end=True, elements=-1), Status.OVERLAP),
            ("ends on the first element of", Place(name, elements=1, own=True), Status.OVERLAP),
            ("begins behind", Place(name, end=True), Status.SUCCESS),
            ("ends before", Place(name, own=True), Status.SUCCESS),
        )
        for words, place, status in places:
            if words == "is" or aligned["C"] == 1:
                yield Call(f"C {words} {name}", case, status, place=place)


def _tidy(problem: Problem, case: Case, aligned: Mapping[OperandName, int]) -> Case:
    """The case with leading dimensions that suit its sizes and alignments."""
    lds = {
        problem.operand(name).ld: up(max(2, case.extents[problem.operand(name).contiguous]), aligned[name])
        for name in NAMES
    }
    return case.changed(**lds)
