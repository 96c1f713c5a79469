"""Numbers with their nouns."""

from __future__ import annotations

from gemmdsl.wording import several


def test_one_of_a_thing_is_singular() -> None:
    assert several(1, "block") == "1 block"
    assert several(0, "block") == "0 blocks"
    assert several(12_345, "block") == "12,345 blocks"
    assert several(1, "pass", "passes") == "1 pass"
    assert several(2, "pass", "passes") == "2 passes"
