"""An independent reading of a program: real data, one thread at a time, in a random order.

Each thread of a small block runs the program step by step; between barriers the scheduler picks who is next,
and an asynchronous copy lands whenever it likes between its issue and the wait.  What the threads multiply
is compared with what they should: a race or a stale slot shows up as wrong data for some order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from gemmdsl.index import Expr, Int, evaluate
from gemmdsl.ir import (
    AddOutput,
    AsyncCopyTile,
    Barrier,
    CommitGroup,
    CopyTile,
    For,
    If,
    Kernel,
    LoadTile,
    MultiplyTile,
    Stmt,
    StoreOutput,
    StorePart,
    StoreTile,
    WaitGroups,
)

Word = tuple[str, int, int, int]


class Wrong(Exception):
    """A thread read something else than the element it needs."""


@dataclass
class Shares:
    """Per thread: which elements (f, k) of each operand it copies, and which it reads."""

    copied: dict[str, list[list[tuple[int, int]]]]
    read: dict[str, list[list[tuple[int, int]]]]


def shares(kernel: Kernel, only: Collection[int] | None = None) -> Shares:
    """Enumerates a kernel's maps thread by thread; `only` some threads, if given, the others get nothing."""
    assert kernel.staging is not None
    assert kernel.block_k is not None
    found = Shares({}, {})
    threads = range(kernel.threads.threads.value)
    for staging, axis in zip(kernel.staging, (kernel.threads.rows, kernel.threads.cols), strict=True):
        name, copy = staging.tile.operand.name, staging.copy
        found.copied[name] = [
            [
                (int(f), int(k))
                for number in range(copy.copies.value)
                for env in ({"thread": thread, "copy": number},)
                if (only is None or thread in only) and evaluate(copy.vector, env) < copy.vectors.value
                for lane in range(copy.width.value)
                for f, k in (tuple(evaluate(e, env) for e in copy.coordinates(copy.contiguous + lane)),)
            ]
            for thread in threads
        ]
        found.read[name] = [
            [
                (int(evaluate(axis.index(Int(i)), {"thread": thread})), k)
                for i in range(axis.count.value if only is None or thread in only else 0)
                for k in range(kernel.block_k.value)
            ]
            for thread in threads
        ]
    return found


@dataclass
class Thread:
    """One thread: what it still has to do, and copies that may land at any time."""

    number: int
    program: Iterator[tuple[Stmt, Mapping[str, int]]]
    registers: dict[str, int] = field(default_factory=dict)
    flying: list[Callable[[], None]] = field(default_factory=list)
    group: list[Callable[[], None]] = field(default_factory=list)
    groups: list[list[Callable[[], None]]] = field(default_factory=list)
    multiplied: int = 0
    stored: int = 0
    waiting: bool = False
    done: bool = False


def run(kernel: Kernel, parts: Shares, k_tiles: int, random: Random) -> None:
    """One random order; raises Wrong when a thread computes with wrong data."""
    memory: dict[Word, int] = {}
    threads = [
        Thread(number, _unrolled(kernel.body, {"k_tiles": k_tiles}))
        for number in range(kernel.threads.threads.value)
    ]
    while any(not thread.done for thread in threads):
        ready = [thread for thread in threads if not thread.waiting and not thread.done]
        if not ready:
            for thread in threads:
                thread.waiting = False
            continue
        thread = random.choice(ready)
        # A thread that runs far ahead of the others finds most races.
        for _ in range(random.choice((1, 1, 3, 50))):
            if thread.waiting or thread.done:
                break
            _step(thread, memory, parts, k_tiles, random)
            for other in threads:
                if other.flying and random.random() < 0.3:
                    other.flying.pop(random.randrange(len(other.flying)))()
    for thread in threads:
        if (thread.multiplied, thread.stored) != (k_tiles, 1):
            raise Wrong(f"{thread.multiplied} products, {thread.stored} stores")


def _unrolled(body: tuple[Stmt, ...], env: dict[str, int]) -> Iterator[tuple[Stmt, Mapping[str, int]]]:
    for statement in body:
        if isinstance(statement, For):
            for value in range(int(evaluate(statement.start, env)), int(evaluate(statement.stop, env))):
                yield from _unrolled(statement.body, {**env, statement.var.name: value})
        elif isinstance(statement, If):
            if evaluate(statement.condition.left, env) < evaluate(statement.condition.right, env):
                yield from _unrolled(statement.body, env)
        else:
            yield statement, env


def _step(thread: Thread, memory: dict[Word, int], parts: Shares, k_tiles: int, random: Random) -> None:
    following = next(thread.program, None)
    if following is None:
        thread.done = True
        return
    statement, env = following

    def value(expr: Expr | None) -> int:
        return 0 if expr is None else int(evaluate(expr, env))

    match statement:
        case CopyTile() | AsyncCopyTile():
            tile = value(statement.tile)
            if not 0 <= tile < k_tiles:
                raise Wrong(f"tile {tile}")
            writes = _writes(thread, memory, parts, statement.operand, value(statement.slot), tile)
            if isinstance(statement, AsyncCopyTile):
                thread.flying += writes
                thread.group += writes
            else:
                for write in writes:
                    write()
        case LoadTile():
            thread.registers[statement.operand] = value(statement.tile)
            if not 0 <= value(statement.tile) < k_tiles:
                raise Wrong("tile")
        case StoreTile():
            if statement.operand not in thread.registers:
                raise Wrong("empty registers")
            tile = thread.registers[statement.operand]
            for write in _writes(thread, memory, parts, statement.operand, value(statement.slot), tile):
                write()
        case CommitGroup():
            thread.groups.append(thread.group)
            thread.group = []
        case WaitGroups():
            landed = max(0, len(thread.groups) - value(statement.pending))
            for group in thread.groups[:landed]:
                for write in group:
                    if write in thread.flying:
                        thread.flying.remove(write)
                        write()
            del thread.groups[:landed]
        case Barrier():
            thread.waiting = True
        case MultiplyTile():
            for operand in "AB":
                for f, k in parts.read[operand][thread.number]:
                    found: Any = memory.get((operand, value(statement.slot), f, k))
                    if found != thread.multiplied:
                        raise Wrong(f"tile {found} instead of {thread.multiplied}")
            if thread.stored:
                raise Wrong("products after the store")
            thread.multiplied += 1
        case StoreOutput() | AddOutput() | StorePart():
            if thread.multiplied != k_tiles:
                raise Wrong("stored too early")
            thread.stored += 1
        case _:
            raise AssertionError(statement)


def _writes(
    thread: Thread, memory: dict[Word, int], parts: Shares, operand: str, slot: int, tile: int
) -> list[Callable[[], None]]:
    def write(word: Word) -> Callable[[], None]:
        return lambda: memory.__setitem__(word, tile)

    return [write((operand, slot, f, k)) for f, k in parts.copied[operand][thread.number]]
