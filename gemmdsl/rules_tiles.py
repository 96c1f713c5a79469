"""Rules on the hierarchy of tiles: block, warp, thread and piece."""

from __future__ import annotations

from gemmdsl.rules_case import Case, Findings, extents, rule
from gemmdsl.spec import LaneOrder
from gemmdsl.target import MAX_THREADS_PER_BLOCK, WARP_SIZE


@rule(
    "G204",
    "block % thread == 0, per axis",
    "block tile of {block} along {axis} does not divide into thread tiles of {thread}",
    ("thread", "block"),
)
def block_thread(case: Case) -> Findings:
    s = case.schedule
    for axis, block, thread in (("M", s.block_m, s.thread_m), ("N", s.block_n, s.thread_n)):
        if block % max(1, thread):
            yield ("thread", "block"), {"axis": axis, "block": block, "thread": thread}


@rule(
    "G205",
    "thread % piece == 0, per axis",
    "thread tile of {thread} along {axis} does not divide into pieces of {piece}",
    ("thread",),
)
def thread_piece(case: Case) -> Findings:
    s = case.schedule
    for axis, thread, piece in (("M", s.thread_m, s.piece_m), ("N", s.thread_n, s.piece_n)):
        if thread % max(1, piece):
            yield ("thread",), {"axis": axis, "thread": thread, "piece": piece}


@rule(
    "G206",
    "block % warp == 0, per axis",
    "block tile of {block} along {axis} does not divide into warp tiles of {warp}",
    ("warp", "block"),
)
def block_warp(case: Case) -> Findings:
    s = case.schedule
    if s.warp is not None:
        for axis, block, warp in (("M", s.block_m, s.warp[0]), ("N", s.block_n, s.warp[1])):
            if block % max(1, warp):
                yield ("warp", "block"), {"axis": axis, "block": block, "warp": warp}


@rule(
    "G207",
    f"warp_m * warp_n == {WARP_SIZE} * thread_m * thread_n",
    "warp tile {warp} leaves a lane with {share} outputs, but the thread tile is {thread} = {outputs}",
    ("warp", "thread", "lanes"),
)
def warp_outputs(case: Case) -> Findings:
    s = case.schedule
    if s.warp is None or s.lanes is None:
        return
    outputs, thread = s.warp[0] * s.warp[1], s.thread_m * s.thread_n
    if outputs != WARP_SIZE * thread:
        share = f"{outputs // WARP_SIZE}" if outputs % WARP_SIZE == 0 else f"{outputs} / {WARP_SIZE}"
        values = {
            "warp": extents(*s.warp),
            "share": share,
            "thread": extents(s.thread_m, s.thread_n),
            "outputs": thread,
        }
        yield ("warp", "thread", "lanes"), values


@rule(
    "G208",
    "warp == lanes * thread, per axis",
    "warp tile of {warp} along {axis} is not {lanes} lanes of thread tile {thread}",
    ("lanes", "warp", "thread"),
    needs=("G207", "G209"),
)
def lane_grid(case: Case) -> Findings:
    s = case.schedule
    if s.warp is None or s.lanes is None:
        return
    for axis, warp, lanes, thread in (
        ("M", s.warp[0], s.lanes[0], s.thread_m),
        ("N", s.warp[1], s.lanes[1], s.thread_n),
    ):
        if warp != lanes * thread:
            values = {"axis": axis, "warp": warp, "lanes": lanes, "thread": thread}
            yield ("lanes", "warp", "thread"), values


@rule(
    "G209",
    f"lanes_m * lanes_n == {WARP_SIZE}",
    f"lane grid {{lanes}} has {{count}} lanes, but a warp has {WARP_SIZE}",
    ("lanes",),
)
def lane_count(case: Case) -> Findings:
    s = case.schedule
    if s.lanes is None or s.lanes[0] * s.lanes[1] == WARP_SIZE:
        return
    # Lanes that follow from warp / thread are as many as they are because of G207.
    derived = s.warp and (s.warp[0] // max(1, s.thread_m), s.warp[1] // max(1, s.thread_n))
    if s.lanes != derived:
        yield ("lanes",), {"lanes": extents(*s.lanes), "count": s.lanes[0] * s.lanes[1]}


@rule(
    "G210",
    "paired lanes: lanes_m and lanes_n even",
    "lane grid {lanes} cannot be laid out in pairs",
    ("lanes", "warp"),
    needs=("G209",),
)
def paired(case: Case) -> Findings:
    lanes = case.schedule.lanes
    if lanes is not None and case.schedule.lane_order is LaneOrder.PAIRED and (lanes[0] % 2 or lanes[1] % 2):
        yield ("lanes", "warp"), {"lanes": extents(*lanes)}


@rule(
    "G211",
    "lanes need warp",
    "lane grid {lanes} is given without a warp tile",
    ("lanes", "warp"),
)
def lanes_need_warp(case: Case) -> Findings:
    if case.schedule.lanes is not None and case.schedule.warp is None:
        yield ("lanes", "warp"), {"lanes": extents(*case.schedule.lanes)}


@rule(
    "G212",
    f"1 <= threads <= {MAX_THREADS_PER_BLOCK}, where threads = block_m * block_n / (thread_m * thread_n)",
    "block tile {block} in thread tiles of {thread} takes {threads} threads",
    ("thread", "block"),
    needs=("G204",),
)
def threads(case: Case) -> Findings:
    s = case.schedule
    if not 1 <= case.schedule.threads <= MAX_THREADS_PER_BLOCK:
        values = {
            "block": extents(s.block_m, s.block_n),
            "thread": extents(s.thread_m, s.thread_n),
            "threads": case.schedule.threads,
        }
        yield ("thread", "block"), values


TILES = (
    block_thread,
    thread_piece,
    block_warp,
    warp_outputs,
    lane_count,
    lane_grid,
    paired,
    lanes_need_warp,
    threads,
)
