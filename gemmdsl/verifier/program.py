"""Runs a program for a given number of K tiles: data flow is checked on the way, the trace handed on.

The program is run once per number of K tiles, from none to two full turns of the slots and two more; that
larger numbers do nothing new is shown by `gemmdsl.verifier.steady`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

from gemmdsl.index import Expr, evaluate
from gemmdsl.index_text import to_c
from gemmdsl.ir import (
    K_TILES,
    AddOutput,
    AsyncCopyTile,
    Barrier,
    CommitGroup,
    CopyTile,
    For,
    If,
    Less,
    LoadTile,
    MultiplyFragments,
    MultiplyGlobal,
    MultiplyTile,
    ReadFragment,
    Stmt,
    StoreOutput,
    StorePart,
    StoreTile,
    Test,
    WaitGroups,
)
from gemmdsl.printer import headline
from gemmdsl.spec import StagedName
from gemmdsl.verifier.failure import (
    AWAITED,
    COUNTERS,
    FRAGMENTS,
    REGISTERS,
    SEQUENCE,
    SLOT_RANGE,
    STORED_ONCE,
    TILE_ORDER,
    TILE_RANGE,
    Refuted,
    Rule,
)
from gemmdsl.verifier.held import Held, seen
from gemmdsl.verifier.trace import NEVER, Access, Edge, Trace
from gemmdsl.verifier.uniform import prove_uniform

OPERANDS: tuple[StagedName, StagedName] = ("A", "B")
Slots = tuple[int | None, int | None]


def depth(slots: Slots) -> int:
    """Slots of the deeper operand; 1 where nothing is staged or slots have no number."""
    return max(count or 1 for count in slots)


@dataclass(frozen=True, slots=True)
class Runs:
    """What came of running a program for 0, 1, 2, ... K tiles.

    `traces` has one trace for each; `states` are those before each iteration of the K loop in the longest
    run; `skipping` is the largest number of K tiles for which a condition outside of that loop did not hold.
    """

    traces: tuple[Trace, ...]
    states: Mapping[int, object]
    skipping: int


@lru_cache(maxsize=16)
def run(body: tuple[Stmt, ...], slots: Slots, steps: int, sets: int) -> Runs:
    """Runs the program for every number of K tiles that matters; data flow and order of tiles are proved.

    `slots` is how many slots A's and B's tiles have, None for a tile whose slots are not numbered; `steps` is
    the depth of a K tile, `sets` how many sets of fragment registers there are (0: none that is named).
    """
    prove_uniform(body)
    machines = [_Machine(slots, steps, sets, k_tiles) for k_tiles in range(2 * depth(slots) + 3)]
    traces = tuple(machine.run(body) for machine in machines)
    skipping = max((machine.k_tiles for machine in machines if machine.skipped), default=-1)
    return Runs(traces, machines[-1].states, skipping)


class _Machine:
    """One run of a program, as every thread of the block sees it."""

    def __init__(self, slots: Slots, steps: int, sets: int, k_tiles: int) -> None:
        self._steps = steps
        self._sets = sets
        self._slots = dict(zip(OPERANDS, slots, strict=True))
        self._env: dict[str, int] = {K_TILES.name: k_tiles}
        self.k_tiles = k_tiles
        self._position = 0
        self._accesses: list[Access] = []
        self._edges: list[Edge] = []
        self._content: dict[tuple[StagedName, int], Held] = {}
        self._registers: dict[StagedName, int] = {}
        self._group: list[Access] = []
        self._groups: list[list[Access]] = []
        self._copied: dict[StagedName, int] = dict.fromkeys(OPERANDS, 0)
        # Of a tile that is not wholly copied yet: the batches that are, and how many there are.
        self._batches: dict[StagedName, tuple[int, int]] = {}
        # Step of a tile, and the tile, that each set of fragment registers holds.
        self._fragments: dict[tuple[StagedName, int], tuple[int, int]] = {}
        self._step_due = 0
        self._multiplied = 0
        self._stored = False
        self._in_k_loop = False
        self.states: dict[int, object] = {}
        self.skipped = False

    def run(self, body: tuple[Stmt, ...]) -> Trace:
        self._block(body)
        if self._step_due:
            raise Refuted(
                FRAGMENTS,
                f"only {self._step_due} of {self._steps} steps of tile {self._multiplied} are multiplied",
                k_tiles=self.k_tiles,
                tile=self._multiplied,
            )
        if self._multiplied != self.k_tiles:
            raise Refuted(
                TILE_ORDER,
                f"only {self._multiplied} of {self.k_tiles} K tiles are multiplied",
                k_tiles=self.k_tiles,
                missing_tile=self._multiplied,
            )
        if not self._stored:
            raise Refuted(STORED_ONCE, "C is never stored", k_tiles=self.k_tiles)
        return Trace(self.k_tiles, tuple(self._accesses), tuple(self._edges))

    def _block(self, body: tuple[Stmt, ...]) -> None:
        for statement in body:
            match statement:
                case For():
                    name = statement.var.name
                    counters: dict[str, int] = {}
                    for value in range(self._value(statement.start), self._value(statement.stop)):
                        self._env[name] = value
                        self._count(statement, counters)
                        if statement.stop == K_TILES:
                            self._in_k_loop = True
                            self.states[value] = self._state(value)
                        self._block(statement.body)
                    self._in_k_loop = self._in_k_loop and statement.stop != K_TILES
                    self._env.pop(name, None)
                case If():
                    if self._holds(statement.condition):
                        self._block(statement.body)
                    elif not self._in_k_loop:
                        self.skipped = True
                case _:
                    self._position += 1
                    self._step(statement)

    def _step(self, statement: Stmt) -> None:
        match statement:
            case CopyTile():
                tile = self._tile(statement, statement.operand, statement.tile)
                self._write(statement, statement.operand, statement.slot, tile, self._position)
            case LoadTile():
                self._registers[statement.operand] = self._tile(statement, statement.operand, statement.tile)
            case StoreTile():
                loaded = self._registers.get(statement.operand)
                if loaded is None:
                    raise self._refuted(REGISTERS, statement, "stores registers that nothing was loaded into")
                self._write(statement, statement.operand, statement.slot, loaded, self._position)
            case AsyncCopyTile():
                tile = self._tile(
                    statement, statement.operand, statement.tile, statement.batch, statement.batches
                )
                self._group.append(
                    self._write(
                        *(statement, statement.operand, statement.slot, tile, NEVER),
                        *(statement.batch, statement.batches),
                    )
                )
            case CommitGroup():
                self._groups.append(self._group)
                self._group = []
            case WaitGroups():
                self._wait(self._value(statement.pending))
            case Barrier():
                self._edges.append(Edge(self._position, self._position))
            case MultiplyTile():
                self._multiply(statement)
            case ReadFragment():
                self._read(statement)
            case MultiplyFragments():
                self._multiply_fragments(statement)
            case MultiplyGlobal():
                if self._multiplied or self._stored:
                    raise self._refuted(TILE_ORDER, statement, "adds products that were added before")
                self._multiplied = self.k_tiles
            case StoreOutput() | AddOutput() | StorePart():
                if self._stored:
                    raise self._refuted(STORED_ONCE, statement, "stores C a second time")
                if self._multiplied != self.k_tiles:
                    raise self._refuted(STORED_ONCE, statement, "stores C before the last product")
                # No tile is due from here on, so that any product is refused.
                self._stored = True
            case For() | If():
                raise AssertionError("control flow is no step")
            case _:
                assert_never(statement)

    def _wait(self, pending: int) -> None:
        landed = max(0, len(self._groups) - pending)
        for group in self._groups[:landed]:
            for access in group:
                access.end = self._position
        del self._groups[:landed]

    def _multiply(self, statement: MultiplyTile) -> None:
        if self._step_due:
            raise self._refuted(TILE_ORDER, statement, "comes amid the steps of a tile")
        for operand in OPERANDS:
            tile = self._landed_in(statement, operand, statement.slot)
            if tile != self._multiplied:
                raise self._refuted(
                    TILE_ORDER,
                    statement,
                    f"reads tile {tile} of {operand} where tile {self._multiplied} is due",
                    slot=self._slot(statement, operand, statement.slot),
                    tile=tile,
                    due=self._multiplied,
                )
        self._multiplied += 1

    def _landed_in(self, statement: Stmt, operand: StagedName, slot: Expr | None) -> int:
        """The tile that a statement reads from a slot; all of it is there, and the reading is recorded."""
        number = self._slot(statement, operand, slot)
        held = self._content.get((operand, number))
        if held is None:
            raise self._refuted(TILE_ORDER, statement, f"reads an empty slot of {operand}")
        if held.missing:
            lacks = f"{held.missing} of {held.copies[0].batches} batches of copies"
            what = f"reads a slot of {operand} that lacks {lacks}"
            raise self._refuted(TILE_ORDER, statement, what, slot=number, tile=held.tile)
        for written in held.copies:
            if written.end > self._position:
                raise self._refuted(
                    AWAITED,
                    statement,
                    f"reads {operand} before `{headline(written.statement)}` is waited for",
                    slot=number,
                    tile=written.tile,
                )
        self._access(statement, operand, number, False, held.tile, self._position)
        return held.tile

    def _read(self, statement: ReadFragment) -> None:
        tile = self._landed_in(statement, statement.operand, statement.slot)
        step = self._value(statement.k)
        if not 0 <= step < self._steps:
            raise self._refuted(FRAGMENTS, statement, f"reads step {step} of {self._steps}", step=step)
        registers = self._value(statement.registers)
        if not 0 <= registers < self._sets:
            what = f"reads into set {registers} of {self._sets} sets of fragment registers"
            raise self._refuted(FRAGMENTS, statement, what, registers=registers)
        self._fragments[statement.operand, registers] = (tile, step)

    def _multiply_fragments(self, statement: MultiplyFragments) -> None:
        due = (self._multiplied, self._step_due)
        for operand in OPERANDS:
            held = self._fragments.get((operand, self._value(statement.registers)))
            if held != due:
                what = "nothing" if held is None else f"step {held[1]} of tile {held[0]}"
                raise self._refuted(
                    FRAGMENTS,
                    statement,
                    f"has {what} of {operand} where step {due[1]} of tile {due[0]} is due",
                    tile_due=due[0],
                    step_due=due[1],
                )
        self._step_due += 1
        if self._step_due == self._steps:
            self._step_due = 0
            self._multiplied += 1

    def _write(
        self,
        statement: Stmt,
        operand: StagedName,
        slot: Expr | None,
        tile: int,
        end: int,
        batch: int = 0,
        batches: int = 1,
    ) -> Access:
        number = self._slot(statement, operand, slot)
        access = self._access(statement, operand, number, True, tile, end, batch, batches)
        held = self._content.get((operand, number))
        if batch and held is not None and held.tile == tile:
            held.copies.append(access)
        else:
            self._content[operand, number] = Held([access])
        return access

    def _access(
        self,
        statement: Stmt,
        operand: StagedName,
        slot: int,
        write: bool,
        tile: int,
        end: int,
        batch: int = 0,
        batches: int = 1,
    ) -> Access:
        access = Access(operand, slot, write, tile, statement, self._position, end, batch, batches)
        self._accesses.append(access)
        return access

    def _tile(
        self, statement: Stmt, operand: StagedName, expr: Expr, batch: int = 0, batches: int = 1
    ) -> int:
        """The tile that is copied: the next one, and of its batches the next one."""
        tile, due = self._value(expr), self._copied[operand]
        if not 0 <= tile < self.k_tiles:
            raise self._refuted(TILE_RANGE, statement, f"copies tile {tile} of {self.k_tiles}", tile=tile)
        if tile != due:
            raise self._refuted(SEQUENCE, statement, f"copies tile {tile} after {due} tiles", tile=tile)
        done, of = self._batches.get(operand, (0, batches))
        if (batch, batches) != (done, of):
            what = f"copies batch {batch} of {batches} after {done} batches of {of}"
            raise self._refuted(SEQUENCE, statement, what, tile=tile, batch=batch)
        if batch + 1 == batches:
            self._copied[operand] += 1
            self._batches.pop(operand, None)
        else:
            self._batches[operand] = (batch + 1, batches)
        return tile

    def _slot(self, statement: Stmt, operand: StagedName, expr: Expr | None) -> int:
        slots = self._slots[operand]
        if (expr is None) != (slots is None):
            raise self._refuted(
                SLOT_RANGE,
                statement,
                f"names {'no' if expr is None else 'a'} slot, but {operand}'s slots are"
                f"{' not' if slots is None else ''} numbered",
                operand=operand,
            )
        if expr is None or slots is None:
            return 0
        slot = self._value(expr)
        if not 0 <= slot < slots:
            raise self._refuted(SLOT_RANGE, statement, f"uses slot {slot} of {slots}", operand=operand)
        return slot

    def _holds(self, test: Test) -> bool:
        left, right = self._value(test.left), self._value(test.right)
        return left < right if isinstance(test, Less) else left == right

    def _count(self, loop: For, counters: dict[str, int]) -> None:
        """A counter that runs along has, in every iteration, the value that its formula says.

        How it goes on is what the text prints; a counter that agreed so far stands for its formula there.
        """
        for counter in loop.counters:
            name = counter.value.name
            due = self._value(counter.value.value)
            held = counters.get(name, self._value(counter.start))
            if held != due:
                what = f"counts {name} = {held} where {to_c(counter.value.value)} = {due}"
                raise self._refuted(COUNTERS, loop, what, due=due, counted=held)
            counters[name] = self._value(counter.following)

    def _value(self, expr: Expr) -> int:
        value = evaluate(expr, self._env)
        assert isinstance(value, int), "the environment holds integers alone"
        return value

    def _state(self, tile: int) -> object:
        """All that decides what comes next, with K tiles counted from `tile` and positions from here.

        Accesses that every thread has behind it cannot take part in a hazard any more.
        """
        barrier = self._edges[-1].release if self._edges else 0
        now = (tile, self._position)
        recent = (access for access in self._accesses if access.end >= barrier)
        return (
            self._multiplied - tile,
            tuple(copied - tile for copied in self._copied.values()),
            self._step_due,
            {place: (held - tile, step) for place, (held, step) in self._fragments.items()},
            {place: seen(held.copies, *now) for place, held in self._content.items()},
            dict(self._batches),
            {operand: loaded - tile for operand, loaded in self._registers.items()},
            seen(self._group, *now),
            tuple(seen(group, *now) for group in self._groups),
            seen(recent, *now),
        )

    def _refuted(self, rule: Rule, statement: Stmt, what: str, **witness: int | str) -> Refuted:
        loops = {name: value for name, value in self._env.items() if name not in (K_TILES.name, *witness)}
        return Refuted(rule, f"`{headline(statement)}` {what}", k_tiles=self.k_tiles, **loops, **witness)
