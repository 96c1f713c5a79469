"""What the models say of kernels whose blocks share K, against the same kernel without parts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

import gemmdsl
from gemmdsl.analysis.access import Access, Count, summed
from gemmdsl.analysis.lines import source_map
from gemmdsl.analysis.roofline import waves
from gemmdsl.analysis.shape import part_tiles, tight
from gemmdsl.analysis.written import written
from gemmdsl.emit import emit
from gemmdsl.ir import Kernel
from gemmdsl.occupancy import occupancy
from gemmdsl.passes import steps

TEXT = """gemm 1
problem p {{ A: f32[M, K]  B: f32[K, N]  C: f32[M, N]{order} = A @ B }}
schedule s for p on sm_90 {{
  block 32 x 64 x 8 thread 4 x 8 stage A {{ transpose }} stage B {{ vector 4 }} store C {{ vector 4 }}
  buffers 2 fragments 2 {words}
}}
"""
ATOMIC, APART = "split_k 3 atomic", "split_k 3"


@cache
def kernel(words: str, order: str = "", target: str | None = None) -> Kernel:
    return steps(gemmdsl.loads(TEXT.format(words=words, order=order)).spec("s", target))[-1].kernel


def accesses(
    words: str, m: int, n: int, k: int, order: str = "", target: str | None = None
) -> tuple[Access, ...]:
    found = kernel(words, order, target)
    text = emit(found, ()).text
    return written(found, tight(found.spec.problem, m, n, k), source_map(text))


@pytest.mark.parametrize("k", [0, 1, 9, 16, 24, 61, 80])
def test_parts_walk_all_tiles_of_k(k: int) -> None:
    shape = tight(kernel(ATOMIC).spec.problem, 40, 70, k)
    tiles = part_tiles(kernel(ATOMIC), shape)
    assert len(tiles) == 3
    assert sum(tiles) == -(-k // 8)
    assert part_tiles(kernel(""), shape) == (sum(tiles),)


@pytest.mark.parametrize("order", ["", " col"])
@pytest.mark.parametrize("sizes", [(64, 128, 80), (40, 70, 61)])
def test_inputs_are_read_as_often_as_without_parts(sizes: tuple[int, int, int], order: str) -> None:
    whole = accesses("", *sizes, order)
    for words in (ATOMIC, APART):
        parts = accesses(words, *sizes, order)
        for name in ("A", "B"):
            for one in (whole, parts):
                assert all(access.line for access in one)
            assert summed([a for a in parts if a.operand == name], "global", "load", None) == summed(
                [a for a in whole if a.operand == name], "global", "load", None
            )


@pytest.mark.parametrize("sizes", [(64, 128, 80), (40, 70, 61), (40, 70, 9)])
def test_each_part_that_is_not_empty_is_added_as_c_is_stored(sizes: tuple[int, int, int]) -> None:
    stored = summed(accesses("", *sizes), "global", "store")
    added = accesses(ATOMIC, *sizes)
    assert summed(added, "global", "store") == Count()
    assert summed(added, "global", "add") == stored * min(3, -(-sizes[2] // 8))
    assert {access.function for access in added if access.kind == "add"} == {"add_c"}


def test_vectors_are_added_word_by_word_where_no_instruction_adds_them() -> None:
    vectors, words = (
        [access for access in accesses(ATOMIC, 64, 128, 80, target=target) if access.kind == "add"]
        for target in ("sm_90", "sm_75")
    )
    assert [access.width for access in (*vectors, *words)] == [16, 4]
    assert words[0].total.requests == 4 * vectors[0].total.requests
    assert words[0].total.cost == 4 * vectors[0].total.cost
    # What is stored is stored in vectors there, too.
    stores = [access for access in accesses("", 64, 128, 80, target="sm_75") if access.operand == "C"]
    assert [access.width for access in stores] == [16]


def test_parts_apart_are_stored_in_whole_vectors() -> None:
    """Whatever C's leading dimension: lines of a part are multiples of a vector."""
    stored = [a for a in accesses(APART, 40, 70, 9) if a.operand == "C"]
    assert {access.function for access in stored} == {"store_part"}
    assert {access.width for access in stored} == {4, 16}
    # 70 columns are 17 vectors and 2 single floats.
    wide = summed([a for a in stored if a.width == 16], "global", "store")
    assert wide.ideal >= 3 * 40 * 68 * 4 / 32


def test_waves_count_blocks_that_have_something_to_do() -> None:
    found = kernel(ATOMIC)
    resident = occupancy(found.spec.target, 64, 64, found.shared_bytes)
    for k, busy in ((80, 3), (16, 2), (1, 1), (0, 0)):
        assert waves(found, tight(found.spec.problem, 64, 128, k), resident).blocks == 4 * busy


@pytest.mark.parametrize("sizes", [(64, 128, 80), (300, 1000, 4096), (40, 70, 9), (0, 70, 9), (40, 70, 0)])
@pytest.mark.parametrize("order", ["", "raster 2", "raster 4 along N", "raster 64 along N"])
@pytest.mark.parametrize("per_sm", [1, 16])
def test_the_first_wave_goes_through_tiles_and_then_through_parts(
    sizes: tuple[int, int, int], order: str, per_sm: int
) -> None:
    """As the hardware hands out blocks: along the first axis of the grid, then along the second."""
    found, whole = kernel(f"split_k 3 {order}"), kernel(order)
    shape = tight(found.spec.problem, *sizes)
    resident = replace(occupancy(found.spec.target, 64, 64, found.shared_bytes), blocks=per_sm)
    filled, alone = waves(found, shape, resident), waves(whole, shape, resident)
    tiles, running = alone.blocks, min(filled.blocks, filled.resident)
    assert filled.blocks == tiles * min(3, -(-sizes[2] // 8))
    assert filled.parts == max(1, -(-running // max(1, tiles)))
    if running:
        # The first part is walked as all of K would be, with as many blocks as run.
        assert (filled.rows, filled.cols) == (alone.rows, alone.cols)
        assert filled.rows <= -(-sizes[0] // 32)
        assert filled.cols <= -(-sizes[1] // 64)
