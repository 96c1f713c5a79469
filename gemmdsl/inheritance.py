"""The words of a schedule: its own, merged over those it inherits.

Every word is one `Entry` under a key (`block`, `A.pad`, `assume.M`), which remembers where it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import lcm
from typing import Any, assert_never, cast, get_args

from gemmdsl import syntax
from gemmdsl.rules_options import Extents, FmaAxis, Options, RasterAxis, StageOptions
from gemmdsl.rules_sizes import MAX_MULTIPLE
from gemmdsl.source import Span
from gemmdsl.spec import Assumption, Axis, CopySteps, LaneOrder, OperandName, StagedName
from gemmdsl.suggest import nearest

Report = Callable[..., None]
Value = (
    int
    | bool
    | Extents
    | tuple[Extents, LaneOrder]
    | tuple[Extents, Extents | None]
    | tuple[int, bool, CopySteps]
    | tuple[int, StagedName]
    | tuple[int, bool]
    | tuple[FmaAxis, bool]
    | tuple[int, RasterAxis]
)

_AXES = get_args(Axis)
_OPERANDS = get_args(OperandName)


@dataclass(frozen=True, slots=True)
class Entry:
    """One word: its value, its text, where and in which schedule it stands; `prefer`red ones may be dropped.

    `depth` counts the schedules from the root of `extends` to the one that gives the word.
    """

    key: str
    value: Value
    text: str
    span: Span
    owner: str
    depth: int
    prefer: bool = False


Entries = Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a schedule, by key; of `doubtful` keys the value is not known, an entry or not.

    A word is in doubt when it was given twice or in a wrong form, or may be among what could not be read.
    """

    entries: Entries
    doubtful: frozenset[str]


# Words from which others follow that are not given.
_TILES = ("warp", "lanes", "thread")
_ITEMS = (*("vector", "load", "store", "read"), *("transpose", "pad", "swizzle"))
_GROUPS = tuple(
    map(frozenset, (_TILES, *([f"{operand}.{item}" for item in _ITEMS] for operand in ("A", "B"))))
)
# Operands whose words depend on the problem's layouts.
STAGED = ("A", "B", "C")

# Nothing is known, neither of words nor of clauses.
UNKNOWN = Words(
    {},
    frozenset(
        (
            *("problem", "target", "block", "buffers", "fragments", "fma"),
            *("unroll", "raster", "min_blocks", "split_k", "C.vector"),
            *(f"assume.{name}" for name in (*_AXES, *_OPERANDS)),
            *(key for group in _GROUPS for key in group),
        )
    ),
)


def merge(decl: syntax.ScheduleDecl, inherited: Words, depth: int, report: Report) -> Words:
    """The words of a schedule, over those of the schedule it extends.

    `report(code, message, span, **notes)` is called for each word that is repeated, misplaced or malformed.
    """
    return _Merge(decl, inherited, depth, report).words()


def options_of(entries: Entries) -> Options:
    """The entries as the Options that rules and derivations work on; there must be a `block`."""
    found = {key: cast(Any, entry.value) for key, entry in entries.items()}
    thread, piece = found.get("thread", (None, None))
    lanes, lane_order = found.get("lanes", (None, LaneOrder.ROW))
    buffers, asynchronous, copy_steps = found.get("buffers", (None, False, CopySteps()))
    fragments, read_first = found.get("fragments", (None, "A"))
    fma_along, fma_snake = found.get("fma", (None, False))
    raster, raster_along = found.get("raster", (None, "M"))
    split_k, split_atomic = found.get("split_k", (None, False))

    def stage(name: str) -> StageOptions:
        return StageOptions(
            vector=found.get(f"{name}.vector"),
            load=found.get(f"{name}.load"),
            store=found.get(f"{name}.store"),
            read=found.get(f"{name}.read"),
            transpose=found.get(f"{name}.transpose", False),
            pad=found.get(f"{name}.pad"),
            swizzle=found.get(f"{name}.swizzle", False),
        )

    multiples = [
        Assumption(axis=axis, multiple=found[f"assume.{axis}"]) for axis in _AXES if f"assume.{axis}" in found
    ]
    aligned = [Assumption(operand=operand) for operand in _OPERANDS if f"assume.{operand}" in found]
    return Options(
        block=found["block"],
        warp=found.get("warp"),
        lanes=lanes,
        lane_order=lane_order,
        thread=thread,
        piece=piece,
        a=stage("A"),
        b=stage("B"),
        c_vector=found.get("C.vector"),
        buffers=buffers,
        asynchronous=asynchronous,
        copy_steps=copy_steps,
        fragments=fragments,
        read_first=read_first,
        fma_along=fma_along,
        fma_snake=fma_snake,
        unroll=found.get("unroll"),
        raster=raster,
        raster_along=raster_along,
        min_blocks=found.get("min_blocks"),
        split_k=split_k,
        split_atomic=split_atomic,
        assumptions=(*multiples, *aligned),
    )


def locate(entries: Entries, word: str) -> Entry | None:
    """The entry that decides a word of a rule: `A.load` may follow from `A.vector`."""
    if word in entries:
        return entries[word]
    operand, _, access = word.partition(".")
    return entries.get(f"{operand}.vector") if access in get_args(syntax.Access) else None


class _Merge:
    def __init__(self, decl: syntax.ScheduleDecl, inherited: Words, depth: int, report: Report) -> None:
        self.decl, self.depth, self.report = decl, depth, report
        self.inherited, self.unknown = inherited.entries, inherited.doubtful
        # What can be taken back.
        self.known = self.inherited.keys() | self.unknown
        self.own: dict[str, Entry] = {}
        self.seen: dict[str, Span] = {}
        self.dropped: set[str] = set()
        self.doubtful: set[str] = set()

    def words(self) -> Words:
        for option in self.decl.options:
            match option:
                case syntax.Reset():
                    self._reset(option)
                case syntax.Option():
                    self._option(option)
                case _:
                    assert_never(option)
        kept = {key: entry for key, entry in self.inherited.items() if key not in self.dropped}
        for key, entry in self.own.items():
            if key in kept and key.removeprefix("assume.") in _AXES:
                # An assumption of the parent still holds: both multiples are assumed.
                multiple = _both(cast(int, kept[key].value), cast(int, entry.value))
                entry = Entry(key, multiple, f"assume {key[-1]} % {multiple} == 0", *_place(entry))
            kept[key] = entry
        doubtful = self.doubtful | (self.unknown - self.own.keys() - self.dropped)
        for group in _GROUPS:
            if not doubtful.isdisjoint(group):
                doubtful |= group - kept.keys()
        return Words(kept, frozenset(doubtful))

    def _option(self, option: syntax.Option) -> None:
        setting = option.setting
        match setting:
            case syntax.Block(extents):
                if numbers := self._extents("block", extents, 2, 3):
                    self._put("block", numbers, f"block {_x(numbers)}", option)
            case syntax.Warp(extents):
                if numbers := self._extents("warp", extents, 2, 2):
                    self._put("warp", numbers, f"warp {_x(numbers)}", option)
            case syntax.Lanes(extents, order):
                if numbers := self._extents("lanes", extents, 2, 2):
                    kind = LaneOrder(order.text) if order else LaneOrder.ROW
                    text = f"lanes {_x(numbers)}" + (f" {order.text}" if order else "")
                    self._put("lanes", (numbers, kind), text, option)
            case syntax.Thread(extents, piece):
                numbers = self._extents("thread", extents, 2, 2)
                pieces = self._extents("as", piece, 2, 2) if piece else None
                if numbers and (pieces or piece is None):
                    text = f"thread {_x(numbers)}" + (f" as {_x(pieces)}" if pieces else "")
                    self._put("thread", (numbers, pieces), text, option)
            case syntax.StageDecl():
                self._stage(setting, option)
            case syntax.Buffers(count, asynchronous, at):
                steps = _copy_steps(at)
                text = f"buffers {count.value}{' async' * asynchronous}{steps}"
                self._put("buffers", (count.value, asynchronous, steps), text, option)
            case syntax.Fragments(count, first):
                read_first = cast(StagedName, first.text) if first else "A"
                text = f"fragments {count.value}" + (f" {read_first} first" if first else "")
                self._put("fragments", (count.value, read_first), text, option)
            case syntax.Fma(along, snake):
                if self._known(along, "axis", get_args(FmaAxis), "fma"):
                    axis = cast(FmaAxis, along.text)
                    self._put("fma", (axis, snake), f"fma along {axis}{' snake' * snake}", option)
            case syntax.Unroll(count):
                self._put("unroll", count.value, f"unroll {count.value}", option)
            case syntax.Raster(count, along):
                if along is None or self._known(along, "axis", get_args(RasterAxis), "raster"):
                    raster_along = cast(RasterAxis, along.text if along else "M")
                    text = f"raster {count.value}" + (f" along {raster_along}" if along else "")
                    self._put("raster", (count.value, raster_along), text, option)
            case syntax.MinBlocks(count):
                self._put("min_blocks", count.value, f"min_blocks {count.value}", option)
            case syntax.SplitK(count, atomic):
                text = f"split_k {count.value}{' atomic' * atomic}"
                self._put("split_k", (count.value, atomic), text, option)
            case syntax.AssumeMultiple():
                self._assume(setting, option)
            case syntax.AssumeAligned(operand):
                if self._known(operand, "operand", _OPERANDS):
                    self._put(f"assume.{operand.text}", True, f"assume aligned {operand.text}", option)
            case _:
                assert_never(setting)

    def _assume(self, setting: syntax.AssumeMultiple, option: syntax.Option) -> None:
        if setting.remainder.value != 0:
            text = "only a remainder of 0 can be assumed: `== 0`"
            self.report("G118", text, setting.remainder.span)
            self.doubtful.add(f"assume.{setting.axis.text}")
        if not self._known(setting.axis, "axis", _AXES):
            return
        key, multiple = f"assume.{setting.axis.text}", setting.multiple.value
        before = self.own.get(key)
        if before is not None and before.value != multiple:
            # Two multiples of one axis are one assumption: their least common multiple.
            multiple = _both(cast(int, before.value), multiple)
            del self.seen[key]
        self._put(key, multiple, f"assume {setting.axis.text} % {multiple} == 0", option)

    def _stage(self, stage: syntax.StageDecl, option: syntax.Option) -> None:
        where = f"{stage.word} {stage.operand.text}"
        if not self._known(stage.operand, "operand", ("A", "B") if stage.word == "stage" else ("C",), where):
            return
        if not self._first(where, where, option.span):
            return
        for item in stage.items:
            match item:
                case syntax.ItemReset(words):
                    self._reset_item(stage, item, words)
                case syntax.Item(setting=setting):
                    self._item(stage, item, setting, option.prefer)
                case _:
                    assert_never(item)

    def _item(
        self, stage: syntax.StageDecl, item: syntax.Item, setting: syntax.ItemSetting, prefer: bool
    ) -> None:
        operand = stage.operand.text
        value: int | bool
        word: str
        match setting:
            case syntax.Vector(access, width):
                word, value = access or "vector", width.value
                text = f"{access} vector {value}" if access else f"vector {value}"
            case syntax.Transpose():
                word, value, text = "transpose", True, "transpose"
            case syntax.Swizzle():
                word, value, text = "swizzle", True, "swizzle"
            case syntax.Pad(count):
                word, value, text = "pad", count.value, f"pad {count.value}"
            case _:
                assert_never(setting)
        if stage.word == "store" and word != "vector":
            self.report("G117", f"`store C` takes `vector V` only, not `{text}`", item.span)
        elif self._first(
            f"{operand}.{word}", f"{word} vector" if word in get_args(syntax.Access) else word, item.span
        ):
            entry = Entry(
                f"{operand}.{word}",
                value,
                f"stage {operand} {{ {text} }}",
                item.span,
                self.decl.name.text,
                self.depth,
                prefer or item.prefer,
            )
            if stage.word == "store":
                entry = Entry(entry.key, value, f"store {operand} {{ {text} }}", *_place(entry))
            self.own[entry.key] = entry

    def _reset_item(self, stage: syntax.StageDecl, item: syntax.ItemReset, words: str) -> None:
        word = words.removesuffix(" vector")
        key = f"{stage.operand.text}.{word}"
        if self._first(key, words, item.span):
            self._drop({key}, f"no {words}", f"{stage.word} {stage.operand.text}", item.span)

    def _reset(self, reset: syntax.Reset) -> None:
        if reset.operand is None:
            keys = {key for key in self.known if key.partition(".")[0] == reset.word}
            word = reset.word
        else:
            if not self._known(
                reset.operand, "operand", ("A", "B") if reset.word == "stage" else ("C",), reset.word
            ):
                return
            keys = {key for key in self.known if key.startswith(f"{reset.operand.text}.")}
            word = f"{reset.word} {reset.operand.text}"
        # A stage or the assumptions may be given anew after they were cleared; a single word may not.
        again = f"no {word}" if reset.operand is not None or word == "assume" else word
        if self._first(again, again, reset.span):
            self._drop(keys or {word}, f"no {word}", "schedule", reset.span)

    def _drop(self, keys: Iterable[str], text: str, where: str, span: Span) -> None:
        keys = set(keys)
        if keys.isdisjoint(self.known):
            have = "it extends nothing" if not self.inherited else "it is not inherited"
            self.report("G116", f"`{text}` takes nothing back: {have}", span)
        self.dropped |= keys

    def _put(self, key: str, value: Value, text: str, option: syntax.Option) -> None:
        word = text if key.startswith("assume.") else key
        if self._first(key, word, option.span):
            name = self.decl.name.text
            self.own[key] = Entry(key, value, text, option.span, name, self.depth, option.prefer)

    def _first(self, key: str, word: str, span: Span) -> bool:
        """Whether the word is not repeated; reports it if it is."""
        before = self.seen.setdefault(key, span)
        if before is not span:
            self.report(
                "G115",
                f"`{word}` is given twice in schedule `{self.decl.name.text}`",
                span,
                first_given=before,
            )
            operand = key.removeprefix("stage ").removeprefix("store ")
            self.doubtful |= {known for known in UNKNOWN.doubtful if known.startswith(f"{operand}.")} | {key}
        return before is span

    def _extents(self, word: str, extents: syntax.Extents, least: int, most: int) -> Extents | None:
        numbers = tuple(number.value for number in extents.numbers)
        if least <= len(numbers) <= most:
            return numbers
        form = {"block": "block BM x BN or block BM x BN x BK"}.get(
            word, f"{word} {word[0].upper()}M x {word[0].upper()}N"
        )
        self.report(
            "G114",
            f"`{word}` has {len(numbers)} extent{'s' * (len(numbers) != 1)}: write `{form}`",
            extents.span,
        )
        self.doubtful.add("thread" if word == "as" else word)
        return None

    def _known(self, name: syntax.Name, kind: str, known: tuple[str, ...], where: str = "") -> bool:
        if name.text in known:
            return True
        guess = nearest(name.text, known)
        listed = " and ".join([", ".join(known[:-1]), known[-1]]) if len(known) > 1 else known[0]
        has = f"`{where.split()[0]}` takes {listed}" if where else f"there are {listed}"
        hint = f"; did you mean `{guess}`?" if guess else f": {has}"
        self.report("G113", f"unknown {kind} `{name.text}`{hint}", name.span)
        return False


def _both(first: int, second: int) -> int:
    """The multiple that two multiples of one axis make; one that breaks the rule on it stays as it is."""
    for multiple in (first, second):
        if not 1 <= multiple <= MAX_MULTIPLE:
            return multiple
    return lcm(first, second)


def _place(entry: Entry) -> tuple[Span, str, int, bool]:
    return entry.span, entry.owner, entry.depth, entry.prefer


def _x(extents: Extents) -> str:
    return " x ".join(map(str, extents))


def _copy_steps(at: tuple[syntax.CopyStepsOf, ...]) -> CopySteps:
    found = {of.operand.text if of.operand else "": tuple(step.value for step in of.steps) for of in at}
    both = found.get("", (0,))
    return CopySteps(found.get("A", both), found.get("B", both))
