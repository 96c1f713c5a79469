"""How often a block reads each k of its tiles: the program of a kernel, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import assert_never

from gemmdsl.index import Expr, evaluate
from gemmdsl.ir import (
    K_TILES,
    AddOutput,
    AsyncCopyTile,
    Barrier,
    CommitGroup,
    CopyTile,
    Equal,
    For,
    If,
    Kernel,
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
from gemmdsl.spec import StagedName

Reads = Counter[tuple[StagedName, int]]

# From this many tiles on, one more tile always adds the same (the verifier proves that the loop is steady).
_STEADY = 4


def fragment_reads(kernel: Kernel, k_tiles: int) -> Reads:
    """(operand, k within a tile) -> how often each thread of a block reads that fragment."""
    if k_tiles <= _STEADY + 1:
        return _counted(kernel, k_tiles)
    few, more = _counted(kernel, _STEADY), _counted(kernel, _STEADY + 1)
    return Counter({key: few[key] + (more[key] - few[key]) * (k_tiles - _STEADY) for key in more})


def _counted(kernel: Kernel, k_tiles: int) -> Reads:
    reads: Reads = Counter()
    _run(kernel, kernel.body, {K_TILES.name: k_tiles}, reads)
    return reads


def _run(kernel: Kernel, body: tuple[Stmt, ...], env: dict[str, int], reads: Reads) -> None:
    for statement in body:
        match statement:
            case For():
                for value in range(value_of(statement.start, env), value_of(statement.stop, env)):
                    _run(kernel, statement.body, {**env, statement.var.name: value}, reads)
            case If():
                if holds(statement.condition, env):
                    _run(kernel, statement.body, env, reads)
            case MultiplyTile():
                assert kernel.block_k is not None
                for k in range(kernel.block_k.value):
                    reads["A", k] += 1
                    reads["B", k] += 1
            case ReadFragment():
                reads[statement.operand, value_of(statement.k, env)] += 1
            case (
                CopyTile()
                | AsyncCopyTile()
                | LoadTile()
                | StoreTile()
                | MultiplyFragments()
                | MultiplyGlobal()
                | StoreOutput()
                | AddOutput()
                | StorePart()
                | Barrier()
                | CommitGroup()
                | WaitGroups()
            ):
                # None of these reads a tile in shared memory.
                continue
            case _:
                assert_never(statement)


def holds(test: Test, env: Mapping[str, int]) -> bool:
    """Whether a condition of the program is true for these loop counters."""
    left, right = value_of(test.left, env), value_of(test.right, env)
    match test:
        case Less():
            return left < right
        case Equal():
            return left == right
        case _:
            assert_never(test)


def value_of(expr: Expr, env: Mapping[str, int]) -> int:
    """An expression over loop counters."""
    return int(evaluate(expr, env))
