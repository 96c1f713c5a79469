"""Why a few numbers of K tiles stand for all: the K loop repeats itself once its pipeline is full.

A turn is the number of slots.  The program is run for up to L = 2 turn + 2 K tiles.  Take a larger number n
and suppose that n - turn is proved.  Conditions before the K loop hold from turn + 3 tiles on, and those in
it look a turn ahead at most, so up to iteration 1 + turn the run for n does what the run for L does.  There
the state is that of iteration 1 again, with tiles counted from the iteration: of the run for L, and by the
same argument of that for n - turn.  From there on as many tiles remain for n as for n - turn from iteration 1
on, slots repeat with the turn and tiles are counted from the iteration: one run does what the other does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from gemmdsl.index import Bound, Expr, Op, Var, constant, less
from gemmdsl.index_parts import free
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
    WaitGroups,
    expressions,
    walk,
)
from gemmdsl.printer import headline
from gemmdsl.verifier.failure import STEADY, Refuted
from gemmdsl.verifier.program import Runs


def prove_steady(body: tuple[Stmt, ...], runs: Runs, turn: int) -> None:
    """What was run stands for every number of K tiles; `turn` is the number of slots."""
    loop = _k_loop(body)
    for statement in _outside(body, loop):
        if not _settles(statement):
            raise _refuted(statement, "depends on k_tiles other than by `x < k_tiles`", turn)
    for statement in walk(loop.body):
        if not _repeats(statement, loop.var, turn):
            raise _refuted(statement, "does not repeat itself with the slots, or looks too far ahead", turn)
    if runs.skipping > turn + 2:
        raise Refuted(
            STEADY,
            f"a condition before the K loop still fails for {runs.skipping} K tiles",
            k_tiles=runs.skipping,
            turn=turn,
        )
    if 1 + turn not in runs.states or runs.states[1] != runs.states[1 + turn]:
        raise Refuted(STEADY, "the K loop is not back in its state after one turn of the slots", turn=turn)


def _refuted(statement: Stmt, what: str, turn: int) -> Refuted:
    return Refuted(STEADY, f"`{headline(statement)}` {what}", turn=turn)


def _k_loop(body: tuple[Stmt, ...]) -> For:
    """The one loop whose bounds depend on the number of K tiles: over all of them, from the first."""
    loops = [
        statement
        for statement in walk(body)
        if isinstance(statement, For) and K_TILES.name in free(statement.start) | free(statement.stop)
    ]
    if len(loops) != 1 or constant(loops[0].start) != 0 or loops[0].stop != K_TILES:
        raise Refuted(STEADY, "the program has no single loop over all K tiles", loops=len(loops))
    return loops[0]


def _outside(body: tuple[Stmt, ...], loop: For) -> Iterator[Stmt]:
    """Every statement but the K loop and what is in it."""
    for statement in body:
        if statement is loop:
            continue
        yield statement
        if isinstance(statement, (For, If)):
            yield from _outside(statement.body, loop)


def _settles(statement: Stmt) -> bool:
    """Whether a statement outside of the K loop does the same for all large numbers of K tiles."""
    if isinstance(statement, If):
        less_than = isinstance(statement.condition, Less)
        return (
            less_than
            and statement.condition.right == K_TILES
            and K_TILES.name not in free(statement.condition.left)
        )
    return all(K_TILES.name not in free(expr) for expr in expressions(statement))


def _repeats(statement: Stmt, tile: Var, turn: int) -> bool:
    """Whether a statement of the K loop does, a turn later, the same with tiles that are a turn later."""
    match statement:
        case If():
            test = statement.condition
            if isinstance(test, Equal):
                return all(tile.name not in free(expr) for expr in (test.left, test.right))
            ahead = _offset(test.left, tile)
            return test.right == K_TILES and ahead is not None and 0 <= ahead <= turn
        case CopyTile() | AsyncCopyTile():
            return _offset(statement.tile, tile) is not None and _cyclic(statement.slot, tile, turn)
        case LoadTile():
            return _offset(statement.tile, tile) is not None
        case ReadFragment():
            inner = statement.k, statement.registers
            free_of_tile = all(tile.name not in free(expr) for expr in inner)
            return free_of_tile and _cyclic(statement.slot, tile, turn)
        case MultiplyFragments():
            return tile.name not in free(statement.registers)
        case StoreTile() | MultiplyTile():
            return _cyclic(statement.slot, tile, turn)
        case For():
            # Counters need no look: what they hold is checked against their formulas in every run.
            return constant(statement.start) is not None and constant(statement.stop) is not None
        case WaitGroups():
            return constant(statement.pending) is not None
        case CommitGroup() | Barrier() | StoreOutput() | AddOutput() | StorePart() | MultiplyGlobal():
            return True
        case _:
            assert_never(statement)


def _cyclic(slot: Expr | None, tile: Var, turn: int) -> bool:
    """Whether a slot is always the same, or a tile number modulo a divisor of the turn."""
    if slot is None or constant(slot) is not None:
        return True
    if isinstance(slot, Bound):
        return _cyclic(slot.value, tile, turn)
    if not isinstance(slot, Op) or slot.kind not in ("%", "wrap"):
        return False
    divisor = constant(slot.right)
    if divisor is None or turn % divisor:
        return False
    if slot.kind == "wrap":
        base, step = slot.left, less(tile + 1, K_TILES)
        return (
            isinstance(base, Op)
            and base.kind == "+"
            and base.right == step
            and _cyclic(base.left, tile, turn)
        )
    return _ahead(slot.left, tile, turn)


def _ahead(expr: Expr, tile: Var, turn: int) -> bool:
    """Whether a tile number is `tile + c`, or the next tile while there is one."""
    if expr == tile + less(tile + 1, K_TILES):
        return turn >= 1
    return _offset(expr, tile) is not None


def _offset(expr: Expr, var: Var) -> int | None:
    """c of an expression that is `var + c`; None for any other."""
    match expr:
        case Var():
            return 0 if expr == var else None
        case Op(kind="+" | "-"):
            right = constant(expr.right)
            base = None if right is None else _offset(expr.left, var)
            if right is None or base is None:
                return None
            return base + (right if expr.kind == "+" else -right)
        case _:
            return None
