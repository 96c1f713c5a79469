"""Polynomials say of all numbers what they may say of them: what is shown holds wherever it is tried."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmdsl.layout import raster_grid
from gemmdsl.verifier.grid import prove_blocks
from gemmdsl.verifier.polynomials import Polynomial, number, variables

X, Y = variables(2)
PLACES = tuple(product((0, 1, 2, 7, 1000), repeat=2))


def value(polynomial: Polynomial, x: int, y: int) -> int:
    at: Mapping[int, int] = {2: x, 1: y}
    total = 0
    for monomial, coefficient in polynomial.terms.items():
        for variable, power in monomial:
            coefficient *= at[variable] ** power
        total += coefficient
    return total


@st.composite
def polynomials(draw: st.DrawFn) -> Polynomial:
    found = number(draw(st.integers(-3, 3)))
    for _ in range(draw(st.integers(0, 3))):
        term = number(draw(st.integers(-2, 3)))
        for factor in draw(st.lists(st.sampled_from((X, Y)), max_size=2)):
            term = term * factor
        found = found + term
    return found


@given(polynomials(), polynomials())
def test_arithmetic_and_order_are_those_of_the_values(left: Polynomial, right: Polynomial) -> None:
    for x, y in PLACES:
        a, b = value(left, x, y), value(right, x, y)
        assert value(left + right, x, y) == a + b
        assert value(left - right, x, y) == a - b
        assert value(left * right, x, y) == a * b
        assert a <= b or not left.at_most(right)


@given(polynomials(), polynomials())
def test_a_division_that_is_shown_is_right(left: Polynomial, right: Polynomial) -> None:
    divided = left.divided(right)
    if divided is not None:
        for x, y in PLACES:
            by = value(right, x, y)
            assert by > 0
            assert (value(divided[0], x, y), value(divided[1], x, y)) == divmod(value(left, x, y), by)


def test_divisions() -> None:
    one, columns = number(1), X + Y + number(1)
    assert (columns * Y + Y).divided(columns) == (Y, Y)
    assert (X * number(6) + number(5)).divided(number(6)) == (X, number(5))
    assert X.divided(number(2)) is None
    assert X.divided(number(0)) is None
    # The remainder may be as large as the divisor.
    assert (X + Y).divided(X) is None
    assert (columns + one).divided(columns) is None


@pytest.mark.parametrize("along", ["M", "N"])
@pytest.mark.parametrize("tiles", [1, 2, 3, 7, 64])
def test_every_raster_is_proved(tiles: int, along: str) -> None:
    assert prove_blocks(raster_grid(tiles, "M" if along == "M" else "N"))
