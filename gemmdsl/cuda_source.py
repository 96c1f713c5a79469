"""What the emitter hands to runtimes: CUDA text, its entry points and how to launch them.

Runtimes (the CPU emulator, pycuda) see only this module; they know nothing of schedules or passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from gemmdsl.spec import Axis, OperandName, Problem


class Status(IntEnum):
    """What the C launcher returns; printed into the header under the same names."""

    SUCCESS = 0
    NEGATIVE_SIZE = 1
    LEADING_DIMENSION = 2
    NULL_POINTER = 3
    OVERLAP = 4
    PRECONDITION = 5
    TOO_LARGE = 6
    LAUNCH_FAILED = 7

    @property
    def meaning(self) -> str:
        """The sentence that headers and error messages print."""
        return _MEANINGS[self]


_MEANINGS = {
    Status.SUCCESS: "launched, or nothing to do",
    Status.NEGATIVE_SIZE: "M, N or K is negative",
    Status.LEADING_DIMENSION: "a leading dimension is too small",
    Status.NULL_POINTER: "a pointer is null where data is needed",
    Status.OVERLAP: "C shares memory with A or B",
    Status.PRECONDITION: "an assumption of the schedule does not hold",
    Status.TOO_LARGE: "more blocks than a grid can have",
    Status.LAUNCH_FAILED: "CUDA refused the launch; see cudaGetLastError",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the kernels and of the launcher, in order."""

    name: str
    ctype: str


@dataclass(frozen=True, slots=True)
class Multiple:
    """Condition: extent `axis` is a multiple of `of`."""

    axis: Axis
    of: int

    def holds(self, sizes: Mapping[str, int]) -> bool:
        return sizes[self.axis] % self.of == 0

    def __str__(self) -> str:
        return f"{self.axis} % {self.of} == 0"


@dataclass(frozen=True, slots=True)
class Aligned:
    """Condition: the operand's address and its leading dimension allow vectors of `elements` floats."""

    operand: OperandName
    elements: int

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """`sizes` holds the address under the operand's name and its leading dimension under ld<name>."""
        ld = sizes[f"ld{self.operand.lower()}"]
        return sizes[self.operand] % (4 * self.elements) == 0 and ld % self.elements == 0

    def __str__(self) -> str:
        return f"{self.operand} aligned for {self.elements}-float vectors"


Condition = Multiple | Aligned


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A `__global__` function: right whenever all of `requires` holds."""

    name: str
    path: str
    requires: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """How to launch a kernel by hand; the C launcher does exactly this.

    The grid is one-dimensional: ceil(M / block_m) * ceil(N / block_n) blocks of `threads` threads.
    `entries` are in order of preference; the last one requires only `preconditions`.
    """

    launcher: str
    parameters: tuple[Parameter, ...]
    entries: tuple[EntryPoint, ...]
    preconditions: tuple[Condition, ...]
    block_m: int
    block_n: int
    threads: int
    static_shared_bytes: int
    dynamic_shared_bytes: int

    def grid(self, m: int, n: int) -> tuple[int, int, int]:
        """Blocks per grid axis for an m x n output."""
        return (-(-m // self.block_m) * -(-n // self.block_n), 1, 1)

    def select(self, sizes: Mapping[str, int]) -> EntryPoint | None:
        """The first entry whose conditions hold, or None if a precondition fails."""
        if not all(condition.holds(sizes) for condition in self.preconditions):
            return None
        for entry in self.entries:
            if all(condition.holds(sizes) for condition in entry.requires):
                return entry
        return None


@dataclass(frozen=True, slots=True)
class CudaSource:
    """Emitted CUDA C++: the text of the `.cu`, of its header and of the stand-alone `main`."""

    problem: Problem
    target: str
    text: str
    header: str
    main: str
    plan: LaunchPlan
