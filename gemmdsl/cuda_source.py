"""What the emitter hands to runtimes: CUDA text, its entry points and how to launch them.

Runtimes (the CPU emulator, pycuda) see only this module; they know nothing of schedules or passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from gemmdsl.conditions import Condition
from gemmdsl.source import Source, Span
from gemmdsl.spec import Problem


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

    def why_not(self, sizes: Mapping[str, int]) -> tuple[str, ...]:
        """Why the entry before the one that `select` takes is refused, a phrase per broken condition.

        Empty when the first entry is taken, and when a precondition fails.
        """
        chosen = self.select(sizes)
        if chosen is None or chosen is self.entries[0]:
            return ()
        better = self.entries[self.entries.index(chosen) - 1]
        reasons = (condition.refusal(sizes) for condition in better.requires)
        return tuple(dict.fromkeys(reason for reason in reasons if reason))


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A matrix in every stage of shared memory.

    `name` is the member of the stage's struct, declared with the length of its rows in memory; the first
    `columns` floats of a row are in use, C text over the text's constants.  `functions` of the text access
    this array and no other.
    """

    name: str
    columns: str
    functions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SharedStages:
    """What a block keeps in shared memory: `variable`, one `struct` or an array of `slots` of them.

    `slots` is C text over the text's constants, "" for a variable that is no array.
    """

    struct: str
    variable: str
    slots: str
    arrays: tuple[SharedArray, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """What a `function` of the text follows from: words of a schedule, the first one that it has counts.

    Words are those of `ScheduleText`.
    """

    function: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScheduleText:
    """Where the words of a schedule were written: `block`, `buffers`, `A.pad` and so on, inherited or not.

    `name` is the place of the schedule's own name.
    """

    source: Source
    name: Span
    words: tuple[tuple[str, Span], ...]

    def find(self, words: tuple[str, ...]) -> Span:
        """The place of the first of these words that the schedule has, else of its name."""
        places = dict(self.words)
        return next((places[word] for word in words if word in places), self.name)


@dataclass(frozen=True, slots=True)
class CudaSource:
    """Emitted CUDA C++: the text of the `.cu`, of its header and of the stand-alone `main`.

    What follows is for messages: the kernel's shared memory, what each function follows from, and the
    schedule's own text where it is known.
    """

    problem: Problem
    target: str
    text: str = field(repr=False)
    header: str = field(repr=False)
    main: str = field(repr=False)
    plan: LaunchPlan
    shared: SharedStages | None = None
    origins: tuple[Origin, ...] = ()
    schedule: ScheduleText | None = None
