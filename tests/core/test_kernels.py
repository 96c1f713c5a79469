"""Every example's kernel, run on the emulator: the emitted text against exact integers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import gemmdsl
from gemmdsl.emulator.run import run
from tests import examples

# Tile edges, nothing to do in one axis or another, every number of K tiles, and the fast path.
SHAPES = ((1, 1, 1), (0, 5, 3), (5, 4, 0), (33, 65, 17), (130, 127, 129))


def _integers(random: np.random.Generator, rows: int, cols: int) -> NDArray[np.float32]:
    return random.integers(-8, 9, (rows, cols)).astype(np.float32)


def _check(file: str, schedule: str, shape: tuple[int, int, int], pads: tuple[int, int, int]) -> None:
    kernel = examples.kernel(file, schedule)
    m, n, k = shape
    problem = kernel.spec.problem
    random = np.random.default_rng(m * 10007 + n * 101 + k)
    a, b, c = _integers(random, m, k), _integers(random, k, n), _integers(random, m, n)
    extents = {"M": m, "N": n, "K": k}
    lda, ldb, ldc = (
        max(1, extents[operand.contiguous]) + pad
        for operand, pad in zip((problem.a, problem.b, problem.c), pads, strict=True)
    )
    alpha, beta = (2.0 if problem.alpha else 1.0), (-3.0 if problem.beta else 0.0)
    result = run(kernel.cuda, a, b, c, alpha, beta, lda=lda, ldb=ldb, ldc=ldc)
    expected = alpha * (a.astype(np.float64) @ b) + beta * c
    np.testing.assert_array_equal(result, expected)


def _legal(file: str, schedule: str, shape: tuple[int, int, int], pads: tuple[int, int, int]) -> bool:
    """Whether the schedule's own assumptions allow this case."""
    kernel = examples.kernel(file, schedule)
    problem = kernel.spec.problem
    sizes = dict(zip("MNK", shape, strict=True))
    for operand, pad in zip((problem.a, problem.b, problem.c), pads, strict=True):
        sizes[operand.name] = 0
        sizes[operand.ld] = max(1, sizes[operand.contiguous]) + pad
    return kernel.launch_plan.select(sizes) is not None


@pytest.mark.parametrize(("file", "schedule"), examples.schedules())
def test_right_for_every_size_and_leading_dimension(file: str, schedule: str) -> None:
    plan = examples.kernel(file, schedule).launch_plan
    full = (2 * plan.block_m, plan.block_n, 9 * max(1, examples.kernel(file, schedule).spec.schedule.block_k))
    checked = 0
    for shape in (*SHAPES, full):
        for pads in ((0, 0, 0), (3, 1, 2), (4, 8, 12)):
            if _legal(file, schedule, shape, pads):
                _check(file, schedule, shape, pads)
                checked += 1
    assert checked >= 1


@pytest.mark.parametrize(("file", "schedule"), examples.schedules())
def test_every_entry_point_gives_the_same_bits(file: str, schedule: str) -> None:
    kernel = examples.kernel(file, schedule)
    plan, problem = kernel.launch_plan, kernel.spec.problem
    random = np.random.default_rng(5)
    m, n, k = plan.block_m, 2 * plan.block_n, 9 * max(1, kernel.spec.schedule.block_k)
    a, b, c = (random.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (m, n)))
    beta = 0.5 if problem.beta else 0.0
    results = [run(kernel.cuda, a, b, c, 1.0, beta, entry=entry.name) for entry in plan.entries]
    for result in results[1:]:
        # On the emulator blocks add in a fixed order: no plan is left out.
        np.testing.assert_array_equal(result, results[0])
    exact = a.astype(np.float64) @ b + beta * c
    bound = (k + 2) * 2.0**-24 * (np.abs(a) @ np.abs(b) + abs(beta) * np.abs(c))
    assert np.all(np.abs(results[0] - exact) <= bound)


# Stores by element and copies of whole vectors find their places by different formulas in a swizzled tile.
SWIZZLED = """gemm 1
problem p {{ A: f32[M, K]  B: f32[K, N]  C: f32[M, N] = A @ B }}
schedule s for p on sm_80 {{
  block 80 x 64 x 16  warp 80 x 16  lanes 16 x 2  thread 5 x 8
  stage A {{ transpose }}
  stage B {{ vector 4 store vector 4 read vector 2 swizzle }}
  {buffers}
}}
"""


@pytest.mark.parametrize("buffers", ["", "buffers 2", "buffers 2 async", "buffers 2 async at 10 fragments 2"])
def test_swizzled_vectors_land_where_they_are_read(buffers: str) -> None:
    kernel = gemmdsl.loads(SWIZZLED.format(buffers=buffers)).compile()
    random = np.random.default_rng(2)
    for m, n, k in ((80, 64, 32), (80, 7, 17), (5, 64, 48)):
        a, b = _integers(random, m, k), _integers(random, k, n)
        np.testing.assert_array_equal(run(kernel.cuda, a, b), a.astype(np.float64) @ b)
