"""The numbers that kernels are tested with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gemmdsl.reference import Floats, in_pieces, integers, uniform
from gemmdsl.testing.case import Case

# Codes of a place: more than a tile has elements, and exact in FP32 with room for a small factor.
_CODES = 1_000_003
_SPECIALS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, -1e-42, 1.0], np.float32)
_SPECIAL_SHARE = 0.04


class Operands(NamedTuple):
    """A is (m, k), B is (k, n), and C, before the run, (m, n)."""

    a: Floats
    b: Floats
    c: Floats


def draw(case: Case) -> Operands:
    """The operands of a case, always the same ones."""
    rng = np.random.default_rng(case.seed)
    m, n, k = case.m, case.n, case.k
    match case.operands:
        case "integers":
            a, b = integers(rng, m, k), integers(rng, k, n)
        case "uniform":
            a, b = uniform(rng, m, k), uniform(rng, k, n)
        case "special":
            a, b = _specials(rng, uniform(rng, m, k)), _specials(rng, uniform(rng, k, n))
        case "pick-b":
            a, b = _picks(rng, m, k), _places(k, n)
        case "pick-a":
            a, b = _places(m, k), _picks(rng, n, k).T
    c = uniform(rng, m, n) if case.operands in ("uniform", "special") else integers(rng, m, n)
    return Operands(a, b, c)


def place(case: Case, value: float) -> tuple[str, int, int] | None:
    """Which element of A or B has that value, in a "pick" case without scalars; None if it is none."""
    name, rows, cols = ("B", case.k, case.n) if case.operands == "pick-b" else ("A", case.m, case.k)
    code = int(value) - 1 if np.isfinite(value) else -1
    if not case.operands.startswith("pick") or case.alpha != 1 or case.beta != 0:
        return None
    if value != code + 1 or not 0 <= code < min(rows * cols, _CODES):
        return None
    return (name, *divmod(code, cols))


def _picks(rng: np.random.Generator, rows: int, cols: int) -> Floats:
    """One 1 in every row."""
    picked = np.zeros((rows, cols), np.float32)
    if cols:
        picked[np.arange(rows), rng.integers(0, cols, rows)] = 1.0
    return picked


def _places(rows: int, cols: int) -> Floats:
    return in_pieces(rows, cols, lambda start, stop: np.arange(start, stop) % _CODES + 1)


def _specials(rng: np.random.Generator, values: Floats) -> Floats:
    rows, cols = values.shape
    chosen = in_pieces(rows, cols, lambda start, stop: rng.random(stop - start) < _SPECIAL_SHARE)
    marks, numbers = chosen.reshape(-1), values.reshape(-1)

    def piece(start: int, stop: int) -> Floats:
        special = rng.choice(_SPECIALS, stop - start)
        return np.where(marks[start:stop] != 0, special, numbers[start:stop])

    return in_pieces(rows, cols, piece)
