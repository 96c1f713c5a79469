"""Numbers with their nouns."""

from __future__ import annotations

import pytest

from gemmdsl.wording import amount, duration, measure, several


def test_one_of_a_thing_is_singular() -> None:
    assert several(1, "block") == "1 block"
    assert several(0, "block") == "0 blocks"
    assert several(12_345, "block") == "12,345 blocks"
    assert several(1, "pass", "passes") == "1 pass"
    assert several(2, "pass", "passes") == "2 passes"


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, "0"),
        (1234, "1,234"),
        (999_999_999_999, "999,999,999,999"),
        (10**12, "1.00e+12"),
        (2**84, "1.93e+25"),
    ],
)
def test_amounts_fit_a_column(count: int, told: str) -> None:
    assert amount(count) == told
    assert len(told) <= 15


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0, "0.0 us"),
        (1.25e-5, "12.5 us"),
        (9.0, "9000000.0 us"),
        (10.0, "10.0 s"),
        (86_400.0, "1.0 days"),
        (2.433e15, "7.71e+07 years"),
        (3.2e7, "1.0 years"),
    ],
)
def test_times_have_a_unit_that_suits_them(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_what_is_measured_keeps_its_digits_as_long_as_they_fit() -> None:
    assert measure(0.5, 2) == "0.50"
    assert measure(357_913_941.2, 2) == "3.58e+08"
