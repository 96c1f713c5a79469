"""What a schedule asks for, word by word, and the Schedule that follows from it.

`Options` is a schedule before anything is derived: None is a word that was not given.  The checker fills one
from the syntax, repairs vary one, and a search draws one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import Literal

from gemmdsl.spec import (
    WIDTHS,
    Assumption,
    Axis,
    CopySteps,
    LaneOrder,
    Order,
    Problem,
    Schedule,
    Stage,
    StagedName,
    TileShape,
)

Extents = tuple[int, ...]
FmaAxis = Literal["M", "N"]
RasterAxis = Literal["M", "N"]


@dataclass(frozen=True, slots=True)
class StageOptions:
    """Items of `stage A` or `stage B`; widths in elements."""

    vector: int | None = None
    load: int | None = None
    store: int | None = None
    read: int | None = None
    transpose: bool = False
    pad: int | None = None
    swizzle: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """Every word of a schedule; extents in elements, two per tile, `block` two or three."""

    block: Extents
    warp: Extents | None = None
    lanes: Extents | None = None
    lane_order: LaneOrder = LaneOrder.ROW
    thread: Extents | None = None
    piece: Extents | None = None
    a: StageOptions = StageOptions()
    b: StageOptions = StageOptions()
    c_vector: int | None = None
    buffers: int | None = None
    asynchronous: bool = False
    copy_steps: CopySteps = field(default_factory=CopySteps)
    fragments: int | None = None
    read_first: StagedName = "A"
    fma_along: FmaAxis | None = None
    fma_snake: bool = False
    unroll: int | None = None
    raster: int | None = None
    raster_along: RasterAxis = "M"
    min_blocks: int | None = None
    split_k: int | None = None
    split_atomic: bool = False
    assumptions: tuple[Assumption, ...] = ()


def derive(name: str, options: Options, problem: Problem) -> Schedule:
    """The schedule with every default filled in; it need not be legal (see `gemmdsl.rules`).

    Without `lanes`, lanes = warp / thread; without `thread`, thread = warp / lanes, else 1 x 1.  A stage's
    `vector V` asks for loads of V and for the widest legal shared stores and reads up to V.
    """
    block_m, block_n = options.block[:2]
    block_k = options.block[2] if len(options.block) == 3 else 0
    warp, lanes, thread = options.warp, options.lanes, options.thread
    if thread is None:
        thread = _ratio(warp, lanes) if warp and lanes else (1, 1)
    if lanes is None and warp is not None:
        lanes = _ratio(warp, thread)
    piece = options.piece or thread
    extents: dict[Axis, int] = {"M": block_m, "N": block_n, "K": block_k}

    def stage(name: StagedName, asked: StageOptions, fragment: int) -> Stage:
        tile = problem.operand(name).tile(extents, asked.transpose, asked.pad or 0)
        return _stage(asked, tile, fragment, options.asynchronous)

    return Schedule(
        name=name,
        block_m=block_m,
        block_n=block_n,
        block_k=block_k,
        thread_m=thread[0],
        thread_n=thread[1],
        piece_m=piece[0],
        piece_n=piece[1],
        warp=(warp[0], warp[1]) if warp else None,
        lanes=(lanes[0], lanes[1]) if lanes else None,
        lane_order=options.lane_order,
        stage_a=stage("A", options.a, piece[0]),
        stage_b=stage("B", options.b, piece[1]),
        c_vector=1 if options.c_vector is None else options.c_vector,
        buffers=1 if options.buffers is None else options.buffers,
        asynchronous=options.asynchronous,
        copy_steps=options.copy_steps,
        fragments=1 if options.fragments is None else options.fragments,
        read_first=options.read_first,
        fma_along=options.fma_along or "N",
        fma_snake=options.fma_snake,
        unroll=options.unroll,
        raster=1 if options.raster is None else options.raster,
        raster_along=options.raster_along,
        min_blocks=options.min_blocks or 0,
        split_k=1 if options.split_k is None else options.split_k,
        split_atomic=options.split_atomic,
        assumptions=options.assumptions,
    )


def c_fragment(problem: Problem, schedule: Schedule) -> int:
    """The piece's extent along the axis on which C is contiguous."""
    return schedule.piece_n if problem.c.order is Order.ROW else schedule.piece_m


def _ratio(tile: Extents, part: Extents) -> Extents:
    return tile[0] // max(1, part[0]), tile[1] // max(1, part[1])


def _stage(asked: StageOptions, tile: TileShape, fragment: int, asynchronous: bool) -> Stage:
    """Widths: what was asked for, else the widest legal one up to `vector`, else 1."""
    vector = 1 if asked.vector is None else asked.vector
    load = vector if asked.load is None else asked.load
    # A width must divide the padded row so that every row starts aligned; a swizzle exchanges whole vectors
    # and needs two of them.
    aligned = gcd(tile.row_length, max(WIDTHS))
    if asked.swizzle:
        aligned = gcd(aligned, max(1, tile.cols // 2))
    store = asked.store
    if store is None:
        if asked.transpose:
            store = 1
        elif asynchronous:
            store = load
        else:
            store = _widest(min(vector, load), load, aligned)
    read = asked.read
    if read is None:
        read = _widest(vector, fragment, aligned) if tile.k_outer else 1
    return Stage(load, store, read, asked.transpose, tile.pad, asked.swizzle)


def _widest(limit: int, *multiples: int) -> int:
    """The widest width up to `limit` that divides all of `multiples`."""
    fitting = [w for w in WIDTHS if w <= limit and all(multiple % w == 0 for multiple in multiples)]
    return fitting[-1] if fitting else 1
