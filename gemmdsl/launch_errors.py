"""What the C launcher's statuses mean to a Python caller; codes `G920` to `G928`, shared by all runtimes.

`G920` is an array that cannot be an operand; `G920 + status` is a status of `gemmdsl.cuda_source.Status`.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gemmdsl.conditions import Aligned, Multiple
from gemmdsl.cuda_source import CudaSource, Status
from gemmdsl.diagnostics import Diagnostic, GemmError, Note
from gemmdsl.source import Source, Span
from gemmdsl.spec import Operand, OperandName, Problem

_FIRST_CODE = 920
_FLOAT_BYTES = 4
_INT_MAX = 2**31 - 1
_LONGEST_SHOWN = 60
_OPERANDS: tuple[OperandName, ...] = ("A", "B", "C")


class LaunchError(GemmError):
    """A kernel was not launched, or did not come to its end.

    `status` is the launcher's, None when it was not called; `argument` names the argument at fault, "" when
    none is.  `cause` is the place in a schedule from which the failure follows.
    """

    def __init__(
        self,
        status: Status | None,
        argument: str,
        message: str,
        *notes: Note,
        cause: tuple[Source, Span] | None = None,
    ) -> None:
        self.status = status
        self.argument = argument
        code = f"G{_FIRST_CODE + (status or 0)}"
        source, span = cause or (None, None)
        super().__init__([Diagnostic(code, message, source, span, notes)])


def unusable(argument: str, message: str) -> LaunchError:
    """The value given for `argument` cannot be passed to a launcher."""
    return LaunchError(None, argument, message)


def scalars(problem: Problem, alpha: object, beta: object) -> tuple[float, float]:
    """Alpha and beta as the kernel gets them, rounded to FP32.

    LaunchError when one is no number, or when it is not the neutral one and the problem does not have it.
    """
    factor, addend = _scalar("alpha", alpha), _scalar("beta", beta)
    if not problem.alpha and factor != 1:
        raise unusable("alpha", f"alpha = {factor:g}, and problem {problem.name} has no alpha")
    if not problem.beta and addend != 0:
        raise unusable("beta", f"beta = {addend:g}, and problem {problem.name} has no beta")
    return factor, addend


def _scalar(name: str, value: object) -> float:
    # Text has neither of these, though float() would take it.
    if not (hasattr(type(value), "__float__") or hasattr(type(value), "__index__")):
        raise unusable(name, f"{name} is {shortened(value)}, and a number is needed")
    try:
        number = float(value)  # type: ignore[arg-type]
    except OverflowError as problem:
        raise unusable(name, f"{name} is too large for a float") from problem
    except (TypeError, ValueError) as problem:
        raise unusable(name, f"{name} is {shortened(value)}, and a number is needed") from problem
    # Beyond the largest float it is infinity.
    return ctypes.c_float(number).value


def shortened(value: object) -> str:
    """The value as Python writes it, on one line that is not too long for a message."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:
        # Of an integer with thousands of digits.
        return "too long to show"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def check_range(source: CudaSource, arguments: Mapping[str, int]) -> None:
    """LaunchError for a size or leading dimension that a launcher cannot be called with.

    `arguments` holds M, N, K, lda, ldb and ldc, and may hold others.
    """
    for name in ("M", "N", "K", *(source.problem.operand(name).ld for name in _OPERANDS)):
        try:
            value = operator.index(arguments[name])
        except TypeError as problem:
            shown = shortened(arguments[name])
            raise unusable(name, f"{name} is {shown}, and an integer is needed") from problem
        if not -_INT_MAX - 1 <= value <= _INT_MAX:
            raise unusable(name, f"{name} = {shortened(value)} is no 32-bit integer")


def check_sizes(source: CudaSource, arguments: Mapping[str, int]) -> None:
    """LaunchError for what the launcher would refuse of them, before there is any memory for operands."""
    check_range(source, arguments)
    if min(arguments[axis] for axis in ("M", "N", "K")) < 0:
        raise from_status(Status.NEGATIVE_SIZE, source, arguments)
    for operand in map(source.problem.operand, _OPERANDS):
        if arguments[operand.ld] < max(1, arguments[operand.contiguous]):
            raise from_status(Status.LEADING_DIMENSION, source, arguments)


def from_status(
    status: int,
    source: CudaSource,
    arguments: Mapping[str, int],
    detail: str = "",
    places: Sequence[str] = (),
    cause: tuple[Source, Span] | None = None,
) -> LaunchError:
    """The exception for a status that is not zero.

    `arguments` are the sizes M, N, K, the leading dimensions lda, ldb, ldc and the addresses A, B, C that
    the launcher was called with; `detail` is what the runtime knows about a failed launch, `places` the
    places in the emitted text that it speaks of, and `cause` the one in the schedule.
    """
    try:
        known = Status(status)
    except ValueError:
        message = f"{source.plan.launcher} returned unknown status {status}"
        return LaunchError(Status.LAUNCH_FAILED, "", message)
    argument, message = _explain(known, source, arguments, detail)
    return LaunchError(known, argument, message, *(Note("at", place) for place in places), cause=cause)


@dataclass(frozen=True, slots=True)
class Lines:
    """Where a matrix is: `lines` of `length` floats, `ld` floats apart, the first one at `address`."""

    address: int
    lines: int
    length: int
    ld: int

    @property
    def extent(self) -> int:
        """Floats from the first to the last, both included; 0 for none."""
        empty = self.lines <= 0 or self.length <= 0
        return 0 if empty else (self.lines - 1) * self.ld + self.length

    @property
    def end(self) -> int:
        """The address behind the last float."""
        return self.address + _FLOAT_BYTES * self.extent

    def meets(self, other: Lines) -> bool:
        """Whether both may share a float, by the test of the C launcher: panels of one matrix, whose lines
        lie side by side, do not."""
        apart = self.address >= other.end or other.address >= self.end
        if apart or self.ld != other.ld:
            return not apart
        pitch = _FLOAT_BYTES * self.ld
        start = (other.address - self.address) % pitch
        return start < _FLOAT_BYTES * self.length or start + _FLOAT_BYTES * other.length > pitch

    def __str__(self) -> str:
        return f"{self.address:#x} to {self.end:#x}"


def lines_of(operand: Operand, arguments: Mapping[str, int]) -> Lines:
    """An operand by a launcher's arguments: sizes, leading dimensions and addresses."""
    lines, length = arguments[operand.strided], arguments[operand.contiguous]
    return Lines(arguments[operand.name], lines, length, arguments[operand.ld])


def meets_output(problem: Problem, name: OperandName, arguments: Mapping[str, int]) -> bool:
    """Whether an input may share memory with C."""
    return lines_of(problem.c, arguments).meets(lines_of(problem.operand(name), arguments))


def extent(operand: Operand, sizes: Mapping[str, int]) -> int:
    """Elements from the first to the last of an operand in memory, both included; 0 for an empty one."""
    return Lines(0, sizes[operand.strided], sizes[operand.contiguous], sizes[operand.ld]).extent


def _explain(
    status: Status, source: CudaSource, arguments: Mapping[str, int], detail: str
) -> tuple[str, str]:
    """The argument at fault and the message."""
    launcher = source.plan.launcher
    match status:
        case Status.NEGATIVE_SIZE:
            for axis in ("M", "N", "K"):
                if arguments[axis] < 0:
                    return axis, f"{axis} = {arguments[axis]}: a size is at least 0"
        case Status.LEADING_DIMENSION:
            for name in _OPERANDS:
                operand = source.problem.operand(name)
                least = max(1, arguments[operand.contiguous])
                if arguments[operand.ld] < least:
                    return operand.ld, (
                        f"{operand.ld} = {arguments[operand.ld]} is below {least}, the least for {name} with"
                        f" {operand.contiguous} = {arguments[operand.contiguous]}"
                    )
        case Status.NULL_POINTER:
            for name in _OPERANDS:
                operand = source.problem.operand(name)
                if arguments[name] == 0 and extent(operand, arguments) > 0:
                    shape = f"{arguments[operand.rows]} x {arguments[operand.cols]}"
                    return name, f"{name} is a null pointer, where a matrix of {shape} elements is needed"
        case Status.OVERLAP:
            for name in ("A", "B"):
                if meets_output(source.problem, name, arguments):
                    c, x = (lines_of(source.problem.operand(one), arguments) for one in ("C", name))
                    return "C", f"C at {c} overlaps {name} at {x}"
        case Status.PRECONDITION:
            for condition in source.plan.preconditions:
                if not condition.holds(arguments):
                    return _violated(condition, source, arguments)
        case Status.TOO_LARGE:
            blocks = source.plan.grid(arguments["M"], arguments["N"])[0]
            return "M" if arguments["M"] >= arguments["N"] else "N", (
                f"M = {arguments['M']} and N = {arguments['N']} need {blocks} blocks,"
                " more than a grid can have"
            )
        case Status.NO_MEMORY:
            memory = source.plan.workspace
            size = memory.size(arguments["M"], arguments["N"]) if memory else 0
            said = f": {detail}" if detail else ""
            return "", f"{launcher} has no {size} bytes of memory for partial sums{said}"
        case Status.LAUNCH_FAILED:
            return "", f"{launcher}: {detail}" if detail else f"the launch of {launcher} failed"
        case Status.SUCCESS:
            raise AssertionError("a launch that succeeded is no error")
    return "", f"{launcher} returned status {int(status)} ({status.name})"


def _violated(
    condition: Multiple | Aligned, source: CudaSource, arguments: Mapping[str, int]
) -> tuple[str, str]:
    match condition:
        case Multiple(axis):
            return axis, f"{axis} = {arguments[axis]}, and {source.plan.launcher} assumes {condition}"
        case Aligned(name):
            operand = source.problem.operand(name)
            return name, (
                f"{name} = {arguments[name]:#x} with {operand.ld} = {arguments[operand.ld]},"
                f" and {source.plan.launcher} assumes {condition}"
            )
