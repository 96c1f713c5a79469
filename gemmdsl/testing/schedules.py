"""Strategies for what is compiled: problems, and schedules that every rule of the table accepts.

A schedule is built from its threads outwards, so that tiles divide; of each option only those values are
offered that the tiles allow.  What then still breaks a rule (registers, shared memory) is drawn again.  Words
are drawn in the forms a user has: `vector V`, single widths, tiles left to be derived.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from hypothesis import assume
from hypothesis import strategies as st

from gemmdsl.rules import violations
from gemmdsl.rules_options import (
    FmaAxis,
    Options,
    RasterAxis,
    StageOptions,
    c_fragment,
    derive,
)
from gemmdsl.spec import (
    WIDTHS,
    Assumption,
    Axis,
    CopySteps,
    LaneOrder,
    Operand,
    Order,
    Problem,
    Spec,
    StagedName,
    TileShape,
)
from gemmdsl.target import MAX_THREADS_PER_BLOCK, TARGETS, WARP_SIZE, Target

_THREAD_SIDES = (1, 2, 4, 8, 3, 6, 5, 12, 10, 16)
_GRID_SIDES = (1, 2, 4, 8, 16, 3, 5, 6, 12, 32)
_DEPTHS = (1, 2, 4, 8, 16, 3, 5, 6, 12, 24, 32)
_LANES = tuple((rows, WARP_SIZE // rows) for rows in (4, 8, 2, 16, 1, 32))
_WARPS = ((1, 1), (2, 1), (1, 2), (2, 2), (1, 4), (4, 1), (3, 1), (2, 4), (1, 3))
# Elements of a K tile that a thread copies at most.
_COPIES = 40
_PADS = (None, 1, 4, 2, 3, 8, 0)
_ALONG: tuple[FmaAxis | None, ...] = (None, "M", "N")
_RASTERS = (None, 2, 3, 1, 8)
_RASTER_ALONG: tuple[RasterAxis, ...] = ("M", "N")


@dataclass(frozen=True, slots=True)
class Limits:
    """How large drawn schedules may be: threads of a block, sides of its tile, K extent."""

    threads: int = 256
    side: int = 128
    depth: int = 32
    buffers: int = 8


SMALL = Limits(threads=64, side=32, depth=8, buffers=4)


@st.composite
def problems(draw: st.DrawFn, name: str = "p") -> Problem:
    """Problems with any layout of A, B and C, with and without alpha and beta."""
    order = st.sampled_from(Order)
    return Problem(
        name,
        Operand("A", "M", "K", draw(order)),
        Operand("B", "K", "N", draw(order)),
        Operand("C", "M", "N", draw(order)),
        alpha=draw(st.booleans()),
        beta=draw(st.booleans()),
    )


@st.composite
def specs(draw: st.DrawFn, limits: Limits = Limits()) -> Spec:
    """Specs that every rule accepts, of any problem, for any target."""
    problem = draw(problems())
    target = draw(st.sampled_from(tuple(TARGETS.values())))
    return Spec(problem, derive("s", draw(options(problem, target, limits)), problem), target, "drawn.gemm")


@st.composite
def options(draw: st.DrawFn, problem: Problem, target: Target, limits: Limits = Limits()) -> Options:
    """The words of a schedule that every rule accepts."""
    found = draw(candidates(problem, target, limits))
    assume(not violations(derive("s", found, problem), problem, target))
    return found


@st.composite
def candidates(draw: st.DrawFn, problem: Problem, target: Target, limits: Limits = Limits()) -> Options:
    """The words of a schedule that most rules accept: `options` before the rest is sorted out."""
    tiles = draw(_tiles(limits))
    staged = draw(st.integers(0, 5)) > 0
    if not staged:
        return draw(_around(tiles, problem, target))
    thread = derive("s", tiles, problem)
    # What few threads copy into deep tiles takes more registers than they have.
    deepest = max(1, min(limits.depth, _COPIES * thread.threads // sum(tiles.block)))
    depth = draw(st.sampled_from([k for k in _DEPTHS if k <= deepest]))
    buffers, asynchronous = draw(_buffers(target, limits))
    block = (*tiles.block, depth)
    extents: dict[Axis, int] = {"M": block[0], "N": block[1], "K": depth}

    def stage(name: StagedName, fragment: int) -> StageOptions:
        return draw(_stages(problem.operand(name), extents, fragment, asynchronous))

    found = replace(
        tiles,
        block=block,
        a=stage("A", thread.piece_m),
        b=stage("B", thread.piece_n),
        buffers=buffers,
        asynchronous=asynchronous,
    )
    found = draw(_splits(draw(_fragments(found))))
    return draw(_around(found, problem, target))


@st.composite
def _tiles(draw: st.DrawFn, limits: Limits) -> Options:
    """Block, warp, lanes, thread and piece; some left to be derived."""
    thread = draw(st.tuples(st.sampled_from(_THREAD_SIDES), st.sampled_from(_THREAD_SIDES)))
    piece = draw(st.none() | st.tuples(*(st.sampled_from(_divisors(side)) for side in thread)))
    if draw(st.booleans()):
        lanes, warps = draw(st.sampled_from(_LANES)), draw(st.sampled_from(_WARPS))
        warp = (lanes[0] * thread[0], lanes[1] * thread[1])
        block = (warp[0] * warps[0], warp[1] * warps[1])
        assume(max(block) <= 4 * limits.side and WARP_SIZE * prod(warps) <= limits.threads)
        orders = [LaneOrder.ROW, LaneOrder.COLUMN] + [LaneOrder.PAIRED] * (lanes[0] % 2 == lanes[1] % 2 == 0)
        given_lanes = draw(st.booleans())
        given_thread = not given_lanes or piece is not None or draw(st.booleans())
        return Options(
            block,
            warp=warp,
            lanes=lanes if given_lanes else None,
            lane_order=draw(st.sampled_from(orders)) if given_lanes else LaneOrder.ROW,
            thread=thread if given_thread else None,
            piece=piece,
        )
    grid = draw(st.tuples(st.sampled_from(_GRID_SIDES), st.sampled_from(_GRID_SIDES)))
    block = (grid[0] * thread[0], grid[1] * thread[1])
    assume(max(block) <= limits.side and prod(grid) <= min(limits.threads, MAX_THREADS_PER_BLOCK))
    given_thread = thread != (1, 1) or piece is not None or draw(st.booleans())
    return Options(block, thread=thread if given_thread else None, piece=piece)


def _buffers(target: Target, limits: Limits) -> st.SearchStrategy[tuple[int | None, bool]]:
    kinds: list[tuple[int | None, bool]] = [(None, False), (2, False), (1, False)]
    if target.async_copy:
        kinds += [(count, True) for count in range(2, limits.buffers + 1)]
    return st.sampled_from(kinds)


@st.composite
def _fragments(draw: st.DrawFn, found: Options) -> Options:
    """Sets of fragments, the step that issues copies where two of them take turns, and steps unrolled."""
    buffers, depth = found.buffers or 1, found.block[2]
    fragments = draw(st.sampled_from((2, 1, None) if buffers > 1 and depth % 2 == 0 else (None, 1)))
    first: StagedName = "A"
    if fragments is not None and draw(st.booleans()):
        first = "B"
    at = draw(_copy_steps(found, depth)) if fragments == 2 and found.asynchronous else CopySteps()
    turn = 2 if fragments == 2 else 1
    unroll = draw(st.none() | st.sampled_from([count for count in _divisors(depth) if count % turn == 0]))
    return replace(found, fragments=fragments, read_first=first, copy_steps=at, unroll=unroll)


@st.composite
def _copy_steps(draw: st.DrawFn, found: Options, depth: int) -> CopySteps:
    """All copies in one step, or those of each operand in steps of its own."""
    step = st.integers(0, depth - 2)
    if draw(st.booleans()):
        one = (draw(step),)
        return CopySteps(one, one)
    threads = prod(found.block[:2]) // prod(found.thread or (1, 1))
    most = [max(1, min(4, -(-extent * depth // threads))) for extent in found.block[:2]]
    a, b = (tuple(sorted(draw(st.lists(step, min_size=1, max_size=count)))) for count in most)
    return CopySteps(a, b)


@st.composite
def _splits(draw: st.DrawFn, found: Options) -> Options:
    """K in one part mostly, or shared among a few blocks."""
    parts = draw(st.sampled_from((None, None, None, 1, 2, 3, 5)))
    return replace(found, split_k=parts, split_atomic=(parts or 1) > 1 and draw(st.booleans()))


@st.composite
def _stages(
    draw: st.DrawFn, operand: Operand, extents: dict[Axis, int], fragment: int, asynchronous: bool
) -> StageOptions:
    transpose = draw(st.booleans())
    tile = operand.tile(extents, transpose, 0)
    loads = [w for w in WIDTHS if tile.load_extent % w == 0]
    if asynchronous and transpose:
        loads = [1]
    load = draw(st.sampled_from(loads))
    swizzle = draw(st.integers(0, 3)) == 0
    # Asynchronous copies keep their width, which the shared row must then allow.
    unit = load if asynchronous and not transpose else 1
    pads = [pad for pad in _PADS if (tile.cols + (pad or 0)) % unit == 0]
    pad = None if swizzle else draw(st.sampled_from(pads))
    if draw(st.booleans()):
        found = StageOptions(vector=load, transpose=transpose, pad=pad, swizzle=swizzle)
        return found if _sound(found, tile) else replace(found, vector=1, swizzle=False)
    row = tile.cols + (pad or 0)
    stores = [w for w in WIDTHS if load % w == 0 and row % w == 0]
    if transpose or asynchronous:
        stores = [load] if asynchronous and not transpose else [1]
    reads = [w for w in WIDTHS if tile.k_outer and fragment % w == 0 and row % w == 0] or [1]
    store, read = draw(st.sampled_from(stores)), draw(st.sampled_from(reads))
    swizzle = swizzle and tile.swizzles(max(store, read))
    return StageOptions(load=load, store=store, read=read, transpose=transpose, pad=pad, swizzle=swizzle)


def _sound(stage: StageOptions, tile: TileShape) -> bool:
    return not stage.swizzle or tile.swizzles(stage.vector or 1)


@st.composite
def _around(draw: st.DrawFn, found: Options, problem: Problem, target: Target) -> Options:
    """The order of FMAs, stores of C, launch bounds and assumptions around tiles that are settled."""
    fragment = c_fragment(problem, derive("s", found, problem))
    widths: list[int | None] = [None, *(w for w in WIDTHS if fragment % w == 0)]
    most = min(4, target.max_blocks_per_sm)
    along = draw(st.sampled_from(_ALONG))
    raster = draw(st.sampled_from(_RASTERS))
    return replace(
        found,
        fma_along=along,
        fma_snake=along is not None and draw(st.booleans()),
        raster=raster,
        raster_along=draw(st.sampled_from(_RASTER_ALONG)) if raster else "M",
        c_vector=draw(st.sampled_from(widths)),
        min_blocks=draw(st.none() | st.integers(1, most)),
        assumptions=draw(_assumptions(found)),
    )


@st.composite
def _assumptions(draw: st.DrawFn, found: Options) -> tuple[Assumption, ...]:
    """None mostly; in the language's order, one for each axis and operand at most."""
    if draw(st.integers(0, 3)) > 0:
        return ()
    block = dict(zip(("M", "N", "K"), found.block, strict=False))
    assumed: list[Assumption] = []
    axes: tuple[Axis, ...] = ("M", "N", "K")
    for axis in axes:
        choices = sorted({1, 2, 4, block.get(axis, 3), 2 * block.get(axis, 1)})
        if multiple := draw(st.none() | st.sampled_from(choices)):
            assumed.append(Assumption(axis=axis, multiple=multiple))
    for name in draw(st.sets(st.sampled_from(("A", "B", "C")))):
        assumed.append(Assumption(operand=name))  # type: ignore[arg-type]
    return tuple(sorted(assumed, key=lambda one: (one.operand or "", "MNK".find(one.axis or ""))))


def _divisors(side: int) -> list[int]:
    return [value for value in range(side, 0, -1) if side % value == 0]
