"""Unrolling: how many steps of a K tile the machine code has one after the other, before it jumps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gemmdsl.index import Int, Named
from gemmdsl.ir import For, If, Kernel, MultiplyFragments, Stmt


def unroll(kernel: Kernel) -> Kernel:
    """Unrolls some steps of a K tile at a time.

    Before: all steps of a tile are unrolled, which makes long machine code of a deep one.  After: as many as
    the schedule says, in a loop.  Needs, where sets of fragment registers take turns, a number of steps after
    which the same set is due again: an index of registers must be known when the kernel is compiled, or they
    are no registers.
    """
    schedule = kernel.spec.schedule
    if schedule.unroll is None:
        return kernel
    steps = Named("UNROLL", Int(schedule.unroll), "steps along K that are unrolled at a time")
    return replace(kernel, unroll=steps, body=tuple(_unrolled(kernel.body, steps)))


def _unrolled(body: tuple[Stmt, ...], steps: Named) -> Iterator[Stmt]:
    """The program with its loop over steps, if it has one, unrolled by `steps`."""
    for statement in body:
        if not isinstance(statement, (For, If)):
            yield statement
            continue
        inner = replace(statement, body=tuple(_unrolled(statement.body, steps)))
        if (
            isinstance(inner, For)
            and inner.unroll
            and any(isinstance(s, MultiplyFragments) for s in inner.body)
        ):
            inner = replace(inner, unroll=steps)
        yield inner
