"""The oracle itself: it must see what it is there to see."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import numpy as np
import pytest

from gemmdsl.cuda_source import Parts
from gemmdsl.reference import (
    POISON,
    InexactError,
    StoredMatrix,
    compare,
    compare_bytes,
    error_bound,
    gemm_reference,
    integers,
    uniform,
)
from gemmdsl.spec import Operand, Order
from gemmdsl.testing.case import OPERANDS, OperandsKind, make_case
from gemmdsl.testing.operands import draw
from tests.emulator.samples import PLAIN_TN, SGEMM

A = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
B = np.array([[5.0, 6.0], [7.0, 8.0]], np.float32)
C = np.array([[1.0, 1.0], [1.0, 1.0]], np.float32)
NAN = np.full((2, 2), np.nan, np.float32)
PRODUCT = A @ B


def test_the_reference_reads_only_what_a_kernel_may_read() -> None:
    np.testing.assert_array_equal(gemm_reference(SGEMM, A, B, NAN, 2, 0), 2 * PRODUCT)
    np.testing.assert_array_equal(gemm_reference(SGEMM, NAN, NAN, C, 0, 3), 3 * C)
    np.testing.assert_array_equal(gemm_reference(SGEMM, A[:, :0], B[:0], C, 1, 1), C)
    assert np.isnan(gemm_reference(SGEMM, A, B, NAN, 1, 1)).all()


@pytest.mark.parametrize("alpha", [np.nan, np.inf, 0.3, 1e300])
def test_alpha_multiplies_nothing_when_there_is_no_product(alpha: float) -> None:
    a, b = A[:, :0], B[:0]
    np.testing.assert_array_equal(gemm_reference(SGEMM, a, b, C, alpha, 3), 3 * C)
    for exact in (True, False):
        assert compare(SGEMM, 3 * C, a, b, C, alpha, 3, exact=exact).ok
        assert not compare(SGEMM, 4 * C, a, b, C, alpha, 3, exact=exact).ok
        assert not compare(SGEMM, NAN, a, b, C, alpha, 3, exact=exact).ok


def test_scalars_are_those_that_fp32_holds() -> None:
    np.testing.assert_array_equal(gemm_reference(SGEMM, NAN, NAN, NAN, 1e-60, -1e-60), 0 * C)
    assert compare(SGEMM, 0 * C, NAN, NAN, NAN, 1e-60, -1e-60, exact=True).ok
    assert (gemm_reference(SGEMM, A, B, alpha=1e300) == np.inf).all()
    np.testing.assert_array_equal(
        gemm_reference(SGEMM, A, B, alpha=0.1), np.float64(np.float32(0.1)) * PRODUCT
    )


def test_scalars_of_another_problem_are_refused() -> None:
    with pytest.raises(ValueError, match="has no alpha"):
        gemm_reference(PLAIN_TN, A, B, alpha=2)
    with pytest.raises(ValueError, match="has no beta"):
        gemm_reference(PLAIN_TN, A, B, C, beta=1)


def test_one_wrong_element_is_found_and_located() -> None:
    result = PRODUCT.copy()
    result[1, 0] += 1
    verdict = compare(SGEMM, result, A, B, exact=True)
    assert (verdict.ok, verdict.wrong, verdict.where) == (False, 1, (1, 0))
    assert str(verdict) == "1 element wrong, worst C[1, 0] = 44 where 43 is right"


def test_a_missing_product_is_found_among_many() -> None:
    # The worst-case bound would let it pass: 5,000 products, one of which is missing.
    a, b = np.ones((1, 5000), np.float32), np.ones((5000, 1), np.float32)
    result = np.array([[4999.0]], np.float32)
    assert compare(SGEMM, result, a, b).ok
    assert compare(SGEMM, result, a, b).drift
    assert not compare(SGEMM, result, a, b, exact=True).ok


@pytest.mark.parametrize("exact", [True, False])
def test_nan_equals_nan_alone(exact: bool) -> None:
    for bad in (np.nan, np.inf, -np.inf):
        result = PRODUCT.copy()
        result[0, 1] = bad
        verdict = compare(SGEMM, result, A, B, exact=exact)
        assert (verdict.wrong, verdict.where) == (1, (0, 1))
    propagated = A.copy()
    propagated[0, 0] = np.nan
    right = PRODUCT.copy()
    right[0] = np.nan
    assert compare(SGEMM, right, propagated, B).ok
    assert compare(SGEMM, PRODUCT, propagated, B).wrong == 2


def test_infinities_have_a_sign() -> None:
    big = np.array([[3e38]], np.float32)
    infinite, two = np.array([[np.inf]], np.float32), np.array([[2.0]], np.float32)
    assert compare(SGEMM, infinite, big, two).ok
    assert not compare(SGEMM, -infinite, big, two).ok
    assert not compare(SGEMM, infinite, two, two).ok
    assert compare(SGEMM, infinite, infinite, two).ok


def test_rounding_stays_within_the_bound_and_its_double_does_not() -> None:
    rng = np.random.default_rng(0)
    a, b = uniform(rng, 20, 300), uniform(rng, 300, 30)
    result = a @ b
    assert compare(SGEMM, result, a, b).ok
    bound = error_bound(a, b)
    spoiled = (gemm_reference(SGEMM, a, b) + 2 * bound).astype(np.float32)
    assert compare(SGEMM, spoiled, a, b).wrong == spoiled.size


def test_what_counts_as_nought_may_be_lost_where_it_is_said() -> None:
    tiny = np.full((1, 3), 1e-20, np.float32)
    lost = np.zeros((1, 1), np.float32)
    assert not compare(SGEMM, lost, tiny, tiny.T).ok
    assert compare(SGEMM, lost, tiny, tiny.T, flushed=True).ok
    assert not compare(SGEMM, lost, tiny * 1e3, tiny.T, flushed=True).ok


@pytest.mark.parametrize("k", [1, 2, 5, 33, 200])
def test_sums_of_parts_stay_within_the_bound(k: int) -> None:
    """With as many parts as the bound has least room for."""
    rng = np.random.default_rng(k)
    a, b, c = uniform(rng, 8, k), uniform(rng, k, 8), uniform(rng, 8, 8)
    for parts in range(1, min(k, 12) + 1):
        total = np.float32(0.7) * c
        for columns in np.array_split(np.arange(k), parts):
            part = np.zeros((8, 8), np.float32)
            for at in columns:
                part = (part + a[:, at : at + 1].astype(np.float64) * b[at]).astype(np.float32)
            total = total + np.float32(1.3) * part
        assert compare(SGEMM, total, a, b, c, 1.3, 0.7).ok


def test_an_infinite_alpha_multiplies_each_part_for_itself() -> None:
    a = np.array([[1, -1, 2], [1, 1, 2], [3, -1, -1]], np.float32)
    b = np.ones((3, 1), np.float32)
    whole = gemm_reference(SGEMM, a, b, alpha=np.inf)
    assert np.array_equal(whole, [[np.inf], [np.inf], [np.inf]])
    shared = gemm_reference(SGEMM, a, b, alpha=np.inf, parts=(2, 3))
    assert np.array_equal(shared, [[np.nan], [np.inf], [np.nan]], equal_nan=True)
    assert np.array_equal(gemm_reference(SGEMM, a, b, alpha=2.0, parts=(2, 3)), 2 * a @ b)


def test_parts_end_where_the_blocks_of_a_kernel_do() -> None:
    assert Parts(3, 4, True).ends(0) == ()
    assert Parts(3, 4, True).ends(3) == (3,)
    assert Parts(3, 4, True).ends(9) == (4, 8, 9)
    assert Parts(3, 4, True).ends(17) == (8, 16, 17)
    assert Parts(3, 4, True).ends(24) == (8, 16, 24)


def test_exactness_is_not_taken_for_granted() -> None:
    with pytest.raises(InexactError, match="integers"):
        compare(SGEMM, PRODUCT, A + 0.5, B, exact=True)
    with pytest.raises(InexactError, match="16777216"):
        compare(SGEMM, PRODUCT, A * 2**22, B, exact=True)
    # What is not read need not be an integer.
    assert compare(SGEMM, PRODUCT, A, B, NAN, exact=True).ok


def test_nothing_to_compare() -> None:
    assert compare(SGEMM, PRODUCT[:0], A[:0], B, exact=True).ok
    with pytest.raises(ValueError, match="shape"):
        compare(SGEMM, PRODUCT[:1], A, B)


@pytest.mark.parametrize("shape", [(300, 500, 1), (20, 20, 9000), (2000, 1, 300)])
@pytest.mark.parametrize("kind", OPERANDS)
def test_no_more_memory_is_taken_than_was_said(shape: tuple[int, int, int], kind: OperandsKind) -> None:
    m, n, k = shape
    case = make_case(SGEMM, *shape, operands=kind)
    tracemalloc.start()
    try:
        a, b, c = draw(case)
        own = 4 * (m * k + k * n + m * n)
        # Beside the operands, some thousands of elements at a time; of special ones, two matrices as large.
        assert tracemalloc.get_traced_memory()[1] < (3 if kind == "special" else 1) * own + 2**21
        for exact in (True, False):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with suppress(InexactError):
                compare(SGEMM, c, a, b, c, 2, 1, exact=exact)
            assert tracemalloc.get_traced_memory()[1] - before <= compare_bytes(m, n, k)
    finally:
        tracemalloc.stop()


def test_drawn_integers_keep_to_their_range() -> None:
    drawn = integers(np.random.default_rng(0), 50, 50)
    assert (drawn.min(), drawn.max()) == (-8, 8)


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("offset", [0, 1, 3])
def test_stored_matrices_are_laid_out_as_asked(order: Order, offset: int) -> None:
    operand = Operand("A", "M", "K", order)
    stored = StoredMatrix(operand, 3, 5, ld=7, offset=offset).fill(np.arange(15).reshape(3, 5))
    assert (stored.address - 4 * offset) % 256 == 0
    first = (stored.address - stored.buffer.ctypes.data) // 4
    words = stored.buffer.view(np.float32)
    row, column = (7, 1) if order is Order.ROW else (1, 7)
    assert all(words[first + i * row + j * column] == 5 * i + j for i in range(3) for j in range(5))
    assert np.count_nonzero(stored.buffer != POISON) == 15
    assert np.isnan(words[first - 1])


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (-2, "1 word written outside A, the first 2 elements before A"),
        (6, "1 word written outside A, the first in the padding of A's row 0"),
        (7 + 5, "1 word written outside A, the first in the padding of A's row 1"),
        (14 + 5, "1 word written outside A, the first at element 19, behind the end of A"),
    ],
)
def test_stray_writes_are_located(where: int, message: str) -> None:
    stored = StoredMatrix(Operand("A", "M", "K", Order.ROW), 3, 5, ld=7).fill(np.zeros((3, 5)))
    assert stored.stray_writes() == ""
    stored.buffer[(stored.address - stored.buffer.ctypes.data) // 4 + where] = 0
    assert stored.stray_writes() == message


def test_empty_matrices_are_all_guard() -> None:
    stored = StoredMatrix(Operand("A", "M", "K", Order.ROW), 0, 5)
    assert stored.matrix.shape == (0, 5)
    assert stored.stray_writes() == ""
    stored.buffer[0] = 0
    assert "before A" in stored.stray_writes()
