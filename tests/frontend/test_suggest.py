"""Suggestions name what a person meant, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmdsl.suggest import distance, nearest

WORDS = ("block", "warp", "lanes", "thread", "stage", "store", "buffers", "min_blocks")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("blokc", "block"),
        ("Block", "block"),
        ("threads", "thread"),
        ("buffer", "buffers"),
        ("minblocks", "min_blocks"),
        ("stroe", "store"),
        ("wrap", "warp"),
        ("warps_per_sm", None),
        ("x", None),
        ("", None),
        ("b" * 10_000, None),
    ],
)
def test_nearest(typed: str, meant: str | None) -> None:
    assert nearest(typed, WORDS) == meant


def test_ties_go_to_the_first() -> None:
    assert nearest("v2", ("v1", "v3")) == "v1"


def test_ties_go_to_what_looks_alike() -> None:
    assert nearest("v32", ("v3", "v3_1", "v3_2")) == "v3_2"
    assert nearest("v3_9", ("v3", "v3_", "v3_1")) == "v3_1"
    assert nearest("base4", ("base", "base8")) == "base8"


@pytest.mark.parametrize(
    ("left", "right", "edits"), [("ab", "ba", 1), ("ab", "acb", 1), ("", "abc", 3), ("kitten", "sitting", 3)]
)
def test_distance(left: str, right: str, edits: int) -> None:
    assert distance(left, right) == edits


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_distance_is_symmetric_and_bounded(left: str, right: str) -> None:
    assert distance(left, right) == distance(right, left)
    assert abs(len(left) - len(right)) <= distance(left, right) <= max(len(left), len(right))
    assert (distance(left, right) == 0) == (left == right)
