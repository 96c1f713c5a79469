"""The nearest legal change to a schedule that breaks a rule.

One word is varied at a time, nearest values first, until every rule that involves it holds; of words that
help, those come first that change the least.  Nothing is drawn at random: the same schedule always gets the
same advice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from itertools import islice, product
from math import log2

from gemmdsl.rules import Violation, violations
from gemmdsl.rules_options import Extents, Options, StageOptions, derive
from gemmdsl.rules_sizes import (
    MAX_BLOCK_K,
    MAX_BLOCK_SIDE,
    MAX_BUFFERS,
    MAX_FRAGMENTS,
    MAX_MIN_BLOCKS,
    MAX_MULTIPLE,
    MAX_PAD,
    MAX_RASTER,
    MAX_SPLITS,
)
from gemmdsl.spec import WIDTHS, Assumption, CopySteps, LaneOrder, Problem
from gemmdsl.target import TARGETS, WARP_SIZE, Target

MAX_THREAD_SIDE = 32
# Candidates tried for one word; enough for every pair of divisors of usual tiles, and quick.
_TRIES = 600
# Candidates tried for a file: seconds are too long for advice on mistakes that a program wrote.
_ALL_TRIES = 8_000
_MOST = 2
# How far it is to another GPU, and to an option that was not asked for, in doublings of a number.
_OTHER_TARGET = 8.0
_OTHER_WORD = 1.0

Candidate = tuple[str, Options]
Key = tuple[str, tuple[str, ...]]


class Adviser:
    """Finds repairs for the schedules of one file, until it has tried enough for the whole of it."""

    def __init__(self) -> None:
        self._left = _ALL_TRIES
        # Schedules that extend a broken one break the same rule.
        self._known: dict[tuple[Options, Problem, Target, Key], tuple[str, ...]] = {}

    def repairs(
        self, options: Options, problem: Problem, target: Target, violation: Violation
    ) -> tuple[str, ...]:
        """Changes that end the violation, as the words to write, at most one for each word and two in all.

        A change that makes every rule on its word hold comes first; when there is none, one that ends this
        violation and starts no other is taken.  Empty when no change of a single word helps, or when enough
        was tried before.
        """
        asked = (options, problem, target, _key(violation))
        if asked not in self._known:
            self._known[asked] = tuple(self._search(*asked)) if self._left > 0 else ()
        return self._known[asked]

    def _search(self, options: Options, problem: Problem, target: Target, key: Key) -> Iterable[str]:
        before = {
            _key(other) for other in violations(derive("", options, problem), problem, target, moot=True)
        }
        found: dict[str, float] = {}
        for word in key[1]:
            weaker: tuple[str, float] | None = None
            for text, changed, on in islice(candidates(word, options, target), _TRIES):
                self._left -= 1
                left = violations(derive("", changed, problem), problem, on, moot=True)
                after = {_key(other) for other in left}
                if key in after or not after <= before:
                    continue
                far = _distance(options, changed) + (_OTHER_TARGET if on is not target else 0)
                if not any(word in other.words for other in left):
                    found.setdefault(text, far)
                    break
                weaker = weaker or (text, far)
            else:
                if weaker:
                    found.setdefault(*weaker)
        # Of changes equally small, that of the likeliest cause comes first.
        return sorted(found, key=lambda text: found[text])[:_MOST]


def _key(violation: Violation) -> Key:
    return violation.rule.code, violation.words


def candidates(word: str, options: Options, target: Target) -> Iterator[tuple[str, Options, Target]]:
    """Other values of a word, the nearest first: its text, and the options and target that it leads to.

    None for a word that this module does not know.
    """
    if word == "target":
        for row in TARGETS.values():
            if row.number > target.number:
                yield f"on {row.name}", options, row
        return
    for text, changed in _changes(word, options):
        yield text, changed, target


def _changes(word: str, options: Options) -> Iterator[Candidate]:
    name, _, item = word.partition(".")
    match name:
        case "block":
            return _blocks(options)
        case "warp":
            return _warps(options)
        case "lanes":
            return _lanes(options)
        case "thread":
            return _threads(options)
        case "buffers":
            return _buffers(options)
        case "fragments":
            return _fragments(options)
        case "unroll":
            return _unrolls(options)
        case "raster":
            return _rasters(options)
        case "min_blocks":
            now = options.min_blocks or 1
            counts = sorted(range(1, MAX_MIN_BLOCKS + 1), key=lambda count: abs(count - now))
            return ((f"min_blocks {count}", replace(options, min_blocks=count)) for count in counts)
        case "split_k":
            return _splits(options)
        case "C":
            return ((f"store C {{ vector {w} }}", replace(options, c_vector=w)) for w in reversed(WIDTHS))
        case "assume":
            return _multiples(options, item)
        case "A":
            return ((text, replace(options, a=stage)) for text, stage in _stages("A", options.a, item))
        case "B":
            return ((text, replace(options, b=stage)) for text, stage in _stages("B", options.b, item))
        case _:
            # Nothing is known to help with a word that has no candidates here.
            return iter(())


def _blocks(options: Options) -> Iterator[Candidate]:
    below = options.warp or options.thread or (1, 1)
    sides = [
        _near(now, max(1, min(unit, MAX_BLOCK_SIDE)), MAX_BLOCK_SIDE, 12)
        for now, unit in zip(options.block, below, strict=False)
    ]
    depths: list[Extents] = [(), (8,), (16,), (32,)]
    if len(options.block) == 3:
        depths = [(k,) for k in _near(options.block[2], 4, MAX_BLOCK_K, 24)]
    tried: list[Extents] = []
    for m, n in product(*sides):
        # At most two extents change at once: a third is no longer a small change.
        changed = (m != options.block[0]) + (n != options.block[1])
        tried += [(m, n, *k) for k in depths if changed + (k != options.block[2:]) <= 2]
    for block in sorted(tried, key=lambda block: _cost(options.block, block)):
        yield f"block {_x(block)}", replace(options, block=block)


def _warps(options: Options) -> Iterator[Candidate]:
    now = options.warp or tuple(
        a * b for a, b in zip(options.lanes or (8, 4), options.thread or (1, 1), strict=True)
    )
    tried = product(*(_divisors(side, MAX_BLOCK_SIDE) for side in options.block[:2]))
    for warp in sorted(tried, key=lambda warp: _cost(now, warp)):
        yield f"warp {_x(warp)}", replace(options, warp=warp)
        if options.lanes is not None and options.thread is not None:
            lanes = (warp[0] // max(1, options.thread[0]), warp[1] // max(1, options.thread[1]))
            if lanes[0] * lanes[1] == WARP_SIZE:
                yield f"warp {_x(warp)} lanes {_x(lanes)}", replace(options, warp=warp, lanes=lanes)


def _lanes(options: Options) -> Iterator[Candidate]:
    if options.lanes is None:
        return
    order = "" if options.lane_order is LaneOrder.ROW else f" {options.lane_order.value}"
    grids = [(rows, WARP_SIZE // rows) for rows in _divisors(WARP_SIZE, WARP_SIZE)]
    now = options.lanes
    for lanes in sorted(grids, key=lambda lanes: _cost(now, lanes)):
        yield f"lanes {_x(lanes)}{order}", replace(options, lanes=lanes)


def _threads(options: Options) -> Iterator[Candidate]:
    now = options.thread or (1, 1)
    above = options.warp or options.block[:2]
    pieces: list[Extents | None] = [options.piece] if options.piece else []
    tried = list(product(*(_divisors(side, MAX_THREAD_SIDE) for side in above)))
    if asked := options.piece:
        # The tile may be right and its pieces wrong.
        near = list(product(*(_divisors(side, MAX_THREAD_SIDE) for side in now)))
        near.sort(key=lambda piece: _cost(asked, piece))
        pieces += near
    pieces.append(None)
    for thread in sorted(tried, key=lambda thread: _cost(now, thread)):
        for piece in pieces:
            if piece is None or (thread[0] % max(1, piece[0]) == 0 and thread[1] % max(1, piece[1]) == 0):
                suffix = f" as {_x(piece)}" if piece and piece != thread else ""
                yield f"thread {_x(thread)}{suffix}", replace(options, thread=thread, piece=piece)


def _buffers(options: Options) -> Iterator[Candidate]:
    now = 1 if options.buffers is None else options.buffers
    tried = [(count, flag) for count in range(1, MAX_BUFFERS + 1) for flag in (False, True)]
    last = max(0, options.block[2] - 2) if len(options.block) == 3 else 0
    now_at = options.copy_steps
    nearest = CopySteps(
        *(tuple(sorted(max(0, min(step, last)) for step in at)) for at in (now_at.a, now_at.b))
    )
    first = CopySteps(nearest.a[:1], nearest.b[:1])
    steps = dict.fromkeys((now_at, nearest, first, CopySteps()))
    for count, flag in sorted(
        tried, key=lambda pair: abs(pair[0] - now) + 2 * (pair[1] != options.asynchronous)
    ):
        for at in steps if flag else (CopySteps(),):
            text = f"buffers {count}{' async' * flag}{at}"
            yield text, replace(options, buffers=count, asynchronous=flag, copy_steps=at)


def _fragments(options: Options) -> Iterator[Candidate]:
    first = " B first" if options.read_first == "B" else ""
    now = 1 if options.fragments is None else options.fragments
    for count in sorted(range(1, MAX_FRAGMENTS + 1), key=lambda count: abs(count - now)):
        yield f"fragments {count}{first}", replace(options, fragments=count)


def _unrolls(options: Options) -> Iterator[Candidate]:
    """All steps of a tile where there are none: the default, which has no word."""
    if len(options.block) == 3 and options.unroll is not None:
        now = options.unroll
        for count in sorted(_divisors(options.block[2], MAX_BLOCK_K), key=lambda count: abs(count - now)):
            yield f"unroll {count}", replace(options, unroll=count)
    yield "schedule without unroll", replace(options, unroll=None)


def _rasters(options: Options) -> Iterator[Candidate]:
    along = "" if options.raster_along == "M" else f" along {options.raster_along}"
    now = 1 if options.raster is None else options.raster
    for count in sorted(range(1, MAX_RASTER + 1), key=lambda count: abs(count - now)):
        yield f"raster {count}{along}", replace(options, raster=count)


def _splits(options: Options) -> Iterator[Candidate]:
    now = 1 if options.split_k is None else options.split_k
    for count in sorted(range(1, MAX_SPLITS + 1), key=lambda count: abs(count - now)):
        for atomic in dict.fromkeys((options.split_atomic, False)):
            text = f"split_k {count}{' atomic' * atomic}"
            yield text, replace(options, split_k=count, split_atomic=atomic)


def _multiples(options: Options, axis: str) -> Iterator[Candidate]:
    for multiple in (MAX_MULTIPLE, 1):
        assumptions = tuple(
            Assumption(axis=assumed.axis, multiple=multiple) if assumed.axis == axis else assumed
            for assumed in options.assumptions
        )
        yield f"assume {axis} % {multiple} == 0", replace(options, assumptions=assumptions)


def _stages(name: str, stage: StageOptions, item: str) -> Iterator[tuple[str, StageOptions]]:
    def text(words: str) -> str:
        return f"stage {name} {{ {words} }}"

    match item:
        case "pad":
            now = stage.pad or 0
            for pad in sorted(range(MAX_PAD + 1), key=lambda pad: (abs(pad - now), pad)):
                yield text(f"pad {pad}") if pad else f"stage {name} without pad", replace(stage, pad=pad)
        case "transpose":
            changed = replace(stage, transpose=not stage.transpose)
            yield f"stage {name} without transpose" if stage.transpose else text("transpose"), changed
        case "swizzle":
            changed = replace(stage, swizzle=not stage.swizzle)
            yield f"stage {name} without swizzle" if stage.swizzle else text("swizzle"), changed
        case "load":
            for width in reversed(WIDTHS):
                if stage.load is None and stage.vector is not None:
                    yield text(f"vector {width}"), replace(stage, vector=width)
                yield text(f"load vector {width}"), replace(stage, load=width)
        case "store":
            for width in reversed(WIDTHS):
                yield text(f"store vector {width}"), replace(stage, store=width)
        case "read":
            for width in reversed(WIDTHS):
                yield text(f"read vector {width}"), replace(stage, read=width)
        case _:
            return


def _near(now: int, unit: int, largest: int, most: int) -> list[int]:
    """`now` within bounds, and the multiples of `unit` nearest to it by ratio; doubles of `unit` as well."""
    values = range(unit, largest + 1, unit)
    nearest = sorted(values, key=lambda value: (_ratio(now, value), value))[:most]
    doubled = [value for value in values if (value // unit).bit_count() == 1]
    return list(dict.fromkeys([max(1, min(now, largest)), *nearest, *doubled]))


def _divisors(extent: int, most: int) -> list[int]:
    return [value for value in range(1, min(abs(extent), most) + 1) if extent % value == 0] or [1]


def _cost(now: Extents, then: Extents) -> tuple[int, float, float, Extents]:
    """Distance between two tiles: how many extents change, then how often they are doubled or halved.

    Of two tiles equally far the one nearer to a square comes first: it reads less for what it computes.
    """
    ratios = [_ratio(a, b) for a, b in zip(now, then, strict=False)]
    changed = sum(ratio > 0 for ratio in ratios) + 4 * abs(len(now) - len(then))
    return changed, round(sum(ratios), 6), round(_ratio(then[0], then[1]), 6), then


def _distance(now: object, then: object) -> float:
    """How much of a schedule changes: doublings and halvings of its numbers, and words that come or go."""
    if isinstance(now, Options | StageOptions):
        pairs = ((getattr(now, field.name), getattr(then, field.name)) for field in fields(now))
        return sum(_distance(*pair) for pair in pairs)
    match now, then:
        case tuple(), tuple() if len(now) == len(then):
            return sum(_distance(*pair) for pair in zip(now, then, strict=True))
        case int(), int() if not isinstance(now, bool):
            # Nought is a number too: of padding, and of the step of copies.
            return _ratio(max(0, now) + 1, max(0, then) + 1)
        case _:
            return 0.0 if now == then else _OTHER_WORD


def _ratio(now: int, then: int) -> float:
    return abs(log2(max(1, now)) - log2(max(1, then)))


def _x(extents: Extents) -> str:
    return " x ".join(map(str, extents))
