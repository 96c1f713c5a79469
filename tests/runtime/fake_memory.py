"""Memory of the GPU that is made of the host, as numpy sees it, and the kernels that a benchmark brings."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np


def words(address: int, count: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Device memory as the host sees it."""
    return np.ctypeslib.as_array((ctypes.c_uint32 * count).from_address(address))


def strided(address: int, shape: tuple[int, int], strides: tuple[int, int]) -> Any:
    """A float32 matrix in device memory; strides in elements."""
    span = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    return np.lib.stride_tricks.as_strided(
        words(address, span).view(np.float32), shape, (4 * strides[0], 4 * strides[1])
    )


def _values(count: int, seed: int, largest: int) -> Any:
    rng = np.random.default_rng(seed)
    drawn = rng.integers(-largest, largest + 1, count) if largest else rng.uniform(-1, 1, count)
    return drawn.astype(np.float32)


def _doubles(address: int, shape: tuple[int, int]) -> Any:
    return np.ctypeslib.as_array((ctypes.c_double * (shape[0] * shape[1])).from_address(address)).reshape(
        shape
    )


def _fill(to: int, count: int, seed: int, largest: int) -> None:
    words(to, count).view(np.float32)[...] = _values(count, seed, largest)


def _reference(m: int, n: int, k: int, *places: int) -> None:
    a = strided(places[0], (m, k), places[1:3]).astype(np.float64)  # type: ignore[arg-type]
    b = strided(places[3], (k, n), places[4:6]).astype(np.float64)  # type: ignore[arg-type]
    _doubles(places[6], (m, n))[...] = a @ b
    _doubles(places[7], (m, n))[...] = np.abs(a) @ np.abs(b)


def _check(
    m: int, n: int, c: int, row: int, col: int, total: int, size: int, alpha: float, beta: float,
    gamma: float, seed: int, tally: int,
) -> None:  # fmt: skip
    # What was filled ends with the padding of the last line; the first values are the same without.
    count = 1 + (m - 1) * row + (n - 1) * col
    old = np.zeros(count)
    if beta:
        old = beta * _values(count, seed, 0).astype(np.float64)
    before = np.lib.stride_tricks.as_strided(old, (m, n), (8 * row, 8 * col))
    error = np.abs(strided(c, (m, n), (row, col)) - (alpha * _doubles(total, (m, n)) + before))
    wrong = ~(error <= gamma * (abs(alpha) * _doubles(size, (m, n)) + np.abs(before)))
    found = np.ctypeslib.as_array((ctypes.c_uint64 * 3).from_address(tally))
    found[0] += np.uint64(wrong.sum())
    if wrong.any():
        found[1] = np.flatnonzero(wrong)[0]
    found[2] = error.max(initial=0.0).view(np.uint64)


SUPPORT: dict[str, Callable[..., None]] = {
    "gemmdsl_fill": _fill,
    "gemmdsl_reference": _reference,
    "gemmdsl_check": _check,
    "gemmdsl_peak": lambda *arguments: None,
}
