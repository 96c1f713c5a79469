"""Numbers with the nouns that they count."""

from __future__ import annotations

_DAY = 86_400.0
_YEAR = 365.25 * _DAY
# A unit in seconds, its name, and the time from which the next one is taken.
_UNITS = (
    (1e-6, "us", 10.0),
    (1.0, "s", _DAY),
    (_DAY, "days", _YEAR),
    (_YEAR, "years", 0.0),
)


def several(count: int, noun: str, plural: str = "") -> str:
    """`1 block`, `1,024 blocks`; `plural` for nouns that take more than an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def amount(count: int) -> str:
    """`1,234,567` up to twelve digits, then `1.23e+12`: of 15 letters at most, for columns."""
    return f"{count:,}" if abs(count) < 10**12 else f"{float(count):.2e}"


def measure(value: float, digits: int) -> str:
    """The value with so many digits behind the point; in powers of ten with more than seven before it."""
    return f"{value:.{digits}f}" if abs(value) < 1e7 else f"{value:.2e}"


def duration(seconds: float) -> str:
    """A time in microseconds, and a long one in seconds, days or years: `12.5 us`, `3.0 days`."""
    size, unit = next((pair for pair in _UNITS if seconds < pair[2]), _UNITS[-1])[:2]
    return f"{measure(seconds / size, 1)} {unit}"
