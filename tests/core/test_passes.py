"""What passes choose that no proof asks for: which threads are neighbours, how far a counter runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from gemmdsl import passes
from gemmdsl.index import Var, constant, evaluate
from gemmdsl.index_parts import free
from gemmdsl.ir import Barrier, For, Kernel, walk
from gemmdsl.layout import BLOCK, BLOCKS_M, BLOCKS_N, SharedTile, raster_grid
from gemmdsl.passes import build, steps
from gemmdsl.spec import Order, Stage
from gemmdsl.verifier import ProofError
from tests.verifier.kernels import COLUMN, PIECES, ROW, SPECS, edit, kernel, spec


def test_neighbouring_threads_follow_the_contiguous_axis_of_c() -> None:
    for name, along_m in (("vectors", False), ("columns", True)):
        threads = kernel(name).threads
        apart = [
            evaluate(axis.first, {"thread": 1}) != evaluate(axis.first, {"thread": 0})
            for axis in (threads.rows, threads.cols)
        ]
        assert apart == [along_m, not along_m]


def test_steps_but_the_last_are_unrolled() -> None:
    given = kernel("fragments")
    assert given.block_k is not None
    loop = next(s for s in walk(given.body) if isinstance(s, For) and s.var.name == "k")
    assert loop.var.extent == given.block_k.value - 1


@pytest.mark.parametrize("name", SPECS)
def test_ranges_end_where_what_they_count_does(name: str) -> None:
    """A range that is too wide costs simplifications, and refuses divisions that are right."""
    given = kernel(name)
    threads = given.threads
    for axis, counter in ((threads.rows, threads.i), (threads.cols, threads.j)):
        index = axis.index(counter)
        assert (index.lo, index.hi) == (0, axis.block.value - 1)
    for staging in given.staging or ():
        copy = staging.copy
        assert (copy.vector.lo, copy.vector.hi) == (0, copy.copies.value * copy.threads.value - 1)
    for loop in walk(given.body):
        if isinstance(loop, For) and (stop := constant(loop.stop)) is not None:
            assert loop.var.extent == stop


@pytest.mark.parametrize("name", [name for name in SPECS if SPECS[name].schedule.staged])
def test_threads_differ_in_where_they_start_and_not_in_their_way(name: str) -> None:
    for staging in kernel(name).staging or ():
        copy, element = staging.copy, Var("element", staging.copy.width.value)
        if (found := copy.landing(staging.tile, element)) is not None:
            start, way = found
            assert free(start) <= {"thread"}
            assert free(way) <= {copy.copy.name, element.name}


def test_a_swizzle_takes_the_unit_of_its_own_operand() -> None:
    stages = {"stage_a": Stage(2, 2, 2, swizzle=True), "stage_b": Stage(4, 4, 4, swizzle=True)}
    given = build(spec(**PIECES, a=COLUMN, **stages))
    patterns = [given.stage(operand).tile.swizzle for operand in ("A", "B")]
    assert [pattern and pattern.unit.value for pattern in patterns] == [2, 4]


@pytest.mark.parametrize("order", [ROW, COLUMN])
def test_a_transposed_tile_has_rows_and_columns_exchanged(order: Order) -> None:
    def tiles(transpose: bool) -> list[SharedTile]:
        stage = Stage(transpose=transpose)
        given = build(spec(**PIECES, a=order, b=order, stage_a=stage, stage_b=stage))
        return [given.stage(operand).tile for operand in ("A", "B")]

    for kept, exchanged in zip(tiles(False), tiles(True), strict=True):
        assert (exchanged.rows, exchanged.cols) == (kept.cols, kept.rows)
        assert (exchanged.k_outer, exchanged.transposed) == (not kept.k_outer, True)


@pytest.mark.parametrize("name", SPECS)
def test_a_kernel_built_without_proofs_is_the_one_that_is_proved(name: str) -> None:
    assert build(SPECS[name]) == steps(SPECS[name])[-1].kernel


def without_barrier(given: Kernel) -> Kernel:
    return edit(given, Barrier, lambda _: ())


def too_many_blocks(given: Kernel) -> Kernel:
    return replace(given, min_blocks=16)


@pytest.mark.parametrize("wrong", [without_barrier, too_many_blocks])
def test_a_refuted_proof_names_the_pass(wrong: passes.Pass, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proved after every pass, and what is proved in the end."""
    monkeypatch.setattr(passes, "PIPELINE", (*passes.PIPELINE, wrong))
    with pytest.raises(ProofError) as caught:
        steps(SPECS["async4"])
    assert caught.value.after == wrong.__name__


def _walk(tiles: int, along: Literal["M", "N"], rows: int, cols: int) -> list[tuple[int, int]]:
    """(row, column) of the tile of each block."""
    grid = raster_grid(tiles, along)
    sizes = {BLOCKS_M.name: rows, BLOCKS_N.name: cols}
    return [
        (int(evaluate(grid.row, env)), int(evaluate(grid.col, env)))
        for block in range(rows * cols)
        for env in ({BLOCK.name: block, **sizes},)
    ]


def test_blocks_go_down_the_columns_of_a_group() -> None:
    """The last group has the rows that are left."""
    assert _walk(2, "M", 5, 2) == [
        *((0, 0), (1, 0), (0, 1), (1, 1)),
        *((2, 0), (3, 0), (2, 1), (3, 1)),
        *((4, 0), (4, 1)),
    ]
    assert _walk(1, "M", 2, 3) == [(row, col) for row in range(2) for col in range(3)]
    assert _walk(1, "N", 2, 3) == [(row, col) for col in range(3) for row in range(2)]
    assert _walk(8, "M", 3, 2) == [(row, col) for col in range(2) for row in range(3)]


def test_groups_of_columns_are_groups_of_rows_turned() -> None:
    for rows, cols in ((5, 2), (7, 9), (1, 4), (4, 1)):
        turned = [(col, row) for row, col in _walk(3, "M", cols, rows)]
        assert _walk(3, "N", rows, cols) == turned
