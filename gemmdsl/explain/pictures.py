"""Data of the pictures: who owns what, and what happens when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

import numpy as np

from gemmdsl.analysis.steps import holds, value_of
from gemmdsl.index import Expr, Int, evaluate
from gemmdsl.ir import (
    K_TILES,
    TILE,
    AddOutput,
    AsyncCopyTile,
    Barrier,
    CommitGroup,
    CopyTile,
    For,
    If,
    Kernel,
    LoadTile,
    MultiplyFragments,
    MultiplyGlobal,
    MultiplyTile,
    ReadFragment,
    Stmt,
    StoreOutput,
    StorePart,
    StoreTile,
    WaitGroups,
)
from gemmdsl.layout import AxisMap
from gemmdsl.target import WARP_SIZE

if TYPE_CHECKING:
    from gemmdsl.index import Array


@dataclass(frozen=True, slots=True)
class Ownership:
    """The block tile in cells of one piece: `owners[y][x]` is the thread that computes it.

    `rows` and `cols` are the first m and n of the cells, `piece` their extents.
    """

    rows: tuple[int, ...]
    cols: tuple[int, ...]
    piece: tuple[int, int]
    owners: tuple[tuple[int, ...], ...]

    def of_warp(self, warp: int) -> Ownership:
        """The cells of one warp alone; rows and columns without any are left out."""
        table = np.asarray(self.owners)
        mine = table // WARP_SIZE == warp
        rows, cols = np.flatnonzero(mine.any(axis=1)), np.flatnonzero(mine.any(axis=0))
        return Ownership(
            tuple(self.rows[y] for y in rows),
            tuple(self.cols[x] for x in cols),
            self.piece,
            tuple(tuple(int(table[y, x]) if mine[y, x] else -1 for x in cols) for y in rows),
        )


def ownership(kernel: Kernel) -> Ownership:
    """Who owns which piece of the block tile."""
    threads = kernel.threads
    firsts = tuple(_firsts(axis, threads.threads.value) for axis in (threads.rows, threads.cols))
    piece = (threads.rows.piece.value, threads.cols.piece.value)
    height, width = kernel.block_m.value // piece[0], kernel.block_n.value // piece[1]
    table = np.full((height, width), -1, dtype=np.int64)
    thread = np.arange(threads.threads.value)
    for row in firsts[0]:
        for col in firsts[1]:
            table[row // piece[0], col // piece[1]] = thread
    return Ownership(
        tuple(range(0, kernel.block_m.value, piece[0])),
        tuple(range(0, kernel.block_n.value, piece[1])),
        piece,
        tuple(tuple(int(owner) for owner in line) for line in table),
    )


def _firsts(axis: AxisMap, threads: int) -> list[Array]:
    """For each piece of a thread along an axis: its first index, by thread."""
    env: dict[str, Array | int] = {"thread": np.arange(threads)}
    return [
        np.broadcast_to(np.asarray(evaluate(axis.index(Int(start)), env)), (threads,))
        for start in range(0, axis.count.value, axis.piece.value)
    ]


@dataclass(frozen=True, slots=True)
class Event:
    """A step of a block's program: `lane` is the row of the timeline, `text` what is written there.

    `tile` is the K tile concerned, or -1; `slot` is where a copied tile comes to lie.
    """

    lane: str
    text: str
    tile: int
    slot: int = 0


_READ, _MULTIPLY = "read", "multiply"


def timeline(kernel: Kernel, k_tiles: int = 4) -> tuple[Event, ...]:
    """The program for a few K tiles, step by step.

    Steps of fragments follow each other closely: between two other events, those of one tile are drawn once.
    """
    events: list[Event] = []
    _run(kernel.body, {K_TILES.name: k_tiles}, events)
    merged: list[Event] = []
    drawn: set[Event] = set()
    for event in events:
        if event.lane not in (_READ, _MULTIPLY):
            drawn.clear()
        elif event in drawn:
            continue
        drawn.add(event)
        merged.append(event)
    return tuple(merged)


def _run(body: tuple[Stmt, ...], env: dict[str, int], events: list[Event]) -> None:
    for statement in body:
        match statement:
            case For():
                for value in range(value_of(statement.start, env), value_of(statement.stop, env)):
                    _run(statement.body, {**env, statement.var.name: value}, events)
            case If():
                if holds(statement.condition, env):
                    _run(statement.body, env, events)
            case _:
                events.append(_event(statement, env, events))


def _event(statement: Stmt, env: dict[str, int], before: list[Event]) -> Event:
    current = env.get(TILE.name, -1)
    match statement:
        case CopyTile() | AsyncCopyTile():
            tile = value_of(statement.tile, env)
            return _arrival(f"copy {statement.operand}", tile, statement.slot, env)
        case LoadTile():
            tile = value_of(statement.tile, env)
            return Event(f"load {statement.operand}", f"tile {tile}", tile)
        case StoreTile():
            load = f"load {statement.operand}"
            tile = next((event.tile for event in reversed(before) if event.lane == load), -1)
            return _arrival(f"store {statement.operand}", tile, statement.slot, env)
        case MultiplyTile() | MultiplyFragments():
            return Event(_MULTIPLY, f"tile {current}", current)
        case ReadFragment():
            arrivals = (f"copy {statement.operand}", f"store {statement.operand}")
            slot = 0 if statement.slot is None else value_of(statement.slot, env)
            arrived = (
                event.tile for event in reversed(before) if event.lane in arrivals and event.slot == slot
            )
            tile = next(arrived, -1)
            return Event(_READ, f"fragments of tile {tile}", tile)
        case MultiplyGlobal():
            return Event(_MULTIPLY, "all of K", -1)
        case StoreOutput():
            return Event("store C", "C", -1)
        case AddOutput():
            return Event("store C", "added to C", -1)
        case StorePart():
            return Event("store C", "part of C", -1)
        case Barrier():
            return Event("barriers", statement.reason, -1)
        case CommitGroup():
            return Event("groups", "commit", -1)
        case WaitGroups():
            return Event("groups", f"wait, {value_of(statement.pending, env)} left", -1)
        case For() | If():
            raise AssertionError("control flow is no step")
        case _:
            assert_never(statement)


def _arrival(lane: str, tile: int, slot: Expr | None, env: dict[str, int]) -> Event:
    """A tile comes to lie in shared memory."""
    if slot is None:
        return Event(lane, f"tile {tile}", tile)
    place = value_of(slot, env)
    return Event(lane, f"tile {tile} -> slot {place}", tile, place)
