"""Planted faults that the text could not say, or would say wrongly: grids, counters, loops and names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gemmdsl.conditions import Multiple
from gemmdsl.index import Choice, Expr, Int, Named, least, less
from gemmdsl.ir import (
    TILE,
    Counter,
    For,
    Kernel,
    Stmt,
)
from gemmdsl.layout import BLOCK, BLOCKS_M, BLOCKS_N, GridMap, raster_grid
from gemmdsl.spec import Axis
from gemmdsl.verifier import ProofError, verify, verify_final
from tests.verifier.kernels import kernel
from tests.verifier.planting import Fault, copy, named, stage, tile


def _grid(row: Expr, col: Expr) -> Fault:
    return lambda: replace(kernel("naive"), grid=GridMap(row, col))


def _flagged(base: str, full: frozenset[Axis], requires: tuple[Multiple, ...]) -> Fault:
    def plant() -> Kernel:
        given = kernel(base)
        path = replace(given.paths[0], full=full, aligned=frozenset(), requires=requires)
        return replace(given, paths=(path, *given.paths[1:]))

    return plant


def _no_registers() -> Kernel:
    return replace(kernel("fragments"), fragments=None)


class _Stuck(Counter):
    @property
    def following(self) -> Expr:
        return self.value


class _Unwrapped(Counter):
    @property
    def following(self) -> Expr:
        return self.value + 1


def _counting(kind: type[Counter]) -> Fault:
    """Counters that go on otherwise than their formula does."""
    return _counter(
        lambda s: replace(s, counters=tuple(kind(c.value, c.start, c.modulus) for c in s.counters))
    )


def _counter(change: Callable[[For], For]) -> Fault:
    def plant() -> Kernel:
        given = kernel("async4")
        body = tuple(change(s) if isinstance(s, For) and s.counters else s for s in given.body)
        return replace(given, body=body)

    return plant


RASTER = Named("RASTER", Int(4))


def _raster(
    size: Expr, rows: Callable[[Expr], Expr], col: Callable[[Expr], Expr] = lambda place: place
) -> Fault:
    """Groups of 4 rows: blocks of a group, and rows of one that begins at `first`."""

    def plant() -> Kernel:
        group_row = (BLOCK // size) * RASTER
        inside, group_rows = BLOCK % size, rows(group_row)
        row, place = group_row + inside % group_rows, inside // group_rows
        return replace(kernel("raster"), grid=GridMap(row, col(place), RASTER, "M"))

    return plant


GROUP = least(RASTER, BLOCKS_M) * BLOCKS_N


def _left(first: Expr) -> Expr:
    return least(RASTER, BLOCKS_M - first)


def _unrolled(unroll: bool | Named) -> Fault:
    """`fragments` with its steps unrolled otherwise."""

    def change(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        found = tuple(replace(s, body=change(s.body)) if isinstance(s, For) else s for s in body)
        return tuple(
            replace(s, unroll=unroll) if isinstance(s, For) and s.var.name == "k" else s for s in found
        )

    def plant() -> Kernel:
        given = kernel("fragments")
        return replace(given, body=change(given.body))

    return plant


EMITTED: dict[str, tuple[str, Fault]] = {
    "steps of two sets of fragments in a loop": ("register-sets", _unrolled(False)),
    "an odd number of them unrolled": ("register-sets", _unrolled(Named("STEPS", Int(3)))),
    "a last group as large as the others": ("blocks", _raster(GROUP, lambda first: RASTER)),
    "a last group that is cut off": ("blocks", _raster(GROUP, lambda first: BLOCKS_M % RASTER)),
    "rows left of the whole grid": ("blocks", _raster(GROUP, lambda first: least(RASTER, BLOCKS_M))),
    "groups of another size than is said": (
        "blocks",
        lambda: replace(kernel("raster"), grid=replace(raster_grid(4, "M"), group=Named("RASTER", Int(2)))),
    ),
    "groups along the other axis than is said": (
        "blocks",
        lambda: replace(kernel("raster"), grid=replace(raster_grid(4, "M"), along="N")),
    ),
    "a group of more blocks than an int counts": ("blocks", _raster(RASTER * BLOCKS_N, _left)),
    "columns that begin anew far beyond what was enumerated": (
        "blocks",
        _raster(GROUP, _left, lambda col: col % Int(100_000)),
    ),
    "every block in the first row": ("blocks", _grid(Int(0), BLOCK % BLOCKS_N)),
    "rows and columns exchanged": ("blocks", _grid(BLOCK % BLOCKS_N, BLOCK // BLOCKS_N)),
    "one guard of three left out": (
        "expressed",
        _flagged("ping_pong", frozenset({"M"}), (Multiple("M", 128),)),
    ),
    "a copy beyond the last vector that nothing guards": (
        "copy-coverage",
        copy("A", lambda c: replace(c, copies=named(c.copies, c.copies.value + 1))),
    ),
    "fewer sets of fragment registers than are used": ("fragments", _no_registers),
    "a counter that starts elsewhere": (
        "counters",
        _counter(lambda s: replace(s, counters=(replace(s.counters[0], start=Int(1)), *s.counters[1:]))),
    ),
    "a counter that never advances": ("counters", _counting(_Stuck)),
    "a counter that never starts over": ("counters", _counting(_Unwrapped)),
    "a counter that nothing counts": ("names", _counter(lambda s: replace(s, counters=s.counters[1:]))),
    "one name for two constants": (
        "names",
        stage("A", lambda s: replace(s, store=Named("B_VECTOR", Int(1)))),
    ),
    "one name for two constants, in what is chosen among": (
        "names",
        copy(
            "B",
            lambda c: replace(
                c, strided=Choice(less(c.copy, Named("B_VECTOR", Int(9))), c.strided, c.strided)
            ),
        ),
    ),
    "slots of A and B apart": (
        "slot-range",
        tile("A", lambda t: replace(t, stages=Named("A_BUFFERS", Int(2)))),
    ),
}


@pytest.mark.parametrize("what", EMITTED)
def test_what_the_text_could_not_say_is_refuted(what: str) -> None:
    rule, plant = EMITTED[what]
    with pytest.raises(ProofError) as caught:
        verify(plant(), "specialise")
    assert caught.value.rule.name == rule


def test_a_loop_is_unrolled_as_the_kernel_says() -> None:
    assert verify(_unrolled(True)(), "unroll")
    with pytest.raises(ProofError, match="not unrolled as the kernel says") as caught:
        verify_final(_unrolled(True)(), "specialise")
    assert caught.value.rule.name == "as-asked"


def test_the_raster_that_faults_are_planted_in_is_right() -> None:
    assert verify(_raster(GROUP, _left)(), "raster")


def test_an_index_that_may_be_negative_is_refused() -> None:
    with pytest.raises(ValueError, match="may be negative"):
        (TILE - 1) % Named("BUFFERS", Int(2))
