"""What a checked `.gemm` schedule means: the Spec that the front end hands to lowering.

A Spec is one problem, one fully resolved schedule and one target.  Every default is filled in, every
inherited option is merged, and every rule of `gemmdsl.rules` holds; later stages never look at syntax.
Extents are in elements, sizes in bytes where the name says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from gemmdsl.target import Target

OperandName = Literal["A", "B", "C"]
StagedName = Literal["A", "B"]
Axis = Literal["M", "N", "K"]


class Order(Enum):
    """Which index of a matrix is contiguous in memory."""

    ROW = "row"
    COLUMN = "col"


class LaneOrder(Enum):
    """How the 32 lanes of a warp are laid over its LM x LN grid.

    PAIRED keeps lanes that share an address next to each other (lane i and i^1, or i and i^2), which halves
    the passes of 64- and 128-bit shared loads.
    """

    ROW = "row"
    COLUMN = "column"
    PAIRED = "paired"


# Floats that one instruction can move.
WIDTHS = (1, 2, 4)
# Every tile begins where the widest vector may lie.
SHARED_ALIGNMENT = 4 * max(WIDTHS)


def tile_bytes(floats: int) -> int:
    """Bytes of shared memory that a tile of `floats` takes in each buffer."""
    return -(-4 * floats // SHARED_ALIGNMENT) * SHARED_ALIGNMENT


@dataclass(frozen=True, slots=True)
class TileShape:
    """An operand's tile in shared memory: `rows` rows of `cols` floats, each followed by `pad` unused ones.

    With `k_outer` the rows lie along K, so that a fragment (neighbours along M or N at one k) is contiguous.
    `transposed` is a tile whose axes are exchanged relative to global memory.
    """

    rows: int
    cols: int
    pad: int
    k_outer: bool
    transposed: bool

    @property
    def row_length(self) -> int:
        """Floats from row to row."""
        return self.cols + self.pad

    @property
    def words(self) -> int:
        """Floats of one buffer, padding included."""
        return self.rows * self.row_length

    @property
    def bytes(self) -> int:
        """Bytes of one buffer."""
        return tile_bytes(self.words)

    @property
    def load_extent(self) -> int:
        """The extent along which global memory is contiguous."""
        return self.rows if self.transposed else self.cols

    def swizzles(self, unit: int) -> bool:
        """Whether groups of `unit` floats can change places in a row: there are 2, 4, 8 ... of them."""
        groups = self.cols // unit
        return self.cols % unit == 0 and groups >= 2 and groups & (groups - 1) == 0


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix of the problem; `rows` and `cols` name its axes, `order` its layout in memory."""

    name: OperandName
    rows: Axis
    cols: Axis
    order: Order
    dtype: Literal["f32"] = "f32"

    @property
    def contiguous(self) -> Axis:
        """The axis whose neighbours are neighbours in memory."""
        return self.cols if self.order is Order.ROW else self.rows

    @property
    def strided(self) -> Axis:
        """The axis whose neighbours are one leading dimension apart."""
        return self.rows if self.order is Order.ROW else self.cols

    @property
    def ld(self) -> str:
        """Name of the leading dimension's parameter: lda, ldb or ldc."""
        return f"ld{self.name.lower()}"

    def shared_axes(self, transpose: bool) -> tuple[Axis, Axis]:
        """Axes along which rows follow each other and along which a row runs, in shared memory."""
        return (self.contiguous, self.strided) if transpose else (self.strided, self.contiguous)

    def tile(self, extents: Mapping[Axis, int], transpose: bool, pad: int) -> TileShape:
        """Its tile in shared memory; `extents` are those of the block tile."""
        rows, cols = self.shared_axes(transpose)
        return TileShape(extents[rows], extents[cols], pad, rows == "K", transpose)


@dataclass(frozen=True, slots=True)
class Problem:
    """C = alpha * A @ B + beta * C; without `beta`, C is written and never read."""

    name: str
    a: Operand
    b: Operand
    c: Operand
    alpha: bool = True
    beta: bool = True

    def operand(self, name: OperandName) -> Operand:
        return {"A": self.a, "B": self.b, "C": self.c}[name]


@dataclass(frozen=True, slots=True)
class Stage:
    """How one operand's tile is kept in shared memory.

    Widths are in elements (1, 2 or 4): `load` from global memory, `store` into shared memory, `read` from
    shared memory into registers.  `transpose` keeps the tile with its axes exchanged relative to global
    memory.  `pad` is the number of unused elements at the end of each shared row.
    """

    load: int = 1
    store: int = 1
    read: int = 1
    transpose: bool = False
    pad: int = 0
    swizzle: bool = False

    @property
    def unit(self) -> int:
        """Floats that a swizzle keeps together: the widest vector that is stored or read."""
        return max(1, self.store, self.read)


@dataclass(frozen=True, slots=True)
class Assumption:
    """`assume M % 128 == 0` (axis, multiple) or `assume aligned A` (operand)."""

    axis: Axis | None = None
    multiple: int = 1
    operand: OperandName | None = None

    def __str__(self) -> str:
        return f"aligned {self.operand}" if self.operand else f"{self.axis} % {self.multiple} == 0"


@dataclass(frozen=True, slots=True)
class CopySteps:
    """The steps of a K tile in which asynchronous copies of each operand are issued.

    With several steps a thread's copies of a tile are dealt to them in batches as equal as can be, in order.
    """

    a: tuple[int, ...] = (0,)
    b: tuple[int, ...] = (0,)

    def of(self, operand: StagedName) -> tuple[int, ...]:
        return self.a if operand == "A" else self.b

    @property
    def all(self) -> tuple[int, ...]:
        return (*self.a, *self.b)

    @property
    def together(self) -> int | None:
        """The one step in which all copies are issued; None where there are several."""
        return self.a[0] if self.a == self.b and len(self.a) == 1 else None

    def __str__(self) -> str:
        """As behind `async`: "" for the first step, else ` at 2` or ` A at 0 2 B at 4`."""
        if self.together == 0:
            return ""
        if self.a == self.b:
            return f" at {_listed(self.a)}"
        named = (("A", self.a), ("B", self.b))
        return "".join(f" {name} at {_listed(steps)}" for name, steps in named if steps != (0,))


def _listed(numbers: tuple[int, ...]) -> str:
    return " ".join(map(str, numbers))


@dataclass(frozen=True, slots=True)
class Schedule:
    """How one kernel computes the problem.

    `block_k == 0` means that nothing is staged in shared memory.  `warp is None` means that threads are
    laid over the block tile as one grid.  `piece` divides `thread`: a thread tile is (thread/piece) pieces
    per axis, spread over the warp (or block) tile with equal strides; piece == thread is one solid tile.

    `fragments` sets of registers hold the operands of an FMA step; with two of them, asynchronous copies are
    issued in the steps `copy_steps` of a K tile.  The fragment of `read_first` is read before the other one.
    FMAs follow each other along a row (`fma_along` N) or a column, every other one backwards with
    `fma_snake`.  `unroll` steps of a K tile follow each other before the loop over them jumps; None is all of
    them.  Blocks go through `raster` rows of tiles of C at a time, or columns with `raster_along` N.

    K of each tile of C is shared among `split_k` blocks, whose products are added to C one by one with
    `split_atomic`, else by a second kernel in a fixed order.
    """

    name: str
    block_m: int
    block_n: int
    block_k: int = 0
    thread_m: int = 1
    thread_n: int = 1
    piece_m: int = 1
    piece_n: int = 1
    warp: tuple[int, int] | None = None
    lanes: tuple[int, int] | None = None
    lane_order: LaneOrder = LaneOrder.ROW
    stage_a: Stage = Stage()
    stage_b: Stage = Stage()
    c_vector: int = 1
    buffers: int = 1
    asynchronous: bool = False
    copy_steps: CopySteps = CopySteps()
    fragments: int = 1
    read_first: StagedName = "A"
    fma_along: Literal["M", "N"] = "N"
    fma_snake: bool = False
    unroll: int | None = None
    raster: int = 1
    raster_along: Literal["M", "N"] = "M"
    min_blocks: int = 0
    split_k: int = 1
    split_atomic: bool = False
    assumptions: tuple[Assumption, ...] = ()

    @property
    def outputs(self) -> int:
        """Outputs of a thread."""
        return max(1, self.thread_m) * max(1, self.thread_n)

    @property
    def threads(self) -> int:
        """Threads of a block; extents count as 1 at least, so that it can be asked of an illegal schedule."""
        return max(1, self.block_m) * max(1, self.block_n) // self.outputs

    @property
    def extents(self) -> dict[Axis, int]:
        """Extents of the block tile."""
        return {"M": self.block_m, "N": self.block_n, "K": self.block_k}

    @property
    def staged(self) -> bool:
        return self.block_k > 0

    def stage(self, name: StagedName) -> Stage:
        return self.stage_a if name == "A" else self.stage_b


@dataclass(frozen=True, slots=True)
class Spec:
    """One kernel to compile.

    `file` is the base name of the source, as printed in the emitted header comment.  `fallbacks` says
    which `prefer`red options were dropped and why, one sentence each.
    """

    problem: Problem
    schedule: Schedule
    target: Target
    file: str = "<string>"
    language: int = 1
    fallbacks: tuple[str, ...] = ()

    @property
    def symbol(self) -> str:
        """C name of the launcher; entry points add their path to it."""
        return f"{self.problem.name}_{self.schedule.name}"
