"""Names: the emitted text has one value for each, and where it is printed it is in scope."""

from __future__ import annotations

from collections.abc import Iterator

from gemmdsl.index import Bound, Expr, Named
from gemmdsl.index_parts import parts
from gemmdsl.ir import For, If, Kernel, Stmt, expressions
from gemmdsl.verifier.failure import NAMES, SLOT_RANGE, Refuted

# Names that the emitted functions use for themselves.
TAKEN = frozenset(
    (
        *("thread", "block", "blocks_m", "blocks_n", "block_row", "block_col", "m_left", "n_left", "depth"),
        *("k_tiles", "tile", "acc", "a", "b", "m", "n", "k", "i", "j", "e", "to", "from", "valid", "inside"),
        *("stage", "stages", "split", "whole", "all_tiles", "k_first", "parts", "part"),
        *("M", "N", "K", "A", "B", "C", "lda", "ldb", "ldc", "alpha", "beta", "scale", "FULL", "ALIGNED"),
        *("k_left", "copy", "step", "staged", "out", "a_from", "b_from", "a_to", "b_to", "next_a", "next_b"),
        *("BATCH", "BATCHES"),
    )
)


def prove_names(kernel: Kernel) -> None:
    """Every constant and every bound value is defined once; counters are used inside their loop only."""
    names = _Names()
    for expr in _maps(kernel):
        names.define_all(expr)
    _prove_counters(kernel.body, {}, names)
    if kernel.staging is not None and kernel.staging[0].tile.stages != kernel.staging[1].tile.stages:
        raise Refuted(SLOT_RANGE, "A and B have different slots, but a stage holds a tile of both")


class _Names:
    """What each name stands for; an expression that was seen is not looked through again."""

    def __init__(self) -> None:
        self._values: dict[str, Expr] = {}
        self._seen: set[int] = set()

    def define_all(self, expr: Expr) -> tuple[Bound, ...]:
        """Defines the names in an expression; the bound values that it uses are returned."""
        found: list[Bound] = []
        self._visit(expr, found)
        return tuple(found)

    def _visit(self, expr: Expr, found: list[Bound]) -> None:
        if isinstance(expr, Bound):
            found.append(expr)
        if id(expr) in self._seen:
            return
        self._seen.add(id(expr))
        match expr:
            case Named():
                self._define(expr.name, expr.definition)
            case Bound():
                self._define(expr.name, expr.value)
            case _:
                pass
        for part in parts(expr):
            self._visit(part, found)

    def _define(self, name: str, value: Expr) -> None:
        known = self._values.setdefault(name, value)
        if (known is not value and known != value) or name in TAKEN:
            raise Refuted(NAMES, f"`{name}` stands for two different values", name=name)


def _maps(kernel: Kernel) -> Iterator[Expr]:
    """Every expression outside of the program."""
    yield from (kernel.block_m, kernel.block_n, kernel.c_vector)
    yield from (kernel.grid.row, kernel.grid.col)
    threads = kernel.threads
    for axis in (threads.rows, threads.cols):
        yield from (axis.block, axis.count, axis.piece, axis.stride, axis.first)
    yield threads.threads
    for optional in (kernel.block_k, kernel.fragments, kernel.unroll):
        if optional is not None:
            yield optional
    if kernel.split is not None:
        yield from (kernel.split.parts, kernel.split.first, kernel.split.depth)
    if kernel.workspace is not None:
        yield from (kernel.workspace.parts, kernel.workspace.ld, kernel.workspace.floats)
    for staging in kernel.staging or ():
        tile = staging.tile
        yield from (tile.rows, tile.cols, tile.row_length, staging.store, staging.read)
        if tile.swizzle is not None:
            yield from (tile.swizzle.unit, tile.swizzle.group, tile.swizzle.count)
        if tile.stages is not None:
            yield tile.stages
        for copy in staging.maps:
            yield from (copy.threads, copy.width, copy.vectors, copy.copies)
            yield from (copy.vector, copy.strided, copy.contiguous)


def _prove_counters(body: tuple[Stmt, ...], counters: dict[str, Expr], names: _Names) -> None:
    for statement in body:
        inner = dict(counters)
        if isinstance(statement, For):
            inner |= {counter.value.name: counter.value.value for counter in statement.counters}
        for expr in expressions(statement):
            for bound in names.define_all(expr):
                if inner.get(bound.name) != bound.value:
                    raise Refuted(NAMES, f"`{bound.name}` is used outside of its loop", name=bound.name)
        if isinstance(statement, (For, If)):
            _prove_counters(statement.body, inner, names)
