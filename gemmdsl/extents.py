"""What a kernel learns of matrices at run time: tiles that cover them, where a block begins, what is left.

Variables: `M`, `N` and `depth` are extents, `block_row` and `block_col` the block's origin; `m`, `n` and `k`
are coordinates within a tile, `m_left`, `n_left` and `k_left` what the matrices hold from its origin on.

Where K is split among blocks, `whole` is the extent along K that all of them multiply together, `all_tiles`
its K tiles, `split` the number of a block's part, `k_first` where that begins; `depth` is the part's extent.
Where their products are kept until they are added up, `part` is the number of one.
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmdsl.index import Bound, Expr, Int, Named, Var, both, choose, either, least, less, unequal
from gemmdsl.index_parts import split
from gemmdsl.spec import Axis, Operand
from gemmdsl.target import MAX_BLOCKS_DOWN

# The extent along K that is multiplied.
DEPTH = Var("depth")
# The same of all blocks that share a tile of C, in elements and in K tiles; which part is a block's own.
WHOLE = Var("whole")
ALL_TILES = Var("all_tiles")
SPLIT = Var("split")
K_FIRST = Var("k_first")
# One part after the other.
PART = Var("part")
# Where the block's tile of C begins.
BLOCK_ROW = Var("block_row")
BLOCK_COL = Var("block_col")
# 1 on a path whose axes are all whole tiles.
FULL = Var("FULL", 2)


def tiles(extent: Expr, block: Named) -> Expr:
    """How many tiles of `block` cover an extent: rounded up without adding, which could overflow."""
    return extent // block + unequal(extent % block, Int(0))


def coordinate(axis: Axis) -> Var:
    """m, n or k."""
    return Var(axis.lower())


def left(axis: Axis) -> Var:
    """m_left, n_left or k_left."""
    return Var(f"{axis.lower()}_left")


def rows_left() -> tuple[Expr, Expr]:
    """m_left and n_left of a block."""
    return Var("M") - BLOCK_ROW, Var("N") - BLOCK_COL


def k_left(tile: Expr, block_k: Named) -> Expr:
    """k_left at the origin of a K tile."""
    return DEPTH - tile * block_k


@dataclass(frozen=True, slots=True)
class SplitMap:
    """Which part of K a block multiplies where `parts` blocks share each tile of C.

    The part is the block's place along the second axis of the grid; it begins at `first` and is `depth` long.
    """

    parts: Named
    first: Expr
    depth: Expr


def split_map(parts: int, block_k: Named) -> SplitMap:
    """Parts of whole K tiles, the first ones a tile longer than the last.

    No step of the formulas passes the ints: a part after the last tile begins at the end of K.
    """
    named = Named("PARTS", Int(parts), "blocks that share the K of a tile of C")
    each, more = ALL_TILES // named, ALL_TILES % named
    first = (SPLIT * each + least(SPLIT, more)) * block_k
    depth = (each + less(SPLIT, more)) * block_k
    return SplitMap(named, least(WHOLE, first), least(WHOLE - K_FIRST, depth))


@dataclass(frozen=True, slots=True)
class WorkspaceMap:
    """Where the products of the parts of K are kept: a matrix of C's extents and order for each, one by one.

    Lines along the `contiguous` axis begin `ld` floats after each other, matrices `floats` after each other.
    Both take 64 bits, and so do all places.
    """

    parts: Named
    contiguous: Axis
    ld: Bound
    floats: Bound

    @property
    def size(self) -> Expr:
        """Floats of all parts together."""
        return self.parts * self.floats

    def place(self, part: Expr, m: Expr, n: Expr) -> Expr:
        """Distance in floats of an element of a part from the first one of all."""
        line, at = (m, n) if self.contiguous == "N" else (n, m)
        return part * self.floats + line * self.ld + at

    @property
    def origin(self) -> Expr:
        """Where the block's tile begins in its part."""
        return self.place(SPLIT, BLOCK_ROW, BLOCK_COL)

    def within(self, m: Expr, n: Expr) -> Expr:
        """The way from there to an element of the tile."""
        return self.place(Int(0), m, n)

    def walk(self, m: Expr, n: Expr) -> tuple[Expr, Expr]:
        """Where an element of C lies in the first part, and the way from there to part PART."""
        return split(self.place(PART, m, n), frozenset((PART.name,)))


def workspace_map(parts: Named, c: Operand, vector: Named) -> WorkspaceMap:
    """Room for the parts of `c`, whose lines follow each other in whole vectors, whatever its own do."""
    ld = Bound("part_ld", tiles(Var(c.contiguous), vector) * vector)
    return WorkspaceMap(parts, c.contiguous, ld, Bound("part_floats", Var(c.strided) * ld))


@dataclass(frozen=True, slots=True)
class SweepMap:
    """How a kernel goes through all of a matrix: `length` threads along each of `lines` lines at a time.

    A thread has the element `at` of line `first`, and of each line that lies whole `step`s further on.
    `grid` are the blocks along a line and from line to line.
    """

    threads: Named
    length: Named
    lines: Named
    at: Expr
    first: Expr
    step: Expr
    grid: tuple[Expr, Expr]


# A thread among those of its block, and a block among those of its grid, in CUDA's words.
SWEEP_THREAD = Var("threadIdx.x")
ACROSS, DOWN = Var("blockIdx.x"), Var("blockIdx.y")
ALL_DOWN = Var("gridDim.y")


def sweep_map(c: Operand) -> SweepMap:
    """Through `c`, threads side by side along a line; blocks go on to further lines where a grid ends."""
    threads = Named("SWEEP_THREADS", Int(256), "of a block that goes through C")
    length = Named("SWEEP_LENGTH", Int(32), "of them, along a line")
    lines = Named("SWEEP_LINES", threads // length, "of them, from line to line")
    most = Named("SWEEP_BLOCKS", Int(MAX_BLOCKS_DOWN), "along the second axis of its grid, at most")
    return SweepMap(
        threads,
        length,
        lines,
        at=ACROSS * length + SWEEP_THREAD % length,
        first=DOWN * lines + SWEEP_THREAD // length,
        step=ALL_DOWN * lines,
        grid=(tiles(Var(c.contiguous), length), least(tiles(Var(c.strided), lines), most)),
    )


# Where a thread stands that goes through a matrix line by line, as it lies in memory.
LINE = Var("line")
AT = Var("at")


def swept(c: Operand) -> tuple[Var, Var]:
    """Row and column of the element there."""
    return (LINE, AT) if c.contiguous == "N" else (AT, LINE)


def exists(axis: Axis, full: Expr) -> Expr:
    """Whether a coordinate lies in the matrix; `full` is 1 where that is known."""
    return either(full, less(coordinate(axis), left(axis)))


def neighbours_left(operand: Operand, width: Expr, assumed: frozenset[Axis], full: Expr) -> Expr:
    """How many neighbours of an operand exist from a coordinate on, of the `width` that are asked for.

    None exist where the number is negative, all where it is `width` or more.  `assumed` axes are known to be
    whole tiles; so are all of them where `full` is 1.
    """
    strided, contiguous = operand.strided, operand.contiguous
    count = width if contiguous in assumed else left(contiguous) - coordinate(contiguous)
    if strided not in assumed:
        count = choose(less(coordinate(strided), left(strided)), count, Int(0))
    return choose(full, width, count)


def whole_exists(operand: Operand, assumed: frozenset[Axis], full: Expr) -> Expr:
    """Whether neighbours of an operand exist from a coordinate on, where all of them do or none.

    As for `neighbours_left`; of single elements it is always so, of vectors where the operand's extent is a
    multiple of their width, and so is the coordinate.
    """
    known: list[Expr] = [
        Int(1) if axis in assumed else less(coordinate(axis), left(axis))
        for axis in (operand.strided, operand.contiguous)
    ]
    return either(full, both(known[0], known[1]))
