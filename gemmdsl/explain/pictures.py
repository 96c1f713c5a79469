"""Data of the pictures: who owns what, and what happens when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

import numpy as np

from gemmdsl.index import Expr, Int, evaluate
from gemmdsl.ir import (
    K_TILES,
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

    `tile` is the K tile concerned, or -1.
    """

    lane: str
    text: str
    tile: int


def timeline(kernel: Kernel, k_tiles: int = 4) -> tuple[Event, ...]:
    """The program for a few K tiles, step by step; steps of a tile's fragments are drawn together."""
    events: list[Event] = []
    _run(kernel, kernel.body, {K_TILES.name: k_tiles}, events)
    merged: list[Event] = []
    for event in events:
        if not merged or event != merged[-1] or event.lane == "barriers":
            merged.append(event)
    return tuple(merged)


def _run(kernel: Kernel, body: tuple[Stmt, ...], env: dict[str, int], events: list[Event]) -> None:
    for statement in body:
        match statement:
            case For():
                for value in range(_value(statement.start, env), _value(statement.stop, env)):
                    _run(kernel, statement.body, {**env, statement.var.name: value}, events)
            case If():
                if _value(statement.condition.left, env) < _value(statement.condition.right, env):
                    _run(kernel, statement.body, env, events)
            case _:
                events.append(_event(statement, env, events))


def _event(statement: Stmt, env: dict[str, int], before: list[Event]) -> Event:
    current = env.get("tile", -1)

    def slot(expr: Expr | None) -> str:
        return "" if expr is None else f" -> slot {_value(expr, env)}"

    match statement:
        case CopyTile():
            tile = _value(statement.tile, env)
            return Event(f"copy {statement.operand}", f"tile {tile}{slot(statement.slot)}", tile)
        case AsyncCopyTile():
            tile = _value(statement.tile, env)
            return Event(f"copy {statement.operand}", f"tile {tile}{slot(statement.slot)}", tile)
        case LoadTile():
            tile = _value(statement.tile, env)
            return Event(f"load {statement.operand}", f"tile {tile}", tile)
        case StoreTile():
            load = f"load {statement.operand}"
            tile = next((event.tile for event in reversed(before) if event.lane == load), -1)
            return Event(f"store {statement.operand}", f"tile {tile}{slot(statement.slot)}", tile)
        case MultiplyTile():
            return Event("multiply", f"tile {current}", current)
        case ReadFragment() | MultiplyFragments():
            return Event("multiply", f"tile {current}", current)
        case MultiplyGlobal():
            return Event("multiply", "all of K", -1)
        case StoreOutput():
            return Event("store C", "C", -1)
        case Barrier():
            return Event("barriers", statement.reason, -1)
        case CommitGroup():
            return Event("groups", "commit", -1)
        case WaitGroups():
            return Event("groups", f"wait, {_value(statement.pending, env)} left", -1)
        case For() | If():
            raise AssertionError("control flow is no step")
        case _:
            assert_never(statement)


def _value(expr: Expr, env: dict[str, int]) -> int:
    return int(evaluate(expr, env))
