"""What the emitter hands to runtimes: CUDA text, its entry points and how to launch them.

Runtimes (the CPU emulator, pycuda) see only this module; they know nothing of schedules or passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from gemmdsl.conditions import Condition
from gemmdsl.index import Expr, evaluate
from gemmdsl.source import Source, Span
from gemmdsl.spec import Axis, Problem


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
    NO_MEMORY = 8

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
    Status.NO_MEMORY: "no memory for partial sums; see cudaGetLastError",
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
class Parts:
    """K of each tile of C is shared among `count` blocks, which are the second axis of the grid.

    Parts are whole K tiles of `block_k`, as equal as can be, the first ones the largest.  With `atomic` each
    block adds to C what it has, in any order, which may round differently from call to call and takes numbers
    below the least normal one for 0.
    """

    count: int
    block_k: int
    atomic: bool

    def busy(self, k: int) -> int:
        """How many parts of an extent k are not empty; these come first."""
        return min(self.count, -(-k // self.block_k))

    def ends(self, k: int) -> tuple[int, ...]:
        """Where in an extent k each part ends that is not empty."""
        tiles = -(-k // self.block_k)
        each, more = divmod(tiles, self.count)
        return tuple(
            min(k, self.block_k * (part * each + min(part, more))) for part in range(1, self.busy(k) + 1)
        )


@dataclass(frozen=True, slots=True)
class Sweep:
    """A `__global__` function that goes through all of C: `length` threads along each of `lines` lines.

    Lines run along C's `contiguous` axis.  `blocks` are those along a line and from line to line, expressions
    over M and N; they go on to further lines.
    """

    name: str
    parameters: tuple[Parameter, ...]
    contiguous: Axis
    length: int
    lines: int
    blocks: tuple[Expr, Expr]

    @property
    def threads(self) -> int:
        return self.length * self.lines

    def grid(self, m: int, n: int) -> tuple[int, int, int]:
        """Blocks per grid axis for an m x n output: along a line, and from line to line."""
        along, down = (int(evaluate(count, {"M": m, "N": n})) for count in self.blocks)
        return along, down, 1


@dataclass(frozen=True, slots=True)
class Workspace:
    """Memory of a call, from a multiple of 16 bytes on; `parameter` is what kernels call it.

    `floats` is their number, an expression over M and N which the C launcher computes as well.
    """

    parameter: Parameter
    floats: Expr

    def size(self, m: int, n: int) -> int:
        """Bytes for an m x n output."""
        return 4 * int(evaluate(self.floats, {"M": m, "N": n}))


@dataclass(frozen=True, slots=True)
class Launch:
    """One of the kernels that a call launches, one after the other on one stream."""

    name: str
    grid: tuple[int, int, int]
    threads: int
    dynamic_shared_bytes: int
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """How to launch a kernel by hand; the C launcher does exactly this.

    A call launches `before`, the entry point that is right for its sizes, and `after`.  The entry's grid has
    ceil(M / block_m) * ceil(N / block_n) blocks of `threads` threads; with `parts`, as many for each part.
    `entries` are in order of preference; the last one requires only `preconditions`.  Entries take
    `workspace` behind their other parameters.
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
    parts: Parts | None = None
    before: tuple[Sweep, ...] = ()
    after: tuple[Sweep, ...] = ()
    workspace: Workspace | None = None

    @property
    def repeatable(self) -> bool:
        """Whether the same call gives the same bits every time."""
        return self.parts is None or not self.parts.atomic

    @property
    def flushes(self) -> bool:
        """Whether sums and addends below the least normal number may count as 0."""
        return self.parts is not None and self.parts.atomic

    @property
    def entry_parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the entry points."""
        return (*self.parameters, self.workspace.parameter) if self.workspace else self.parameters

    @property
    def kernels(self) -> tuple[tuple[str, tuple[Parameter, ...]], ...]:
        """Every `__global__` function of the text, with its parameters."""
        sweeps = (*self.before, *self.after)
        entries = ((entry.name, self.entry_parameters) for entry in self.entries)
        return (*entries, *((sweep.name, sweep.parameters) for sweep in sweeps))

    def grid(self, m: int, n: int) -> tuple[int, int, int]:
        """Blocks per grid axis of an entry point for an m x n output."""
        return (-(-m // self.block_m) * -(-n // self.block_n), self.parts.count if self.parts else 1, 1)

    def launches(self, entry: EntryPoint, m: int, n: int) -> tuple[Launch, ...]:
        """What a call for an m x n output launches, in order."""

        def swept(sweep: Sweep) -> Launch:
            return Launch(sweep.name, sweep.grid(m, n), sweep.threads, 0, sweep.parameters)

        grid, shared = self.grid(m, n), self.dynamic_shared_bytes
        main = Launch(entry.name, grid, self.threads, shared, self.entry_parameters)
        return (*map(swept, self.before), main, *map(swept, self.after))

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
