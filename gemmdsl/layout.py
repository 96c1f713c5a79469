"""Index formulas of the tile hierarchy: who owns which outputs, who copies what, where it is kept.

Every formula of a kernel is built here from `gemmdsl.index`; passes choose among these, templates print them.

Coordinates are local to the block tile: m in [0, BLOCK_M), n in [0, BLOCK_N), k in [0, BLOCK_K).
Variables: `thread` in [0, THREADS), `i` and `j` count a thread's output rows and columns, `copy` counts a
thread's copies of one tile, `k` walks the K tile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, assert_never

from gemmdsl.extents import BLOCK_COL, BLOCK_ROW, coordinate
from gemmdsl.index import Bound, Expr, Int, Named, Var, equal, least
from gemmdsl.index_parts import free, split
from gemmdsl.spec import Axis, LaneOrder, Operand, TileShape
from gemmdsl.target import WARP_SIZE as LANES_PER_WARP

START_OF_K = Int(0)
# Which batch of a tile\'s copies a function issues, and of how many: known where it is called.
BATCH, BATCHES = Var("BATCH"), Var("BATCHES")
WARP_SIZE = Named("WARP_SIZE", Int(LANES_PER_WARP))


def block_size(axis: str, extent: int) -> Named:
    """BLOCK_M, BLOCK_N or BLOCK_K."""
    return Named(f"BLOCK_{axis}", Int(extent))


@dataclass(frozen=True, slots=True)
class GridMap:
    """Which tile of C each block computes: tile row and tile column of block `block` of the grid.

    C has `blocks_m` x `blocks_n` tiles, run-time values both; the grid is one-dimensional.  Blocks go through
    `group` rows of tiles at a time (columns, `along` N), one where it is None; see `raster_grid`.
    """

    row: Expr
    col: Expr
    group: Named | None = None
    along: Literal["M", "N"] = "M"

    def origin(self, block_m: Named, block_n: Named) -> tuple[Expr, Expr]:
        """First row and column of the block's tile of C: what BLOCK_ROW and BLOCK_COL stand for."""
        return self.row * block_m, self.col * block_n


BLOCK = Var("block")
BLOCKS_M = Var("blocks_m")
BLOCKS_N = Var("blocks_n")


def raster_grid(tiles: int, along: Literal["M", "N"]) -> GridMap:
    """Blocks through groups of `tiles` rows of tiles, or columns of tiles `along` N.

    Within a group of rows they go down its first column, then down the next one: blocks that run at the same
    time share rows of A and columns of B.  The last group has what rows are left.  With one row to a group
    this is one row after the other.
    """
    lines, across = (BLOCKS_M, BLOCKS_N) if along == "M" else (BLOCKS_N, BLOCKS_M)
    name = "row" if along == "M" else "col"
    if tiles == 1:
        group, line, place = None, BLOCK // across, BLOCK % across
    else:
        group = Named("RASTER", Int(tiles), f"{'rows' if along == 'M' else 'columns'} of tiles in a group")
        # A group is no larger than the grid, so that no product here is more than the number of blocks.
        size = Bound("group_blocks", least(group, lines) * across)
        first = Bound(f"group_{name}", (BLOCK // size) * group)
        count = Bound(f"group_{name}s", least(group, lines - first))
        inside = Bound("group_block", BLOCK % size)
        line, place = first + inside % count, inside // count
    row, col = (line, place) if along == "M" else (place, line)
    return GridMap(row, col, group, along)


def row_grid() -> GridMap:
    """Blocks one row of tiles after the other."""
    return raster_grid(1, "M")


@dataclass(frozen=True, slots=True)
class AxisMap:
    """One axis (M or N) of the map from threads to outputs.

    A thread owns `count` indices: `first` plus `offset(i)`.  `piece` neighbours lie together; pieces are
    `stride` apart.
    """

    block: Named
    count: Named
    piece: Named
    stride: Expr
    first: Bound

    def offset(self, i: Expr) -> Expr:
        """Distance of the thread's i-th index from its first one."""
        return (i // self.piece) * self.stride + i % self.piece

    def index(self, i: Expr) -> Expr:
        """Block-tile coordinate of the thread's i-th index."""
        return self.first + self.offset(i)


@dataclass(frozen=True, slots=True)
class ThreadMap:
    """Which outputs of the block tile each thread owns: rows.index(i) x cols.index(j)."""

    threads: Named
    rows: AxisMap
    cols: AxisMap

    @property
    def thread(self) -> Var:
        return Var("thread", self.threads.value)

    @property
    def i(self) -> Var:
        return Var("i", self.rows.count.value)

    @property
    def j(self) -> Var:
        return Var("j", self.cols.count.value)


@dataclass(frozen=True, slots=True)
class ThreadTile:
    """Extents of a thread tile and of its pieces along M and N."""

    thread: tuple[int, int]
    piece: tuple[int, int]


def _axis(axis: str, block: Named, tile: ThreadTile, stride: Expr, first: Expr) -> AxisMap:
    count, piece = _count(tile, axis), _piece(tile, axis)
    if piece != count:
        stride = Named(f"PIECE_STRIDE_{axis}", stride * piece, "from piece to piece")
    name = "thread_row" if axis == "M" else "thread_col"
    return AxisMap(block, count, piece, stride, Bound(name, first))


def _count(tile: ThreadTile, axis: str) -> Named:
    return Named(f"THREAD_{axis}", Int(tile.thread[0 if axis == "M" else 1]), "outputs of a thread")


def _piece(tile: ThreadTile, axis: str) -> Named:
    count, piece = _count(tile, axis), tile.piece[0 if axis == "M" else 1]
    return count if piece == count.value else Named(f"PIECE_{axis}", Int(piece), "neighbouring ones")


def grid_map(block_m: Named, block_n: Named, tile: ThreadTile, rows_first: bool) -> ThreadMap:
    """Threads over the whole block tile as one grid.

    Neighbouring threads follow each other along N, or along M when `rows_first` (a column-major C, whose
    stores then stay coalesced).
    """
    per_m = Named("THREADS_M", block_m // _count(tile, "M"))
    per_n = Named("THREADS_N", block_n // _count(tile, "N"))
    threads = Named("THREADS", per_m * per_n, "of a block")
    thread = Var("thread", threads.value)
    y, x = (thread % per_m, thread // per_m) if rows_first else (thread // per_n, thread % per_n)
    return ThreadMap(
        threads,
        _axis("M", block_m, tile, per_m, y * _piece(tile, "M")),
        _axis("N", block_n, tile, per_n, x * _piece(tile, "N")),
    )


def warp_map(
    block_m: Named,
    block_n: Named,
    tile: ThreadTile,
    warp_extent: tuple[int, int],
    lane_extent: tuple[int, int],
    order: LaneOrder,
) -> ThreadMap:
    """Warps over the block tile, lanes over the warp tile, threads' pieces over the warp tile."""
    warp_m = Named("WARP_M", Int(warp_extent[0]), "warp tile")
    warp_n = Named("WARP_N", Int(warp_extent[1]))
    lanes_m = Named("LANES_M", Int(lane_extent[0]), "lanes of a warp over its tile")
    lanes_n = Named("LANES_N", Int(lane_extent[1]))
    warps_m = Named("WARPS_M", block_m // warp_m)
    warps_n = Named("WARPS_N", block_n // warp_n)
    threads = Named("THREADS", warps_m * warps_n * WARP_SIZE, "of a block")
    thread = Var("thread", threads.value)
    warp = Bound("warp", thread // WARP_SIZE)
    lane = Bound("lane", thread % WARP_SIZE)
    match order:
        case LaneOrder.ROW:
            y, x = lane // lanes_n, lane % lanes_n
        case LaneOrder.COLUMN:
            y, x = lane % lanes_m, lane // lanes_m
        case LaneOrder.PAIRED:
            # Lane bit 0 is the low bit of x, the next bits are y: lanes i, i^1 share a row of A, lanes i, i^2
            # a column of B, which is what lets a 128-bit read of either run in half the passes.
            y, x = (lane // 2) % lanes_m, (lane // (lanes_m * 2)) * 2 + lane % 2
        case _:
            assert_never(order)
    return ThreadMap(
        threads,
        _axis("M", block_m, tile, lanes_m, (warp // warps_n) * warp_m + y * _piece(tile, "M")),
        _axis("N", block_n, tile, lanes_n, (warp % warps_n) * warp_n + x * _piece(tile, "N")),
    )


@dataclass(frozen=True, slots=True)
class Swizzle:
    """XOR swizzle: groups of `unit` elements of a row change places by ((row / group) % count) * unit."""

    unit: Named
    group: Expr
    count: Named

    def apply(self, row: Expr, col: Expr) -> Expr:
        return col ^ (((row // self.group) % self.count) * self.unit)


@dataclass(frozen=True, slots=True)
class SharedTile:
    """An operand's tile in shared memory: [stages][rows][row_length] floats, `cols` of a row in use.

    `k_outer` says that a row holds one k; a fragment (neighbours along M or N) is then contiguous.
    """

    operand: Operand
    rows: Named
    cols: Named
    pad: Named | None
    row_length: Named
    k_outer: bool
    swizzle: Swizzle | None
    stages: Named | None

    @property
    def shape(self) -> TileShape:
        """Its extents; one slot is as large as a tile of the Spec."""
        unused = self.row_length.value - self.cols.value
        return TileShape(self.rows.value, self.cols.value, unused, self.k_outer, self.transposed)

    @property
    def transposed(self) -> bool:
        """Whether its axes are exchanged relative to global memory."""
        return self.k_outer != (self.operand.strided == "K")

    @property
    def slots(self) -> int:
        return 1 if self.stages is None else self.stages.value

    @property
    def words(self) -> int:
        """Floats of one slot, padding included."""
        return self.shape.words

    @property
    def fragment_axis(self) -> Axis:
        return "M" if self.operand.name == "A" else "N"

    def place(self, fragment: Expr, k: Expr) -> tuple[Expr, Expr]:
        """(row, column) in the shared array of the element with this M or N coordinate and this k."""
        row, col = (k, fragment) if self.k_outer else (fragment, k)
        return row, self.swizzle.apply(row, col) if self.swizzle else col

    def word(self, fragment: Expr, k: Expr) -> Expr:
        """Distance in floats of that element from the first one of the tile."""
        row, col = self.place(fragment, k)
        return row * self.row_length + col

    @property
    def coordinates(self) -> tuple[Var, Var]:
        """Coordinates of an element: m or n, and k."""
        fragment, depth = (self.cols, self.rows) if self.k_outer else (self.rows, self.cols)
        return Var(self.fragment_axis.lower(), fragment.value), Var("k", depth.value)


def shared_tile(operand: Operand, fragment: Named, depth: Named, *, transpose: bool = False) -> SharedTile:
    """The tile of one operand: `fragment` elements along M or N, `depth` along K.

    Rows follow the operand's layout unless `transpose`; they are neither padded nor swizzled.
    """
    k_outer = operand.shared_axes(transpose)[0] == "K"
    rows, cols = (depth, fragment) if k_outer else (fragment, depth)
    return SharedTile(operand, rows, cols, None, _row_length(operand, cols), k_outer, None, None)


def _row_length(operand: Operand, length: Expr) -> Named:
    return Named(f"{operand.name}_ROW", length, f"floats from row to row of {operand.name}'s tile")


def padded(tile: SharedTile, extra: int) -> SharedTile:
    """`tile` with `extra` unused floats at the end of each row."""
    padding = Named(f"{tile.operand.name}_PAD", Int(extra), "unused floats at the end of a row")
    return replace(tile, pad=padding, row_length=_row_length(tile.operand, tile.cols + padding))


def swizzled(tile: SharedTile, unit: int) -> SharedTile:
    """`tile` with groups of `unit` floats exchanged within each row, differently from row to row.

    Rows shorter than the 32 banks share one pattern with the other rows of the same 32 words.
    """
    name = tile.operand.name
    floats = Named(f"{name}_SWIZZLE_UNIT", Int(unit), "floats that stay together")
    places = min(tile.cols.value // unit, LANES_PER_WARP // unit)
    count = Named(f"{name}_SWIZZLES", Int(places), "different row patterns")
    return replace(tile, swizzle=Swizzle(floats, Int(max(1, LANES_PER_WARP // tile.cols.value)), count))


@dataclass(frozen=True, slots=True)
class CopyMap:
    """Which elements of an operand's tile each thread copies: `copies` vectors of `width` neighbours.

    `strided` and `contiguous` are tile coordinates along the operand's axes in global memory, the latter of
    the vector's first element; both depend on `thread` and `copy`.  A row in global memory has `row_vectors`
    of them.  The last round is partial when the
    vectors are no multiple of the threads; then only vectors with `vector` < `vectors` exist.
    """

    operand: Operand
    threads: Named
    width: Named | Int
    row_vectors: Named
    vectors: Named
    copies: Named
    vector: Expr
    strided: Expr
    contiguous: Expr

    @property
    def partial(self) -> bool:
        """Whether the last round leaves some threads without work."""
        return self.vectors.value % self.threads.value != 0

    @property
    def copy(self) -> Var:
        return Var("copy", self.copies.value)

    def batch(self, batch: Expr, batches: Expr) -> tuple[Expr, Expr]:
        """The first copy of a batch, and the one after its last; `batch` counts from 0.

        Batches are as equal as can be, and may have no copy where there are more batches than copies.
        """
        return batch * self.copies // batches, (batch + 1) * self.copies // batches

    @staticmethod
    def last(batch: Expr, batches: Expr) -> Expr:
        """1 for the last batch, with which a tile is wholly issued."""
        return equal(batch + 1, batches)

    def walk(self) -> tuple[tuple[Expr, Expr], tuple[Expr, Expr]] | None:
        """(strided, contiguous) coordinates of the thread's first copy, and the way from there to `copy`.

        None where the two do not add up, as for rounds that are no whole number of rows.
        """
        names = frozenset((self.copy.name,))
        strided, contiguous = split(self.strided, names), split(self.contiguous, names)
        if not all(free(on) <= names for _, on in (strided, contiguous)):
            return None
        return (strided[0], contiguous[0]), (strided[1], contiguous[1])

    def start(self, k_first: Expr = START_OF_K) -> tuple[Expr, Expr]:
        """(strided, contiguous) coordinates in the matrix from which a thread counts in the first K tile.

        `k_first` is where the block's K begins.
        """
        walk = self.walk()
        strided, contiguous = walk[0] if walk else (Int(0), Int(0))
        origin = BLOCK_ROW if self.operand.name == "A" else BLOCK_COL
        if self.operand.strided == "K":
            return k_first + strided, origin + contiguous
        return origin + strided, k_first + contiguous

    def onward(self) -> tuple[Expr, Expr]:
        """The way from there to `copy`; by the coordinates of its element where it is no way of its own."""
        walk = self.walk()
        return walk[1] if walk else (coordinate(self.operand.strided), coordinate(self.operand.contiguous))

    def step(self, block_k: Named) -> tuple[Expr, Expr]:
        """(strided, contiguous) distance from one K tile to the next."""
        return (block_k, Int(0)) if self.operand.strided == "K" else (Int(0), block_k)

    def shared_places(self, tile: SharedTile, element: Expr) -> tuple[Expr, Expr]:
        """`landing`; where there is none, counted from the tile's first float by coordinates of the copy."""
        found = self.landing(tile, element)
        if found is not None:
            return found
        fragment, k = tile.coordinates
        along_k = self.operand.contiguous == "K"
        return Int(0), tile.word(fragment, k + element) if along_k else tile.word(fragment + element, k)

    def landing(self, tile: SharedTile, element: Expr) -> tuple[Expr, Expr] | None:
        """Distance in floats of the thread's first copy from the start of the shared tile, and the way on.

        The way is from there to element `element` of copy `copy`.  None where it depends on the thread, as
        it may for a swizzled tile.
        """
        place = tile.place(*self.coordinates(self.contiguous + element))
        names = frozenset((self.copy.name, *free(element)))
        (row, row_on), (col, col_on) = (split(part, names) for part in place)
        if not free(row_on) | free(col_on) <= names:
            return None
        return row * tile.row_length + col, row_on * tile.row_length + col_on

    def coordinates(self, contiguous: Expr) -> tuple[Expr, Expr]:
        """(M or N, k) coordinates of the element at `contiguous` in this copy's row."""
        return (contiguous, self.strided) if self.operand.strided == "K" else (self.strided, contiguous)


def copy_map(tile: SharedTile, threads: Named, width: int) -> CopyMap:
    """Vectors of `width` along the operand's contiguous axis, dealt to threads in order of address."""
    name = tile.operand.name
    row_extent, row_count = _global_extents(tile)
    vector_width = Named(f"{name}_VECTOR", Int(width), f"floats per global load of {name}")
    per_row = Named(f"{name}_ROW_VECTORS", row_extent // vector_width, "loads per row of the global tile")
    vectors = Named(f"{name}_VECTORS", row_count * per_row, "loads per tile")
    copies = Named(f"{name}_COPIES", _rounds(vectors, threads), "loads per thread and tile")
    return _dealt(tile.operand, threads, vector_width, per_row, vectors, copies)


def word_map(tile: SharedTile, threads: Named) -> CopyMap:
    """Single words, neighbours to neighbouring threads: for an operand whose vectors may be unaligned.

    Its constants have names of their own, so that it can stand beside a map of vectors.
    """
    name = tile.operand.name
    row_extent, row_count = _global_extents(tile)
    words = Named(f"{name}_WORDS", row_count * row_extent, "floats per tile, where vectors are not allowed")
    copies = Named(f"{name}_WORD_COPIES", _rounds(words, threads), "of them per thread")
    return _dealt(tile.operand, threads, Int(1), row_extent, words, copies)


def _global_extents(tile: SharedTile) -> tuple[Named, Named]:
    """Length and number of a tile's rows as they lie in global memory."""
    return (tile.rows, tile.cols) if tile.transposed else (tile.cols, tile.rows)


def _rounds(vectors: Named, threads: Named) -> Expr:
    """How many vectors the first thread gets."""
    return (vectors + threads - 1) // threads if vectors.value % threads.value else vectors // threads


def _dealt(
    operand: Operand, threads: Named, width: Named | Int, per_row: Named, vectors: Named, copies: Named
) -> CopyMap:
    """Vectors to threads in order of address."""
    thread, copy = Var("thread", threads.value), Var("copy", copies.value)
    vector = thread + copy * threads
    return CopyMap(
        operand=operand,
        threads=threads,
        width=width,
        row_vectors=per_row,
        vectors=vectors,
        copies=copies,
        vector=vector,
        strided=vector // per_row,
        contiguous=(vector % per_row) * width,
    )
