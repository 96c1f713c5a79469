"""Kernels of every kind compute what numpy computes."""

from __future__ import annotations

import numpy as np
import pytest

from gemmdsl.cuda_source import CudaSource
from gemmdsl.emulator.library import RunOptions, load
from gemmdsl.emulator.run import arguments_of, launch, run, store
from gemmdsl.reference import compare, integers, uniform
from tests.emulator.samples import NAIVE, PINGPONG, PIPELINE, SHARED_TILE

SHAPES = {
    "naive": [(1, 1, 1), (33, 65, 17), (5, 4, 0), (130, 127, 129)],
    "shared_tile": [(1, 1, 1), (33, 65, 17), (5, 4, 0), (15, 17, 16)],
    "pingpong": [(64, 32, 8), (128, 96, 40)],
    "pipeline": [(1, 1, 1), (33, 65, 17), (5, 4, 0), (31, 63, 49), (32, 64, 200), (70, 5, 96)],
}
CASES = [
    pytest.param(source, shape, id=f"{source.plan.launcher}-{'x'.join(map(str, shape))}")
    for source in (NAIVE, SHARED_TILE, PINGPONG, PIPELINE)
    for shape in SHAPES[source.plan.launcher]
]


def scalars(source: CudaSource) -> list[tuple[float, float]]:
    return [(1, 0), (-2, 3), (0, 1)] if source.problem.beta else [(1, 0)]


@pytest.mark.parametrize(("source", "shape"), CASES)
def test_integers_are_exact_and_nothing_stray_is_touched(
    source: CudaSource, shape: tuple[int, int, int]
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m * n + k)
    a, b, c = integers(rng, m, k), integers(rng, k, n), integers(rng, m, n)
    for alpha, beta in scalars(source):
        # Distinct leading dimensions with padding; multiples of 4 for the kernels that copy vectors.
        row_a, row_b, row_c = (max(1, m), n, n) if source is SHARED_TILE else (k, n, n)
        lda, ldb, ldc = (4 * (-(-width // 4)) + pad for width, pad in ((row_a, 4), (row_b, 8), (row_c, 12)))
        stored = store(source, m, n, k, lda=lda, ldb=ldb, ldc=ldc)
        stored["A"].fill(a)
        stored["B"].fill(b)
        if beta:
            stored["C"].fill(c)
        launched = launch(source, arguments_of(stored, m, n, k), alpha, beta)
        verdict = compare(source.problem, stored["C"].matrix, a, b, c, alpha, beta, exact=True)
        assert verdict.ok, verdict
        assert all(matrix.stray_writes() == "" for matrix in stored.values())
        assert launched.entry == source.plan.entries[0]


@pytest.mark.parametrize("source", [NAIVE, PIPELINE], ids=lambda source: source.plan.launcher)
def test_full_precision_stays_within_the_bound(source: CudaSource) -> None:
    rng = np.random.default_rng(7)
    a, b, c = uniform(rng, 33, 68), uniform(rng, 68, 40), uniform(rng, 33, 40)
    verdict = compare(source.problem, run(source, a, b, c, 0.7, 1.3), a, b, c, 0.7, 1.3)
    assert verdict.ok
    assert verdict.max_error > 0
    assert not verdict.drift


@pytest.mark.parametrize("source", [SHARED_TILE, PINGPONG, PIPELINE], ids=lambda source: source.plan.launcher)
def test_bits_do_not_depend_on_the_order_of_threads(source: CudaSource) -> None:
    rng = np.random.default_rng(3)
    a, b = uniform(rng, 64, 160), uniform(rng, 160, 96)
    want = run(source, a, b).tobytes()
    assert run(source, a, b, order="reversed").tobytes() == want
    for seed in (1, 2):
        assert run(source, a, b, order="seeded", seed=seed).tobytes() == want
    assert run(source, a, b, async_landing="early").tobytes() == want


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_any_number_of_blocks_may_run_at_once(workers: int) -> None:
    m, n, k = 100, 90, 60
    rng = np.random.default_rng(5)
    a, b = integers(rng, m, k), integers(rng, k, n)
    stored = store(PIPELINE, m, n, k, lda=64, ldb=92, ldc=90)
    stored["A"].fill(a)
    stored["B"].fill(b)
    launch(PIPELINE, arguments_of(stored, m, n, k), options=RunOptions(workers=workers))
    assert compare(PIPELINE.problem, stored["C"].matrix, a, b, exact=True).ok


def test_operands_may_have_any_strides_and_types() -> None:
    a = np.arange(60, dtype=np.int64).reshape(10, 6)[::-2, ::2]
    b = np.arange(12, dtype=np.float64).reshape(4, 3).T
    np.testing.assert_array_equal(run(NAIVE, a, b), a @ b)


def test_the_fused_operation_rounds_once() -> None:
    # 1 - (1 + u)(1 - u) is u^2: nothing is left of it if the product is rounded.
    u = np.float32(2.0**-20)
    result = run(NAIVE, [[1, 1 + u]], [[1], [-(1 - u)]])
    assert result[0, 0] == u * u


def test_the_text_may_use_other_names_for_its_shared_array() -> None:
    text = PIPELINE.text.replace("shared_memory", "smem").replace(
        "extern __shared__ float4 smem",
        "// extern __shared__ int decoy[];\n    extern __shared__ __align__(16) float4 smem",
    )
    source = CudaSource(PIPELINE.problem, PIPELINE.target, text, "", "", PIPELINE.plan)
    a, b = np.eye(16), np.ones((16, 16))
    np.testing.assert_array_equal(run(source, a, b), b)


def test_a_kernel_stays_open_for_the_next_call() -> None:
    assert load(NAIVE) is load(NAIVE)
