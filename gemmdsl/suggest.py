"""The nearest known word to a mistyped one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

_LONGEST = 64
# More words of about the right length than this are a generated file, not something a person knows.
_MOST = 60


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that a person most likely meant, or None when none is near.

    Near means at most a third of the letters mistyped (one for short words); exchanged neighbours count
    once and case does not count.  Ties go to a word of the same length, then to one that differs by
    underscores alone, then to the word that is first in `known`.
    """
    allowed = max(1, min(len(word), _LONGEST) // 3)
    near = (other for other in known if _comparable(word, other) and abs(len(word) - len(other)) <= allowed)
    scored = [(_far(word.lower(), other.lower()), other) for other in islice(near, _MOST)]
    best = min(scored, key=lambda pair: pair[0], default=None)
    return best[1] if best is not None and best[0][0] <= allowed else None


def _far(word: str, other: str) -> tuple[int, int, bool]:
    """Sort key: the edits, and what decides between words that are equally many away."""
    parted = word.replace("_", "") != other.replace("_", "")
    return distance(word, other), abs(len(word) - len(other)), parted


def distance(left: str, right: str) -> int:
    """Edits from one word to another: letters added, dropped, changed, or exchanged with a neighbour."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, last, row = row[:] if i == 1 else before, row, [i]
        for j, b in enumerate(right, 1):
            best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before = last
    return row[-1]


def _comparable(word: str, other: str) -> bool:
    # A one-letter name is near to every other one; suggesting it would be a guess.
    return (
        len(word) <= _LONGEST and len(other) <= _LONGEST and (len(word) > 1 or word.lower() == other.lower())
    )
