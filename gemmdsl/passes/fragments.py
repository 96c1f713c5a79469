"""Register fragments: the operands of step k + 1 are read from shared memory while step k is multiplied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gemmdsl.index import Bound, Expr, Int, Named, Var, less, wrap
from gemmdsl.ir import (
    K_TILES,
    TILE,
    AsyncCopyTile,
    Barrier,
    Equal,
    For,
    If,
    Kernel,
    Less,
    MultiplyFragments,
    MultiplyTile,
    ReadFragment,
    Stmt,
    WaitGroups,
)
from gemmdsl.passes.ping_pong import FIRST
from gemmdsl.spec import CopySteps

AHEAD = "the next tile has landed for all, and nobody reads this one any more"


def fragments(kernel: Kernel) -> Kernel:
    """Two sets of fragment registers: reads of one step overlap the FMAs of the step before.

    Before: `multiply` reads the fragments of a k and uses them at once.  After: the steps of a tile are
    spelled out, each reading the fragments of the next; the last one reads the first fragments of the next
    tile, for which it waits (the last tile reads its own again: no branch, no slot that nothing was copied
    to).  Needs: an even BLOCK_K, and buffers, so that the next tile is there.
    """
    schedule = kernel.spec.schedule
    if schedule.fragments == 1:
        return kernel
    assert kernel.block_k is not None, "the checker asks for a K tile"
    sets = Named("FRAGMENTS", Int(schedule.fragments), "sets of fragment registers")
    return replace(kernel, fragments=sets, body=tuple(_program(kernel, kernel.block_k, sets)))


def _program(kernel: Kernel, block_k: Named, sets: Named) -> Iterator[Stmt]:
    """The program with the K loop's multiplication in steps, and the first fragments read before it."""
    for statement in kernel.body:
        if not (isinstance(statement, For) and statement.stop == K_TILES):
            yield statement
            continue
        body = statement.body
        yield from _first(kernel, body)
        yield replace(statement, body=tuple(_steps(kernel, block_k, sets, body)))


def _read(kernel: Kernel, slot: Expr | None, k: Expr, registers: Expr) -> tuple[Stmt, ...]:
    return tuple(ReadFragment(operand, slot, k, registers) for operand in kernel.read_order)


def _first(kernel: Kernel, body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Reads step 0 of the first tile, once it is there."""
    for statement in body:
        if isinstance(statement, WaitGroups):
            yield statement
            yield Barrier(FIRST)
    yield If(Less(Int(0), K_TILES), _read(kernel, Int(0), Int(0), Int(0)))


def _at_steps(k: Var, copies: tuple[Stmt, ...], steps: CopySteps) -> Iterator[Stmt]:
    """The copies of a tile within the loop over its steps `k`: all in one, or dealt to several."""
    if steps.together is not None:
        yield If(
            Equal(k, Named("COPY_STEP", Int(steps.together), "of a K tile, in which copies are issued")),
            copies,
        )
        return
    for step in sorted(set(steps.all)):
        due = tuple(batch for guarded in copies for batch in _batches(guarded, steps, step))
        yield If(Equal(k, Int(step)), due)


def _batches(guarded: Stmt, steps: CopySteps, step: int) -> Iterator[Stmt]:
    """A guarded list of copies, of which those batches stay that are due at a step."""
    assert isinstance(guarded, If), "copies ahead are guarded"
    due = tuple(
        replace(copy, batch=batch, batches=len(steps.of(copy.operand)))
        for copy in guarded.body
        if isinstance(copy, AsyncCopyTile)
        for batch, at in enumerate(steps.of(copy.operand))
        if at == step
    )
    if due:
        yield replace(guarded, body=due)


def _steps(kernel: Kernel, block_k: Named, sets: Named, body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """The K loop's body: copies, steps 0 to BLOCK_K - 2, what makes the next tile visible, the last step.

    Asynchronous copies are issued within steps, after their reads: a branch around a few copies in the midst
    of FMAs becomes predicates, one at the head of the loop stays a branch.  Many copies are dealt to several
    steps, else reads of the steps that follow would queue up behind them.
    """
    multiply = next(statement for statement in body if isinstance(statement, MultiplyTile))
    at = body.index(multiply)
    waits = tuple(statement for statement in body if isinstance(statement, (WaitGroups, Barrier)))
    moves = tuple(statement for statement in body[:at] if statement not in waits)
    after = tuple(statement for statement in body[at + 1 :] if statement not in waits)
    slots = kernel.buffers
    assert slots is not None, "the checker asks for buffers"
    k = Var("k", block_k.value - 1)
    copies: tuple[Stmt, ...] = tuple(statement for statement in moves if isinstance(statement, If))
    if copies and kernel.spec.schedule.asynchronous:
        copies = tuple(_at_steps(k, copies, kernel.spec.schedule.copy_steps))
    else:
        yield from copies
        copies = ()
    yield For(
        k,
        Int(0),
        block_k - 1,
        (*_read(kernel, multiply.slot, k + 1, (k + 1) % sets), *copies, MultiplyFragments(k % sets)),
        unroll=True,
    )
    yield from after
    # A group is committed as late as the next wait allows: its copies spread over the steps above.
    yield from (statement for statement in moves if not isinstance(statement, If))
    yield from (statement for statement in waits if isinstance(statement, WaitGroups))
    yield Barrier(AHEAD)
    more = less(TILE + 1, K_TILES)
    slot = multiply.slot
    following = wrap(slot + more, slots) if isinstance(slot, Bound) else (TILE + more) % slots
    yield from _read(kernel, following, Int(0), Int(0))
    yield MultiplyFragments((block_k - 1) % sets)
