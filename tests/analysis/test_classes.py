"""Classes of tiles: what is counted in one step is what counting one by one gives."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmdsl.analysis import classes
from gemmdsl.analysis.access import summed
from gemmdsl.analysis.classes import ALIGNMENT, axis_classes, blocks_of
from gemmdsl.analysis.compiled import compiled
from gemmdsl.analysis.lines import source_map
from gemmdsl.analysis.written import written
from gemmdsl.layout import BLOCK, BLOCKS_M, GridMap, row_grid
from tests.analysis.models import binary, kernel, needs_toolkit, shape_of

COLUMNS = GridMap(BLOCK % BLOCKS_M, BLOCK // BLOCKS_M)


@given(st.integers(0, 500), st.integers(1, 40), st.lists(st.integers(0, 50), min_size=1, max_size=3))
def test_classes_of_an_axis_are_those_of_its_tiles(extent: int, size: int, steps: list[int]) -> None:
    found = axis_classes(extent, size, tuple(steps))
    counted = Counter(
        (tuple(start * step % ALIGNMENT for step in steps), min(size, extent - start))
        for start in range(0, extent, size)
    )
    assert {(one.residues, one.left): one.times for one in found} == counted
    for one in found:
        start = one.first * size
        assert one.residues == tuple(start * step % ALIGNMENT for step in steps)
        assert one.left == min(size, extent - start)


@pytest.mark.parametrize("grid", [row_grid(), COLUMNS])
@pytest.mark.parametrize("chunk", [1, 3, 1 << 16])
def test_blocks_are_found_by_their_tile(grid: GridMap, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "_CHUNK", chunk)
    tiles = list(product(range(5), range(7)))
    numbers = blocks_of(grid, (5, 7), tiles)
    assert sorted(numbers.values()) == list(range(35))
    assert numbers == {(row, col): row * 7 + col if grid != COLUMNS else col * 5 + row for row, col in tiles}
    assert blocks_of(grid, (5, 7), [(4, 0)]) == {(4, 0): numbers[4, 0]}


HUGE = (1_000_000, 1_000_000, 64)


def test_huge_grids_are_counted_as_written() -> None:
    found, source = kernel("ladder.gemm", "v3")
    stores = summed(written(found, shape_of(found, HUGE), source_map(source.text)), "global", "store")
    # Every float of C is stored in vectors of four, half a sector each.
    assert (stores.ideal, stores.cost) == (10**12 // 8, 10**12 // 4)


@pytest.mark.nvcc
@needs_toolkit
@pytest.mark.parametrize("sizes", [HUGE, (64, 64, 10**9)])
def test_huge_grids_are_counted_as_compiled(sizes: tuple[int, int, int]) -> None:
    found, source = kernel("ladder.gemm", "v3")
    shape = shape_of(found, sizes)
    asked = written(found, shape, source_map(source.text))
    made = compiled(found, source, binary("ladder.gemm", "v3"), shape)
    for kind in ("load", "store"):
        assert summed(made.accesses, "global", kind) == summed(asked, "global", kind)
