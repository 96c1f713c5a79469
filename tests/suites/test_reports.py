"""Mistakes that users of other GEMM kernels have reported: each one, and others of its kind, as a test."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gemmdsl
from gemmdsl.api import CompiledKernel
from gemmdsl.emulator.checker import SANITIZERS
from gemmdsl.reference import compare
from gemmdsl.testing import run_case
from gemmdsl.testing.case import make_case

LADDER = Path(__file__).parents[2] / "examples" / "ladder.gemm"
PROBLEM = "gemm 1 problem p {{ A: f32[M, K] {a} B: f32[K, N] {b} C: f32[M, N] = alpha * A @ B + beta * C }}"


@cache
def ladder(schedule: str) -> CompiledKernel:
    return gemmdsl.load(LADDER).compile(schedule)


@cache
def compiled(words: str, a: str = "row", b: str = "row", target: str = "sm_80") -> CompiledKernel:
    text = f"{PROBLEM.format(a='' if a == 'row' else a, b='' if b == 'row' else b)}"
    return gemmdsl.loads(f"{text} schedule s for p on {target} {{ {words} }}").compile()


def check(kernel: CompiledKernel, m: int, n: int, k: int, checked: bool = True, **parts: Any) -> None:
    """The kernel is right for a shape, for operands compared exactly and for ones that tell their places."""
    for operands in ("integers", "pick-a", "pick-b"):
        case = make_case(kernel.spec.problem, m, n, k, operands=operands, **parts)
        outcome = run_case(kernel.cuda, case, sanitize=SANITIZERS if checked else ())
        assert outcome.ok, f"{case}: {outcome.findings}"


@pytest.mark.parametrize("schedule", gemmdsl.load(LADDER).schedules)
@pytest.mark.parametrize("shape", [(100, 100, 100), (35, 79, 19), (3, 3, 431)])
def test_sizes_that_no_tile_divides(schedule: str, shape: tuple[int, int, int]) -> None:
    check(ladder(schedule), *shape, checked=False)


def test_the_last_of_thirty_thousand_rows() -> None:
    check(ladder("v3_2"), 30000, 64, 64, checked=False)


@pytest.mark.parametrize("schedule", ["v0_naive", "v1_shared", "v2_8x8_padded", "v3_2", "v5_async"])
def test_leading_dimensions_are_not_mixed_up(schedule: str) -> None:
    check(ladder(schedule), 256, 128, 256, checked=False, lda=264, ldb=140, ldc=132, beta=1.0)


@pytest.mark.parametrize("schedule", ["v3", "v3_2", "v4_warps", "v5_async"])
@pytest.mark.parametrize(("n", "ld"), [(239, 240), (1953, 1953), (1953, 1955), (61, 64)])
def test_widths_and_strides_that_vectors_do_not_divide(schedule: str, n: int, ld: int) -> None:
    check(ladder(schedule), 9, n, 17, ldb=ld, ldc=ld)


@pytest.mark.parametrize("shape", [(17, 16, 16), (16, 16, 17), (17, 32, 15), (15, 20, 19), (1, 4, 5)])
@pytest.mark.parametrize("offset", [0, 1, 2])
def test_odd_rows_and_depths_with_copies_of_sixteen_bytes(shape: tuple[int, int, int], offset: int) -> None:
    words = "block 16 x 16 x 8 thread 4 x 4 stage A { vector 4 pad 4 } stage B { vector 4 } buffers 3 async"
    check(compiled(words), *shape, offset_a=offset, offset_b=offset, offset_c=offset)


@pytest.mark.parametrize("n", [7, 11, 15])
@pytest.mark.parametrize(("a", "b"), [("row", "col"), ("col", "row"), ("row", "row"), ("col", "col")])
def test_layouts_that_differ(a: str, b: str, n: int) -> None:
    check(compiled("block 16 x 8 x 4 thread 2 x 2", a, b), n, n, n)
    check(compiled("block 16 x 8 x 4 thread 2 x 2 buffers 3 async", a, b), n, n + 2, n + 1)


@pytest.mark.parametrize("k", [1, 8, 15, 16, 17, 23, 24, 25, 40, 47, 48, 49])
def test_a_k_tile_of_twenty_four(k: int) -> None:
    vectors = "stage A { vector 4 transpose } stage B { vector 4 }"
    check(compiled(f"block 16 x 16 x 24 thread 4 x 2 {vectors} buffers 2"), 16, 16, k)


@pytest.mark.parametrize("n", [95, 96, 97, 103, 104, 105])
def test_twelve_warps_write_every_column(n: int) -> None:
    twelve = "warp 16 x 8 lanes 8 x 4 thread 2 x 2"
    check(compiled(f"block 48 x 32 x 4 {twelve}"), 48, n, 9)
    check(compiled(f"block 32 x 48 x 4 {twelve}"), 33, n, 9)
    check(compiled("block 8 x 104 x 4 thread 2 x 2"), 8, n, 9)


def test_a_block_that_its_warps_do_not_divide_is_refused() -> None:
    with pytest.raises(gemmdsl.GemmError, match="G206"):
        compiled("block 48 x 104 x 4 warp 16 x 16 lanes 8 x 4 thread 2 x 4")


@pytest.mark.parametrize(
    "words",
    [
        "block 64 x 32 x 16 thread 4 x 2 stage A { vector 4 }",
        "block 64 x 64 x 16 thread 4 x 2 stage A { vector 4 }",
        "block 32 x 64 x 8 thread 2 x 4 stage A { vector 4 } stage B { vector 4 }",
        "block 16 x 16 x 2 stage A { vector 2 } buffers 2",
    ],
)
def test_more_threads_than_a_tile_has_vectors(words: str) -> None:
    check(compiled(words), 65, 33, 17)
    check(compiled(words), 64, 64, 16)


def test_padding_beyond_the_shared_memory_of_the_target_is_refused() -> None:
    # 64 KiB to the byte on sm_75: two buffers of (128 + 128) x 32 floats.
    full = "block 128 x 128 x 32 thread 8 x 8 stage A { transpose } buffers 2"
    assert compiled(full, target="sm_75").launch_plan.dynamic_shared_bytes == 65536
    with pytest.raises(gemmdsl.GemmError, match="G502"):
        compiled(full.replace("transpose", "transpose pad 1"), target="sm_75")


@pytest.mark.parametrize("buffers", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("landing", ["late", "early"])
def test_pipelines_with_few_k_tiles(buffers: int, landing: str) -> None:
    kernel = compiled(f"block 8 x 8 x 4 thread 2 x 2 buffers {buffers} async")
    for tiles in range(buffers + 3):
        for off in (-1, 0, 1):
            check(kernel, 9, 8, max(0, 4 * tiles + off), landing=landing)


@pytest.mark.parametrize("k", range(14))
def test_one_k_tile_and_a_prefetch(k: int) -> None:
    check(compiled("block 8 x 8 x 4 thread 2 x 2 buffers 2"), 9, 8, k)
    check(compiled("block 8 x 8 x 4 thread 2 x 2 buffers 3 async"), 9, 8, k)


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("columns", [1, 2, 3, 5, 7])
def test_any_number_of_block_rows_and_columns(rows: int, columns: int) -> None:
    check(compiled("block 8 x 4 x 4 thread 2 x 2"), 8 * rows, 4 * columns, 3)
    check(compiled("block 8 x 4 x 4 thread 2 x 2"), 8 * rows - 3, 4 * columns - 1, 3)


@pytest.mark.parametrize("schedule", gemmdsl.load(LADDER).schedules)
@pytest.mark.parametrize("shape", [(130, 129, 9), (1, 127, 3), (129, 1, 0)])
def test_beta_zero_ignores_nan_in_edge_tiles(schedule: str, shape: tuple[int, int, int]) -> None:
    # C is NaN before the run; integers are compared exactly, so that none is left.
    check(ladder(schedule), *shape, checked=False, beta=0.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_comparison_never_lets_nan_pass(bad: float) -> None:
    problem = ladder("v3").spec.problem
    a = b = np.ones((3, 3), np.float32)
    for row, column in ((0, 0), (1, 2), (2, 2)):
        result = (a @ b).astype(np.float32)
        assert compare(problem, result, a, b).ok
        result[row, column] = bad
        for exact in (False, True):
            verdict = compare(problem, result, a, b, exact=exact)
            assert not verdict.ok
            assert verdict.where == (row, column)
    assert not compare(problem, np.full((3, 3), np.nan, np.float32), a, b).ok


@pytest.mark.parametrize("n", [1, 3, 4])
def test_loads_wider_than_the_stores_that_follow(n: int) -> None:
    # Registers written as one vector type and read as another are two arrays to an optimising compiler.
    text = PROBLEM.format(a="", b="col").replace("alpha * A @ B + beta * C", "A @ B")
    words = "block 12 x 3 x 4 thread 3 x 3 stage B { load vector 4 store vector 2 }"
    kernel = gemmdsl.loads(f"{text} schedule s for p on sm_80 {{ {words} }}").compile()
    check(kernel, 1, n, 5, checked=False, ldb=12)


@pytest.mark.parametrize(
    "words",
    [
        # Asynchronous stores wider than the reads.
        "block 16 x 8 x 4 thread 4 x 2 stage B { vector 4 pad 4 } buffers 3 async",
        # An assumption about an operand that is not staged.
        "block 8 x 8 thread 2 x 2 assume aligned A assume aligned B",
    ],
)
def test_schedules_that_drawn_ones_have_shown_to_break_the_emitter(words: str) -> None:
    check(compiled(words), 17, 9, 13)
