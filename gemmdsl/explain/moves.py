"""Single changes of a schedule: one word of the language each, as text and as what it does to the options.

A word is a move if counters of memory can tell what it does.  `fragments` and their order, `fma along`,
`unroll`, the step in which copies are issued and `raster` change no address that a block touches: they decide
when it is done, so that no count of this model speaks for one of them or against it.  `fragments` also takes
registers, which no move may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from gemmdsl.rules_options import Options, StageOptions
from gemmdsl.spec import WIDTHS, LaneOrder, Schedule, StagedName
from gemmdsl.target import WARP_SIZE

Group = Literal["", "stage A", "stage B", "store C"]
_OPERANDS: tuple[StagedName, StagedName] = ("A", "B")
_PADS = (0, 1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Move:
    """One word: `group` is the braces it stands in, `key` what it sets (moves with equal keys exclude)."""

    group: Group
    key: str
    word: str
    change: Callable[[Options], Options]

    @property
    def text(self) -> str:
        """As it stands in a schedule: `buffers 2`, or `stage A { pad 2 }`."""
        return f"{self.group} {{ {self.word} }}" if self.group else self.word


def moves(schedule: Schedule, options: Options) -> Iterator[Move]:
    """Every single change of a schedule's accesses that keeps its block tile, its threads and its buffers."""
    yield from _pieces(schedule)
    if schedule.staged:
        for name in _OPERANDS:
            yield from _stage_moves(name, schedule, options)
    yield from _lanes(schedule)
    for width in WIDTHS:
        if width != schedule.c_vector:
            yield Move("store C", "C", f"vector {width}", _c_vector(width))


def _pieces(schedule: Schedule) -> Iterator[Move]:
    tile = (schedule.thread_m, schedule.thread_n)
    for m in _divisors(tile[0]):
        for n in _divisors(tile[1]):
            if (m, n) != (schedule.piece_m, schedule.piece_n):
                word = f"thread {tile[0]} x {tile[1]}" + ("" if (m, n) == tile else f" as {m} x {n}")
                yield Move("", "thread", word, _piece(tile, (m, n)))


def _divisors(extent: int) -> tuple[int, ...]:
    return (*(piece for piece in (1, 2, 4, 8) if extent % piece == 0 and piece < extent), extent)


def _stage_moves(name: StagedName, schedule: Schedule, options: Options) -> Iterator[Move]:
    asked = options.a if name == "A" else options.b
    stage = schedule.stage(name)
    group: Group = "stage A" if name == "A" else "stage B"
    for pad in _PADS:
        if pad != stage.pad and not stage.swizzle:
            yield Move(group, f"{name}.layout", f"pad {pad}", _staging(name, pad=pad))
    if not stage.swizzle and not asked.pad:
        yield Move(group, f"{name}.layout", "swizzle", _staging(name, swizzle=True))
    if not stage.transpose:
        yield Move(group, f"{name}.transpose", "transpose", _staging(name, transpose=True))
    for width in WIDTHS:
        if width != asked.vector:
            yield Move(group, f"{name}.vector", f"vector {width}", _staging(name, vector=width))


def _lanes(schedule: Schedule) -> Iterator[Move]:
    """Other grids and orders of the lanes over the same warp tile; warp tiles where there are none."""
    tile = (schedule.thread_m, schedule.thread_n)
    block = (schedule.block_m, schedule.block_n)
    for m in (1, 2, 4, 8, 16, 32):
        lanes = (m, WARP_SIZE // m)
        warp = (lanes[0] * tile[0], lanes[1] * tile[1])
        if block[0] % warp[0] or block[1] % warp[1]:
            continue
        for order in LaneOrder:
            if (schedule.warp, schedule.lanes, schedule.lane_order) == (warp, lanes, order):
                continue
            named = "" if order is LaneOrder.ROW else f" {order.value}"
            word = f"warp {warp[0]} x {warp[1]}  lanes {lanes[0]} x {lanes[1]}{named}"
            yield Move("", "warp", word, _warp(warp, lanes, order))


def _piece(tile: tuple[int, int], piece: tuple[int, int]) -> Callable[[Options], Options]:
    return lambda options: replace(options, thread=tile, piece=None if piece == tile else piece)


def _c_vector(width: int) -> Callable[[Options], Options]:
    return lambda options: replace(options, c_vector=width)


def _warp(warp: tuple[int, int], lanes: tuple[int, int], order: LaneOrder) -> Callable[[Options], Options]:
    return lambda options: replace(options, warp=warp, lanes=lanes, lane_order=order)


def _staging(name: StagedName, **changes: int | bool) -> Callable[[Options], Options]:
    def change(options: Options) -> Options:
        stage: StageOptions = replace(options.a if name == "A" else options.b, **changes)  # type: ignore[arg-type]
        return replace(options, a=stage) if name == "A" else replace(options, b=stage)

    return change


def schedule_text(name: str, parent: str, changes: Iterable[Move], target: str = "") -> str:
    """A schedule that extends another one by some moves, as `.gemm` text; for its target if none is named."""
    groups: dict[Group, list[str]] = {}
    for move in changes:
        groups.setdefault(move.group, []).append(move.word)
    lines = []
    for group, words in sorted(groups.items()):
        lines += (
            [f"  {part}" for word in words for part in word.split("  ")]
            if group == ""
            else [f"  {group} {{ {'  '.join(words)} }}"]
        )
    on = f" on {target}" if target else ""
    return "\n".join([f"schedule {name} extends {parent}{on} {{", *lines, "}"]) + "\n"
