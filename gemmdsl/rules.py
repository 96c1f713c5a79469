"""The rules of schedules, as data: the checker, `gemmdsl rules`, the language reference, searches and random
tests all read this one table.

A rule looks at a resolved Schedule with its problem and target, and yields the words that break it with the
values for its message.  Words are written `block`, `thread`, `A.load`, `C.vector`, `assume.M`; together with
`gemmdsl.rules_repair` they lead to the nearest legal change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from gemmdsl.rules_options import WIDTHS, SharedTile, c_fragment, shared_tile
from gemmdsl.spec import Axis, LaneOrder, Order, Problem, Schedule, Stage, StagedName
from gemmdsl.target import (
    MAX_REGISTERS_PER_THREAD,
    MAX_THREADS_PER_BLOCK,
    REGISTERS_PER_SM,
    WARP_SIZE,
    Target,
)

MAX_BLOCK_SIDE = 1024
MAX_BLOCK_K = 256
MAX_PAD = 64
MAX_BUFFERS = 16
MAX_MIN_BLOCKS = 32
MAX_MULTIPLE = 65536
# What the system keeps of an SM's shared memory for each block, in bytes (sm_80 and later).
SHARED_PER_BLOCK_RESERVED = 1024
# Registers are handed out per thread in steps of this many.
REGISTER_STEP = 8

Words = tuple[str, ...]
Values = Mapping[str, object]
Finding = tuple[Words, Values]


class Case:
    """A schedule with its problem and target, and what the rules derive from them.

    Extents are clamped to 1 where they divide, so that every rule can be asked about any schedule.
    """

    __slots__ = (
        "problem",
        "registers",
        "registers_available",
        "schedule",
        "shared_bytes",
        "staged",
        "target",
        "threads",
        "tiles",
    )

    def __init__(self, schedule: Schedule, problem: Problem, target: Target) -> None:
        s = schedule
        self.schedule, self.problem, self.target = schedule, problem, target
        outputs = max(1, s.thread_m) * max(1, s.thread_n)
        self.threads = max(1, s.block_m) * max(1, s.block_n) // outputs
        extents: dict[Axis, int] = {"M": s.block_m, "N": s.block_n, "K": s.block_k}
        self.tiles: dict[StagedName, SharedTile] = {
            "A": shared_tile(problem.a, s.stage_a.transpose, extents),
            "B": shared_tile(problem.b, s.stage_b.transpose, extents),
        }
        self.staged: tuple[tuple[StagedName, Stage, SharedTile], ...] = ()
        if s.block_k > 0:
            self.staged = (("A", s.stage_a, self.tiles["A"]), ("B", s.stage_b, self.tiles["B"]))
        rows = sum(tile.rows * (tile.cols + stage.pad) for _, stage, tile in self.staged)
        self.shared_bytes = 4 * rows * s.buffers
        self.registers = outputs + s.thread_m + s.thread_n
        if s.buffers == 2 and not s.asynchronous:
            # Ping-pong keeps the next tile of both operands in registers until its buffer is free.
            threads = max(1, self.threads)
            self.registers += sum(-(-tile.rows * tile.cols // threads) for _, _, tile in self.staged)
        warps = -(-max(1, self.threads) // WARP_SIZE)
        share = REGISTERS_PER_SM // (warps * WARP_SIZE * max(1, s.min_blocks))
        self.registers_available = min(MAX_REGISTERS_PER_THREAD, share // REGISTER_STEP * REGISTER_STEP)


@dataclass(frozen=True, slots=True)
class Rule:
    """One constraint: a stable code, its formula, and the message of a violation.

    `words` are the words of the language it involves, `message` a format string of what `check` yields.  A
    `basic` rule bounds single values; others are not asked about words that break a basic one.
    """

    code: str
    formula: str
    message: str
    words: Words
    check: Callable[[Case], Iterator[Finding]] = field(repr=False)
    basic: bool = False


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule: the words that break it, the likeliest cause first, and the values of its message."""

    rule: Rule
    words: Words
    values: Values = field(hash=False)

    @property
    def message(self) -> str:
        return self.rule.message.format_map(self.values)


def violations(schedule: Schedule, problem: Problem, target: Target) -> list[Violation]:
    """Every rule that the schedule breaks, in the order of the table; pure."""
    case = Case(schedule, problem, target)
    found: list[Violation] = []
    broken: set[str] = set()
    for rule in RULES:
        for words, values in rule.check(case):
            if rule.basic:
                broken.update(words)
            elif not broken.isdisjoint(words):
                continue
            found.append(Violation(rule, words, values))
    return found


def shared_bytes(schedule: Schedule, problem: Problem, target: Target) -> int:
    """Bytes of shared memory that a block uses, all buffers together."""
    return Case(schedule, problem, target).shared_bytes


# Sizes: single values within bounds.


def _block_side(case: Case) -> Iterator[Finding]:
    for axis, extent in (("M", case.schedule.block_m), ("N", case.schedule.block_n)):
        if not 1 <= extent <= MAX_BLOCK_SIDE:
            yield ("block",), {"axis": axis, "extent": extent}


def _block_k(case: Case) -> Iterator[Finding]:
    if not 0 <= case.schedule.block_k <= MAX_BLOCK_K:
        yield ("block",), {"extent": case.schedule.block_k}


def _tile_sizes(case: Case) -> Iterator[Finding]:
    s = case.schedule
    for word, level, tile in (
        ("thread", "thread tile", (s.thread_m, s.thread_n)),
        ("thread", "piece", (s.piece_m, s.piece_n)),
        ("warp", "warp tile", s.warp),
        ("lanes", "lane grid", s.lanes),
    ):
        # Lanes that came out as 0 were derived: the warp tile is smaller than the thread tile (G207).
        if tile is not None and min(tile) < (0 if word == "lanes" else 1):
            yield (word,), {"level": level, "m": tile[0], "n": tile[1]}


def _width(case: Case) -> Iterator[Finding]:
    for name, stage in (("A", case.schedule.stage_a), ("B", case.schedule.stage_b)):
        for access, width in (("load", stage.load), ("store", stage.store), ("read", stage.read)):
            if width not in WIDTHS:
                yield (f"{name}.{access}",), {"what": f"{access}s of {name}", "width": width}
    if case.schedule.c_vector not in WIDTHS:
        yield ("C.vector",), {"what": "stores of C", "width": case.schedule.c_vector}


def _pad_range(case: Case) -> Iterator[Finding]:
    for name, stage in (("A", case.schedule.stage_a), ("B", case.schedule.stage_b)):
        if not 0 <= stage.pad <= MAX_PAD:
            yield (f"{name}.pad",), {"name": name, "pad": stage.pad}


def _buffers_range(case: Case) -> Iterator[Finding]:
    if not 1 <= case.schedule.buffers <= MAX_BUFFERS:
        yield ("buffers",), {"buffers": case.schedule.buffers}


def _min_blocks_range(case: Case) -> Iterator[Finding]:
    if not 0 <= case.schedule.min_blocks <= MAX_MIN_BLOCKS:
        yield ("min_blocks",), {"blocks": case.schedule.min_blocks}


def _multiple(case: Case) -> Iterator[Finding]:
    for assumption in case.schedule.assumptions:
        if not 1 <= assumption.multiple <= MAX_MULTIPLE:
            yield (f"assume.{assumption.axis}",), {"axis": assumption.axis, "multiple": assumption.multiple}


# Tiles: each level divides the one above it.


def _block_thread(case: Case) -> Iterator[Finding]:
    s = case.schedule
    for axis, block, thread in (("M", s.block_m, s.thread_m), ("N", s.block_n, s.thread_n)):
        if block % max(1, thread):
            yield ("thread", "block"), {"axis": axis, "block": block, "thread": thread}


def _thread_piece(case: Case) -> Iterator[Finding]:
    s = case.schedule
    for axis, thread, piece in (("M", s.thread_m, s.piece_m), ("N", s.thread_n, s.piece_n)):
        if thread % max(1, piece):
            yield ("thread",), {"axis": axis, "thread": thread, "piece": piece}


def _block_warp(case: Case) -> Iterator[Finding]:
    s = case.schedule
    if s.warp is not None:
        for axis, block, warp in (("M", s.block_m, s.warp[0]), ("N", s.block_n, s.warp[1])):
            if block % max(1, warp):
                yield ("warp", "block"), {"axis": axis, "block": block, "warp": warp}


def _warp_outputs(case: Case) -> Iterator[Finding]:
    s = case.schedule
    if s.warp is None or s.lanes is None:
        return
    outputs, thread = s.warp[0] * s.warp[1], s.thread_m * s.thread_n
    if outputs != WARP_SIZE * thread:
        share = f"{outputs // WARP_SIZE}" if outputs % WARP_SIZE == 0 else f"{outputs} / {WARP_SIZE}"
        values = {
            "warp": _x(*s.warp),
            "share": share,
            "thread": _x(s.thread_m, s.thread_n),
            "outputs": thread,
        }
        yield ("warp", "thread", "lanes"), values


def _lane_grid(case: Case) -> Iterator[Finding]:
    s = case.schedule
    # A wrong number of outputs or of lanes is a finding of its own.
    if s.warp is None or s.lanes is None or s.lanes[0] * s.lanes[1] != WARP_SIZE:
        return
    if s.warp[0] * s.warp[1] != WARP_SIZE * s.thread_m * s.thread_n:
        return
    for axis, warp, lanes, thread in (
        ("M", s.warp[0], s.lanes[0], s.thread_m),
        ("N", s.warp[1], s.lanes[1], s.thread_n),
    ):
        if warp != lanes * thread:
            values = {"axis": axis, "warp": warp, "lanes": lanes, "thread": thread}
            yield ("lanes", "warp", "thread"), values


def _lane_count(case: Case) -> Iterator[Finding]:
    s = case.schedule
    if s.lanes is None or s.lanes[0] * s.lanes[1] == WARP_SIZE:
        return
    # Lanes that follow from warp / thread are as many as they are because of G207.
    if s.warp is None or s.warp != (s.lanes[0] * s.thread_m, s.lanes[1] * s.thread_n):
        yield ("lanes",), {"lanes": _x(*s.lanes), "count": s.lanes[0] * s.lanes[1]}


def _paired(case: Case) -> Iterator[Finding]:
    lanes = case.schedule.lanes
    if lanes is not None and case.schedule.lane_order is LaneOrder.PAIRED and (lanes[0] % 2 or lanes[1] % 2):
        yield ("lanes", "warp"), {"lanes": _x(*lanes)}


def _lanes_need_warp(case: Case) -> Iterator[Finding]:
    if case.schedule.lanes is not None and case.schedule.warp is None:
        yield ("lanes", "warp"), {"lanes": _x(*case.schedule.lanes)}


def _threads(case: Case) -> Iterator[Finding]:
    s = case.schedule
    if not 1 <= case.threads <= MAX_THREADS_PER_BLOCK:
        values = {
            "block": _x(s.block_m, s.block_n),
            "thread": _x(s.thread_m, s.thread_n),
            "threads": case.threads,
        }
        yield ("thread", "block"), values


# Staging: how a tile lies in shared memory and how wide its accesses are.


def _stage_needs_k(case: Case) -> Iterator[Finding]:
    if not case.schedule.staged:
        for name, stage in (("A", case.schedule.stage_a), ("B", case.schedule.stage_b)):
            if stage != Stage():
                given = [
                    word
                    for word in ("transpose", "pad", "swizzle", "load", "store", "read")
                    if getattr(stage, word) != getattr(Stage(), word)
                ]
                yield (*(f"{name}.{word}" for word in given), "block"), {"name": name}


def _load_width(case: Case) -> Iterator[Finding]:
    for name, stage, tile in case.staged:
        if tile.load_extent % max(1, stage.load):
            axis = case.problem.operand(name).contiguous
            values = {"name": name, "load": stage.load, "axis": axis, "extent": tile.load_extent}
            yield (f"{name}.load", "block"), values


def _transposed_store(case: Case) -> Iterator[Finding]:
    for name, stage, _ in case.staged:
        if stage.transpose and stage.store > 1:
            yield (f"{name}.store", f"{name}.transpose"), {"name": name, "store": stage.store}


def _store_width(case: Case) -> Iterator[Finding]:
    for name, stage, _ in case.staged:
        if not stage.transpose and stage.load % max(1, stage.store):
            yield (f"{name}.store", f"{name}.load"), {"name": name, "store": stage.store, "load": stage.load}


def _read_order(case: Case) -> Iterator[Finding]:
    for name, stage, tile in case.staged:
        if stage.read > 1 and not tile.k_outer:
            axis = "M" if name == "A" else "N"
            values = {
                "name": name,
                "read": stage.read,
                "axis": axis,
                "change": f"drop `transpose` from stage {name}"
                if stage.transpose
                else f"add `transpose` to stage {name}",
            }
            yield (f"{name}.read", f"{name}.transpose"), values


def _read_width(case: Case) -> Iterator[Finding]:
    for name, stage, tile in case.staged:
        piece = case.schedule.piece_m if name == "A" else case.schedule.piece_n
        if tile.k_outer and piece % max(1, stage.read):
            values = {"name": name, "read": stage.read, "axis": "M" if name == "A" else "N", "piece": piece}
            yield (f"{name}.read", "thread"), values


def _row_alignment(case: Case) -> Iterator[Finding]:
    for name, stage, tile in case.staged:
        # A store or read that breaks its own rule makes no demand on the row.
        store = 1 if stage.transpose else stage.store
        read = stage.read if tile.k_outer else 1
        width = max(store, read)
        if (tile.cols + stage.pad) % max(1, width):
            access = "store" if store >= read else "read"
            values = {
                "name": name,
                "cols": tile.cols,
                "pad": stage.pad,
                "row": tile.cols + stage.pad,
                "width": width,
                "access": access,
            }
            yield (f"{name}.pad", f"{name}.{access}", "block"), values


def _swizzle_pad(case: Case) -> Iterator[Finding]:
    for name, stage, _ in case.staged:
        if stage.swizzle and stage.pad:
            yield (f"{name}.pad", f"{name}.swizzle"), {"name": name, "pad": stage.pad}


def _swizzle_units(case: Case) -> Iterator[Finding]:
    for name, stage, tile in case.staged:
        unit = max(1, stage.store, stage.read)
        units = tile.cols // unit
        if stage.swizzle and (tile.cols % unit or units < 2 or units & (units - 1)):
            values = {"name": name, "cols": tile.cols, "unit": unit}
            yield (f"{name}.swizzle", f"{name}.read", f"{name}.store", "block"), values


# Buffers.


def _buffers_need_k(case: Case) -> Iterator[Finding]:
    s = case.schedule
    if not s.staged and (s.buffers > 1 or s.asynchronous):
        yield ("buffers", "block"), {"buffers": _buffers(s)}


def _ping_pong(case: Case) -> Iterator[Finding]:
    if not case.schedule.asynchronous and case.schedule.buffers > 2:
        yield ("buffers",), {"buffers": case.schedule.buffers}


def _async_depth(case: Case) -> Iterator[Finding]:
    if case.schedule.asynchronous and case.schedule.buffers < 2:
        yield ("buffers",), {"buffers": case.schedule.buffers}


def _async_target(case: Case) -> Iterator[Finding]:
    if case.schedule.asynchronous and not case.target.async_copy:
        yield ("buffers", "target"), {"target": case.target.name}


def _async_width(case: Case) -> Iterator[Finding]:
    if case.schedule.asynchronous:
        for name, stage, _ in case.staged:
            if not stage.transpose and stage.store != stage.load:
                values = {"name": name, "store": stage.store, "load": stage.load}
                yield (f"{name}.store", f"{name}.load", "buffers"), values


def _async_transpose(case: Case) -> Iterator[Finding]:
    if case.schedule.asynchronous:
        for name, stage, _ in case.staged:
            if stage.transpose and stage.load != 1:
                yield (f"{name}.load", f"{name}.transpose", "buffers"), {"name": name, "load": stage.load}


# Resources of the target.


def _shared(case: Case) -> Iterator[Finding]:
    if case.shared_bytes > case.target.shared_per_block:
        values = {
            "bytes": case.shared_bytes,
            "target": case.target.name,
            "limit": case.target.shared_per_block,
            "block": _block(case.schedule),
            "buffers": "one buffer" if case.schedule.buffers == 1 else f"{case.schedule.buffers} buffers",
        }
        yield ("block", "buffers", "A.pad", "B.pad", "target"), values


def _registers(case: Case) -> Iterator[Finding]:
    s = case.schedule
    if case.registers > case.registers_available:
        values = {
            "thread": _x(s.thread_m, s.thread_n),
            "registers": case.registers,
            "available": case.registers_available,
            "threads": case.threads,
            "blocks": f" ({max(1, s.min_blocks)} x {case.threads} threads per SM)",
        }
        yield ("thread", "min_blocks", "block", "buffers"), values


def _resident_threads(case: Case) -> Iterator[Finding]:
    total = case.schedule.min_blocks * case.threads
    if total > case.target.max_threads_per_sm:
        yield (
            ("min_blocks", "thread", "block", "target"),
            {
                "blocks": case.schedule.min_blocks,
                "threads": case.threads,
                "total": total,
                "target": case.target.name,
                "limit": case.target.max_threads_per_sm,
            },
        )


def _resident_blocks(case: Case) -> Iterator[Finding]:
    if case.schedule.min_blocks > case.target.max_blocks_per_sm:
        yield (
            ("min_blocks", "target"),
            {
                "blocks": case.schedule.min_blocks,
                "target": case.target.name,
                "limit": case.target.max_blocks_per_sm,
            },
        )


def _resident_shared(case: Case) -> Iterator[Finding]:
    blocks = case.schedule.min_blocks
    total = blocks * (case.shared_bytes + SHARED_PER_BLOCK_RESERVED)
    if blocks > 1 and total > case.target.shared_per_sm:
        yield (
            ("min_blocks", "block", "buffers", "A.pad", "B.pad", "target"),
            {
                "blocks": blocks,
                "bytes": case.shared_bytes,
                "total": total,
                "target": case.target.name,
                "limit": case.target.shared_per_sm,
            },
        )


def _c_width(case: Case) -> Iterator[Finding]:
    piece = c_fragment(case.problem, case.schedule)
    if piece % max(1, case.schedule.c_vector):
        axis = "N" if case.problem.c.order is Order.ROW else "M"
        yield ("C.vector", "thread"), {"vector": case.schedule.c_vector, "axis": axis, "piece": piece}


def _x(*extents: int) -> str:
    return " x ".join(map(str, extents))


def _block(schedule: Schedule) -> str:
    return _x(schedule.block_m, schedule.block_n, *([schedule.block_k] if schedule.staged else []))


def _buffers(schedule: Schedule) -> str:
    return f"buffers {schedule.buffers}{' async' * schedule.asynchronous}"


RULES: tuple[Rule, ...] = (
    Rule(
        "G201",
        f"1 <= block_m, block_n <= {MAX_BLOCK_SIDE}",
        "block tile has extent {extent} along {axis}",
        ("block",),
        _block_side,
        basic=True,
    ),
    Rule(
        "G202",
        f"1 <= block_k <= {MAX_BLOCK_K}",
        "block tile has extent {extent} along K",
        ("block",),
        _block_k,
        basic=True,
    ),
    Rule(
        "G203",
        "every extent of warp, lanes and thread >= 1",
        "{level} {m} x {n} is empty",
        ("warp", "lanes", "thread"),
        _tile_sizes,
        basic=True,
    ),
    Rule(
        "G301",
        "vector, load vector, store vector, read vector: 1, 2 or 4",
        "{what} cannot be {width} elements wide",
        ("load", "store", "read", "vector"),
        _width,
        basic=True,
    ),
    Rule(
        "G302",
        f"0 <= pad <= {MAX_PAD}",
        "rows of {name} cannot be padded by {pad}",
        ("pad",),
        _pad_range,
        True,
    ),
    Rule(
        "G401",
        f"1 <= buffers <= {MAX_BUFFERS}",
        "a pipeline cannot have {buffers} buffers",
        ("buffers",),
        _buffers_range,
        basic=True,
    ),
    Rule(
        "G501",
        f"1 <= min_blocks <= {MAX_MIN_BLOCKS}",
        "an SM cannot hold {blocks} blocks",
        ("min_blocks",),
        _min_blocks_range,
        basic=True,
    ),
    Rule(
        "G601",
        f"1 <= multiple <= {MAX_MULTIPLE}, for the least common multiple of all that is assumed of an axis",
        "{axis} cannot be assumed to be a multiple of {multiple}",
        ("assume",),
        _multiple,
        basic=True,
    ),
    Rule(
        "G204",
        "block % thread == 0, per axis",
        "block tile of {block} along {axis} does not divide into thread tiles of {thread}",
        ("thread", "block"),
        _block_thread,
    ),
    Rule(
        "G205",
        "thread % piece == 0, per axis",
        "thread tile of {thread} along {axis} does not divide into pieces of {piece}",
        ("thread",),
        _thread_piece,
    ),
    Rule(
        "G206",
        "block % warp == 0, per axis",
        "block tile of {block} along {axis} does not divide into warp tiles of {warp}",
        ("warp", "block"),
        _block_warp,
    ),
    Rule(
        "G207",
        f"warp_m * warp_n == {WARP_SIZE} * thread_m * thread_n",
        "warp tile {warp} leaves a lane with {share} outputs, but the thread tile is {thread} = {outputs}",
        ("warp", "thread", "lanes"),
        _warp_outputs,
    ),
    Rule(
        "G208",
        "warp == lanes * thread, per axis",
        "warp tile of {warp} along {axis} is not {lanes} lanes of thread tile {thread}",
        ("lanes", "warp", "thread"),
        _lane_grid,
    ),
    Rule(
        "G209",
        f"lanes_m * lanes_n == {WARP_SIZE}",
        f"lane grid {{lanes}} has {{count}} lanes, but a warp has {WARP_SIZE}",
        ("lanes",),
        _lane_count,
    ),
    Rule(
        "G210",
        "paired lanes: lanes_m and lanes_n even",
        "lane grid {lanes} cannot be laid out in pairs",
        ("lanes", "warp"),
        _paired,
    ),
    Rule(
        "G211",
        "lanes need warp",
        "lane grid {lanes} is given without a warp tile",
        ("lanes", "warp"),
        _lanes_need_warp,
    ),
    Rule(
        "G212",
        f"1 <= threads <= {MAX_THREADS_PER_BLOCK}, where threads = block_m * block_n / (thread_m * thread_n)",
        "block tile {block} in thread tiles of {thread} takes {threads} threads",
        ("thread", "block"),
        _threads,
    ),
    Rule(
        "G303",
        "stage needs block BM x BN x BK",
        "stage {name} has options, but without a K extent in `block` nothing is staged",
        ("vector", "load", "store", "read", "transpose", "pad", "swizzle", "block"),
        _stage_needs_k,
    ),
    Rule(
        "G304",
        "tile extent along the operand's contiguous axis % load == 0",
        "loads of {name} are {load} wide, but its tile has extent {extent} along {axis}",
        ("load", "block"),
        _load_width,
    ),
    Rule(
        "G305",
        "transpose: store == 1",
        "{name} is transposed on its way, so that its stores cannot be {store} wide",
        ("store", "transpose"),
        _transposed_store,
    ),
    Rule(
        "G306",
        "no transpose: load % store == 0",
        "{name} arrives {load} wide and cannot be stored {store} wide",
        ("store", "load"),
        _store_width,
    ),
    Rule(
        "G307",
        "read > 1 needs rows along K in shared memory",
        "reads of {name} are {read} wide, but its shared rows do not lie along {axis}: {change}",
        ("read", "transpose"),
        _read_order,
    ),
    Rule(
        "G308",
        "piece % read == 0, along M for A and N for B",
        "reads of {name} are {read} wide, but a thread reads pieces of {piece} along {axis}",
        ("read", "thread"),
        _read_width,
    ),
    Rule(
        "G309",
        "(shared row + pad) % max(store, read) == 0",
        "rows of {name} are {cols} + {pad} = {row} long, which misaligns {access}s of {width}",
        ("pad", "store", "read", "block"),
        _row_alignment,
    ),
    Rule(
        "G310",
        "swizzle: pad == 0",
        "rows of {name} are swizzled and also padded by {pad}",
        ("pad", "swizzle"),
        _swizzle_pad,
    ),
    Rule(
        "G311",
        "swizzle: shared row / max(store, read) is a power of two, 2 or more",
        "rows of {name} hold {cols} elements, which cannot be swizzled in units of {unit}",
        ("swizzle", "read", "store", "block"),
        _swizzle_units,
    ),
    Rule(
        "G402",
        "buffers > 1 and async need block BM x BN x BK",
        "`{buffers}` needs a K extent in `block`: nothing is staged",
        ("buffers", "block"),
        _buffers_need_k,
    ),
    Rule(
        "G403",
        "buffers without async: 1 or 2",
        "{buffers} buffers without `async`: one tile is prefetched through registers, which takes 2",
        ("buffers",),
        _ping_pong,
    ),
    Rule(
        "G404",
        "async: buffers >= 2",
        "asynchronous copies into {buffers} buffer would overwrite the tile in use",
        ("buffers",),
        _async_depth,
    ),
    Rule(
        "G405",
        "async: target sm_80 or later",
        "{target} has no asynchronous copies",
        ("buffers",),
        _async_target,
    ),
    Rule(
        "G406",
        "async, no transpose: store == load",
        "asynchronous copies of {name} load {load} wide and cannot store {store} wide",
        ("store", "load", "buffers"),
        _async_width,
    ),
    Rule(
        "G407",
        "async, transpose: load == 1",
        "asynchronous copies of {name} are {load} wide and cannot transpose on the way: say `load vector 1`",
        ("load", "transpose", "buffers"),
        _async_transpose,
    ),
    Rule(
        "G502",
        "4 * buffers * (rows_a * (row_a + pad_a) + rows_b * (row_b + pad_b)) <= shared memory per block",
        "block tile {block} in {buffers} takes {bytes} bytes of shared memory; {target} has {limit}",
        ("block", "buffers", "pad"),
        _shared,
    ),
    Rule(
        "G503",
        "thread_m * thread_n + thread_m + thread_n + prefetched elements <= registers per thread",
        "thread tile {thread} holds {registers} values in {available} registers{blocks}: it would spill",
        ("thread", "min_blocks", "block", "buffers"),
        _registers,
    ),
    Rule(
        "G504",
        "min_blocks * threads <= threads per SM",
        "{blocks} blocks of {threads} threads are {total} threads; {target} holds {limit} per SM",
        ("min_blocks", "thread", "block"),
        _resident_threads,
    ),
    Rule(
        "G505",
        "min_blocks <= blocks per SM",
        "{target} holds {limit} blocks per SM, not {blocks}",
        ("min_blocks",),
        _resident_blocks,
    ),
    Rule(
        "G506",
        f"min_blocks * (shared memory + {SHARED_PER_BLOCK_RESERVED}) <= shared memory per SM",
        "{blocks} blocks of {bytes} bytes of shared memory take {total} bytes; {target} has {limit} per SM",
        ("min_blocks", "block", "buffers", "pad"),
        _resident_shared,
    ),
    Rule(
        "G602",
        "piece % C vector == 0, along C's contiguous axis",
        "stores of C are {vector} wide, but a thread writes pieces of {piece} along {axis}",
        ("vector", "thread"),
        _c_width,
    ),
)
