"""The oracle: what numpy says a kernel must compute, operands that show a stray access, and verdicts.

Everything is in logical shapes: A is (M, K), B is (K, N), C is (M, N), whatever their order in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from gemmdsl.spec import Operand, Order, Problem

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

# A quiet NaN with a payload of our own: what it spreads to is no number, and a changed one is seen.
POISON = np.uint32(0x7FC5_A5A5)
_GUARD = 64
_BASE_ALIGNMENT = 256
_UNIT_ROUNDOFF = 2.0**-24
_HALF_LEAST_SUBNORMAL = 2.0**-150
_LEAST_NORMAL = 2.0**-126
_DRIFT_SIGMAS = 6.0
# Elements that are drawn in a wider type at a time.
_PIECE = 1 << 16
# Bytes that `compare` takes for an element of A or B, and of C, beside the arrays that it is given.
_COMPARED_BYTES = (16, 72)


class InexactError(ValueError):
    """Operands of an exact comparison whose sums FP32 cannot hold."""


class StoredMatrix:
    """A matrix in memory as a kernel sees it: order, leading dimension, offset, poison all around.

    The padding behind each row (or column) and 64 elements before and after hold `POISON`.
    """

    def __init__(
        self, operand: Operand, rows: int, cols: int, *, ld: int | None = None, offset: int = 0
    ) -> None:
        """Room for rows x cols elements, all poisoned.

        `ld` defaults to the least legal one.  `offset` is the first element's distance, in elements, from
        an address that is a multiple of 256 bytes.
        """
        long, short = (rows, cols) if operand.order is Order.ROW else (cols, rows)
        self.operand = operand
        self.ld = max(1, short) if ld is None else ld
        self._shape = (rows, cols)
        # With a leading dimension that the launcher will refuse, rows overlap; the memory must still exist.
        extent = max(0, long - 1) * max(self.ld, short) + short if long and short else 0
        slack = _BASE_ALIGNMENT // 4
        self.buffer = np.full(extent + offset + 2 * _GUARD + slack, POISON, np.uint32)
        start = -(-(self.buffer.ctypes.data + 4 * _GUARD) // _BASE_ALIGNMENT) * _BASE_ALIGNMENT
        self._first = (start - self.buffer.ctypes.data) // 4 + offset
        rest = self.buffer[self._first :].view(np.float32)
        stored = np.lib.stride_tricks.as_strided(rest, (long, short), (4 * self.ld, 4))
        self.matrix: Floats = stored if operand.order is Order.ROW else stored.T

    @property
    def address(self) -> int:
        return int(self.buffer.ctypes.data) + 4 * self._first

    def fill(self, values: NDArray[np.generic]) -> StoredMatrix:
        """Store a rows x cols array; returns self."""
        self.matrix[...] = values
        return self

    def stray_writes(self) -> str:
        """The first poisoned word that somebody changed, in words; "" when there is none."""
        touched = self.buffer != POISON
        own = touched[self._first :]
        long, short = self._shape if self.operand.order is Order.ROW else self._shape[::-1]
        if long and short:
            np.lib.stride_tricks.as_strided(own, (long, short), (self.ld, 1))[...] = False
        found = np.flatnonzero(touched)
        if not found.size:
            return ""
        where = int(found[0]) - self._first
        name = self.operand.name
        if where < 0:
            place = f"{-where} elements before {name}"
        elif not (long and short) or where >= (long - 1) * self.ld + short:
            place = f"at element {where}, behind the end of {name}"
        else:
            lines = "row" if self.operand.order is Order.ROW else "column"
            place = f"in the padding of {name}'s {lines} {where // self.ld}"
        return f"{found.size} word{'s' * (found.size > 1)} written outside {name}, the first {place}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a result compares with the reference.

    `max_error` is the largest absolute error and `max_ratio` the largest error over its bound, at `where`
    (row, column) with the values `got` and `want`; `wrong` counts the elements beyond their bound, a NaN
    that only one side has among them.  `drift` says that errors are within the worst case but larger than
    rounding errors that average out would be.
    """

    wrong: int
    max_error: float
    max_ratio: float
    where: tuple[int, int] | None
    got: float
    want: float
    drift: bool = False

    @property
    def ok(self) -> bool:
        return self.wrong == 0

    def __str__(self) -> str:
        if self.where is None:
            return "nothing to compare"
        if self.ok:
            if not self.max_error:
                return "no rounding error at all"
            return f"largest error {self.max_error:.3g}; {self.max_ratio:.2g} of what rounding may add up to"
        elements = f"{self.wrong} element{'s' * (self.wrong > 1)}"
        row, column = self.where
        return f"{elements} wrong, worst C[{row}, {column}] = {self.got:.9g} where {self.want:.9g} is right"


def gemm_reference(
    problem: Problem,
    a: NDArray[np.floating],
    b: NDArray[np.floating],
    c: NDArray[np.floating] | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    *,
    parts: Sequence[int] = (),
) -> Doubles:
    """C = alpha * A @ B + beta * C in float64.

    `parts` are the ends of parts of K, the last one K itself, whose products are multiplied by alpha each for
    itself: with an infinite alpha a part of 0 is a NaN, and so are two of different signs together.
    Scalars are rounded to FP32 first.  The product, and so alpha, is left out when alpha or K is 0, and C is
    when beta is 0.  A scalar that the problem does not have must be neutral: 1 for alpha, 0 for beta.
    """
    _check_scalars(problem, alpha, beta)
    alpha, beta = _read_scalars(a, alpha, beta)
    result = np.zeros((a.shape[0], b.shape[1]))
    with np.errstate(all="ignore"):
        if alpha != 0:
            left, right = a.astype(np.float64), b.astype(np.float64)
            ends = (a.shape[1],) if isfinite(alpha) or not parts else parts
            for first, last in pairwise((0, *ends)):
                result += alpha * (left[:, first:last] @ right[first:last])
        if beta != 0 and c is not None:
            result = result + beta * c.astype(np.float64)
    return result


def error_bound(
    a: NDArray[np.floating],
    b: NDArray[np.floating],
    c: NDArray[np.floating] | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    *,
    flushed: bool = False,
) -> Doubles:
    """gamma_{K+2} (|alpha| |A||B| + |beta| |C|) per element, for any order of summation in FP32.

    It holds as well where K is summed in parts and alpha multiplies each of them: a product in a part of d
    takes part in d roundings, one of alpha and, with p parts that are not empty, p additions, and d + p is
    K + 1 at most.  Source: Higham, Accuracy and Stability of Numerical Algorithms, section 3.1;
    gamma_n = n u / (1 - n u).  The absolute term stands for results too small for full precision; with
    `flushed`, sums and addends that are below the least normal number may count as 0.
    """
    alpha, beta = _read_scalars(a, alpha, beta)
    steps = a.shape[1] + 2
    gamma = steps * _UNIT_ROUNDOFF / (1 - steps * _UNIT_ROUNDOFF)
    tiny = steps * _HALF_LEAST_SUBNORMAL * (1 + abs(alpha))
    if flushed:
        # Of each addition both addends and the sum.
        tiny += 3 * steps * _LEAST_NORMAL
    bound: Doubles = gamma * _magnitude(a, b, c, alpha, beta) + tiny
    return bound


def compare(
    problem: Problem,
    result: Floats,
    a: NDArray[np.floating],
    b: NDArray[np.floating],
    c: NDArray[np.floating] | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    *,
    exact: bool = False,
    flushed: bool = False,
    parts: Sequence[int] = (),
) -> Verdict:
    """Judge a kernel's result; `c` is what C held before, `flushed` as in `error_bound`, `parts` as in
    `gemm_reference`.

    With `exact`, operands and scalars are integers and every element must be equal; InexactError when they
    are not, or when a sum could leave the integers that FP32 holds.  NaN equals NaN alone.
    """
    want = gemm_reference(problem, a, b, c, alpha, beta, parts=parts)
    alpha, beta = _read_scalars(a, alpha, beta)
    if result.shape != want.shape:
        raise ValueError(f"the result has shape {result.shape}, and {want.shape} is right")
    bound = (
        _exact_bound(a, b, c, alpha, beta) if exact else error_bound(a, b, c, alpha, beta, flushed=flushed)
    )
    if not want.size:
        return Verdict(0, 0.0, 0.0, None, 0.0, 0.0)
    got = result.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(got - want)
        ratio = np.where(error == 0, 0.0, error / np.where(bound > 0, bound, np.finfo(np.float64).tiny))
        # Beyond the largest float only the infinity of the same sign is right; at its border both are.
        limit = float(np.finfo(np.float32).max)
        overflow = np.isinf(got) & (np.sign(got) == np.sign(want)) & (np.abs(want) + bound > limit)
    same = overflow | (got == want) | (np.isnan(got) & np.isnan(want))
    error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    ratio = np.where(same, 0.0, np.where(np.isnan(ratio), np.inf, ratio))
    worst = int(np.argmax(ratio))
    row, column = divmod(worst, want.shape[1])
    return Verdict(
        wrong=int(np.count_nonzero(ratio > 1)),
        max_error=float(error.max()),
        max_ratio=float(ratio.flat[worst]),
        where=(row, column),
        got=float(got.flat[worst]),
        want=float(want.flat[worst]),
        drift=not exact and _drifts(error, a, b, c, alpha, beta),
    )


def compare_bytes(m: int, n: int, k: int) -> int:
    """Bytes of memory that `compare` takes at most, beside the arrays that it is given."""
    factor, result = _COMPARED_BYTES
    return factor * k * (m + n) + result * m * n


def integers(rng: np.random.Generator, rows: int, cols: int, largest: int = 8) -> Floats:
    """Integers in [-largest, largest]: with 8, sums of up to 262,143 products are exact in FP32."""
    return in_pieces(rows, cols, lambda start, stop: rng.integers(-largest, largest + 1, stop - start))


def uniform(rng: np.random.Generator, rows: int, cols: int) -> Floats:
    """Numbers in [-1, 1) of full precision."""
    return in_pieces(rows, cols, lambda start, stop: rng.uniform(-1.0, 1.0, stop - start))


def in_pieces(rows: int, cols: int, piece: Callable[[int, int], NDArray[np.generic]]) -> Floats:
    """A rows x cols matrix of which `piece` gives the elements from one number to another, row after row.

    What is made in a wider type than FP32 is never as large as the matrix.
    """
    made = np.empty((rows, cols), np.float32)
    elements = made.reshape(-1)
    for start in range(0, elements.size, _PIECE):
        stop = min(start + _PIECE, elements.size)
        elements[start:stop] = piece(start, stop)
    return made


def rounded(value: float) -> float:
    """The number that FP32 makes of it; infinity beyond the largest float."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _read_scalars(a: NDArray[np.floating], alpha: float, beta: float) -> tuple[float, float]:
    """Alpha and beta as the kernel gets them; alpha is 0 where there is nothing that it could multiply."""
    return rounded(alpha) if a.shape[1] else 0.0, rounded(beta)


def _check_scalars(problem: Problem, alpha: float, beta: float) -> None:
    if not problem.alpha and alpha != 1:
        raise ValueError(f"alpha = {alpha:g}, and problem {problem.name} has no alpha")
    if not problem.beta and beta != 0:
        raise ValueError(f"beta = {beta:g}, and problem {problem.name} has no beta")


def _magnitude(
    a: NDArray[np.floating],
    b: NDArray[np.floating],
    c: NDArray[np.floating] | None,
    alpha: float,
    beta: float,
) -> Doubles:
    """|alpha| |A||B| + |beta| |C| in float64, what is not read left out."""
    total = np.zeros((a.shape[0], b.shape[1]))
    with np.errstate(all="ignore"):
        if alpha != 0:
            total = abs(alpha) * (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)))
        if beta != 0 and c is not None:
            total = total + abs(beta) * np.abs(c.astype(np.float64))
    return total


def _exact_bound(
    a: NDArray[np.floating],
    b: NDArray[np.floating],
    c: NDArray[np.floating] | None,
    alpha: float,
    beta: float,
) -> Doubles:
    """Zeros, once the operands are known to give exact sums."""
    read = [np.array([alpha, beta])]
    read += [a, b] if alpha != 0 else []
    read += [c] if beta != 0 and c is not None else []
    if not all(np.array_equal(values, np.trunc(values)) for values in read):
        raise InexactError("exact comparison needs operands and scalars that are integers")
    magnitude = _magnitude(a, b, c, alpha, beta)
    if magnitude.size and magnitude.max() > 2**24:
        raise InexactError(f"sums may reach {magnitude.max():.0f}; FP32 holds integers up to {2**24}")
    return np.zeros_like(magnitude)


def _drifts(
    error: Doubles,
    a: NDArray[np.floating],
    b: NDArray[np.floating],
    c: NDArray[np.floating] | None,
    alpha: float,
    beta: float,
) -> bool:
    """Whether an error exceeds sqrt(K + 2) u (|alpha||A||B| + |beta||C|) by more than chance."""
    typical = np.sqrt(a.shape[1] + 2) * _UNIT_ROUNDOFF * _magnitude(a, b, c, alpha, beta)
    with np.errstate(all="ignore"):
        return bool(np.any(error > _DRIFT_SIGMAS * typical + _HALF_LEAST_SUBNORMAL * a.shape[1]))
