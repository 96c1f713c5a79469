"""How faults are planted: each function gives a kernel that differs from a right one in one thing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gemmdsl.conditions import Aligned, Multiple
from gemmdsl.extents import SplitMap
from gemmdsl.index import Bound, Expr, Int, Named, Op
from gemmdsl.ir import (
    Kernel,
    ReduceParts,
    ScaleOutput,
    Staging,
    Stmt,
)
from gemmdsl.layout import CopyMap, SharedTile
from gemmdsl.passes import steps
from gemmdsl.spec import Assumption
from tests.verifier.kernels import PIECES, VECTORS, kernel, spec, with_stage

Fault = Callable[[], Kernel]


def named(old: Named, value: int) -> Named:
    return Named(old.name, Int(value))


def first(axis: str, change: Callable[[Expr], Expr]) -> Fault:
    """`ping_pong` with the first row or column of each thread changed."""

    def plant() -> Kernel:
        given = kernel("ping_pong")
        threads = given.threads
        of_axis = threads.rows if axis == "M" else threads.cols
        changed = replace(of_axis, first=Bound(of_axis.first.name, change(of_axis.first.value)))
        rows, cols = (changed, threads.cols) if axis == "M" else (threads.rows, changed)
        return replace(given, threads=replace(threads, rows=rows, cols=cols))

    return plant


def copy(operand: str, change: Callable[[CopyMap], CopyMap], base: str = "ping_pong") -> Fault:
    return lambda: with_stage(kernel(base), operand, lambda s: replace(s, copy=change(s.copy)))


def tile(operand: str, change: Callable[[SharedTile], SharedTile], base: str = "ping_pong") -> Fault:
    return lambda: with_stage(kernel(base), operand, lambda s: replace(s, tile=change(s.tile)))


def stage(operand: str, change: Callable[[Staging], Staging], base: str = "ping_pong") -> Fault:
    return lambda: with_stage(kernel(base), operand, change)


def padded_by(pad: int) -> Callable[[SharedTile], SharedTile]:
    return lambda t: replace(
        t, pad=Named("A_PAD", Int(pad)), row_length=Named("A_ROW", t.cols + Named("A_PAD", Int(pad)))
    )


def paths(base: str, **changes: object) -> Fault:
    """A kernel with its first path changed."""

    def plant() -> Kernel:
        given = kernel(base)
        return replace(given, paths=(replace(given.paths[0], **changes), *given.paths[1:]))  # type: ignore[arg-type]

    return plant


def last_path(**changes: object) -> Fault:
    def plant() -> Kernel:
        given = kernel("ping_pong")
        return replace(given, paths=(*given.paths[:-1], replace(given.paths[-1], **changes)))  # type: ignore[arg-type]

    return plant


def assuming(*assumptions: Assumption) -> Fault:
    """A kernel whose schedule assumes what no path checks."""

    def plant() -> Kernel:
        given = kernel("ping_pong")
        schedule = replace(given.spec.schedule, assumptions=assumptions)
        return replace(given, spec=replace(given.spec, schedule=schedule))

    return plant


def lying(expr: Expr) -> Expr:
    """An expression that claims to be 0, so that the constructors drop operations which it needs."""
    return Op("^", expr, Int(0), 0, 0)


def foreign_tile() -> Kernel:
    """A's staging of a kernel with another block tile and as many threads."""
    other = spec(**{**PIECES, "block_m": 64, "block_n": 128}, **VECTORS, buffers=2)
    return with_stage(kernel("ping_pong"), "A", lambda _: steps(other)[-1].kernel.stage("A"))


BLOCK_K = Named("BLOCK_K", Int(8))
BEFORE, AFTER = (ScaleOutput(),), (ReduceParts(),)


def parts(**changes: Callable[[SplitMap], Expr]) -> Fault:
    """A kernel with other parts of K."""

    def plant() -> Kernel:
        given = kernel("split_atomic")
        assert given.split is not None
        changed = {name: change(given.split) for name, change in changes.items()}
        return replace(given, split=replace(given.split, **changed))  # type: ignore[arg-type]

    return plant


def ends(base: str, last: Stmt) -> Fault:
    """A kernel whose program ends otherwise."""
    return lambda: replace(kernel(base), body=(*kernel(base).body[:-1], last))


MULTIPLES = (Multiple("M", 128), Multiple("N", 64), Multiple("K", 8))
ALIGNED = (Aligned("A", 4), Aligned("B", 4), Aligned("C", 4))
