"""The rule of shared memory against every measured pattern and against a plain restatement of it."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmdsl.analysis import sectors, wavefronts
from gemmdsl.analysis.bankmap import bank_map
from gemmdsl.analysis.banks import INACTIVE, AccessKind

MEASURED = Path(__file__).parent / "data" / "shared_memory_wavefronts_h200.csv"
COPIES = MEASURED.with_name("asynchronous_copies_h200.csv")
KINDS: tuple[AccessKind, ...] = ("load", "store")


def plain(kind: str, width: int, words: list[int]) -> tuple[int, int]:
    """The rule, lane by lane."""
    passes = width // 4
    if kind == "load" and passes > 1:
        for distance in (1, 2):
            if all(words[lane] == words[lane ^ distance] for lane in range(32)):
                passes //= 2
                break
    lanes = 32 // passes
    total = 0
    for start in range(0, 32, lanes):
        banks: dict[int, set[int]] = {}
        for lane in range(start, start + lanes):
            for word in range(words[lane], words[lane] + width // 4):
                banks.setdefault(word % 32, set()).add(word)
        total += max(map(len, banks.values()))
    return total, passes


def test_every_measured_pattern_is_exact() -> None:
    with MEASURED.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 528
    wrong = []
    for number, row in enumerate(rows, start=2):
        kind: AccessKind = "load" if row["kind"] == "load" else "store"
        words = [int(row[f"lane{lane}_word"]) for lane in range(32)]
        if wavefronts(kind, int(row["width_bytes"]), words).wavefronts != int(row["wavefronts"]):
            wrong.append(number)
    assert wrong == []


def test_every_measured_copy_is_exact() -> None:
    """A row is one call for a warp; where the call may fill, lanes without a source are stored as zeros."""
    with COPIES.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 426
    wrong = []
    for number, row in enumerate(rows, start=2):
        words, sources = (
            [int(row[f"lane{lane}_{what}"]) for lane in range(32)] for what in ("word", "source")
        )
        width, filled = int(row["width_bytes"]), row["filled"] == "1"
        read = [word if source != INACTIVE else INACTIVE for word, source in zip(words, sources, strict=True)]
        zeros = [
            word if source == INACTIVE else INACTIVE for word, source in zip(words, sources, strict=True)
        ]
        parts = [wavefronts("copy", width, read, sources)]
        parts += [wavefronts("store", width, zeros)] if filled else []
        cost, ideal = (sum(counts) for counts in zip(*parts, strict=True))
        # The profiler's ideal is that of the bytes moved, whichever half of a warp moves them.
        if cost != int(row["wavefronts"]) or (not filled and ideal != int(row["ideal"])):
            wrong.append(number)
    assert wrong == []


@given(
    st.sampled_from((4, 8)),
    st.lists(st.integers(-1, 40), min_size=32, max_size=32),
    st.lists(st.integers(-1, 40), min_size=32, max_size=32),
)
def test_a_copy_waits_for_lanes_on_either_side(width: int, to: list[int], source: list[int]) -> None:
    """The rule, lane by lane; and the picture of it says the same."""
    size = width // 4
    words = [unit * size if unit >= 0 else INACTIVE for unit in to]
    sources = [unit * size if unit >= 0 else INACTIVE for unit in source]
    total = passes = 0
    for start in range(0, 32, 32 // size):
        lanes = [lane for lane in range(start, start + 32 // size) if words[lane] != INACTIVE]
        shares = [
            sum(
                words[one] % 32 == words[lane] % 32
                or (INACTIVE not in (sources[one], sources[lane]) and sources[one] % 32 == sources[lane] % 32)
                for one in lanes
            )
            for lane in lanes
        ]
        total += max(shares, default=0)
        passes += bool(lanes)
    assert tuple(wavefronts("copy", width, words, sources)) == (total, passes)
    reading = tuple(INACTIVE if word == INACTIVE else at for word, at in zip(words, sources, strict=True))
    assert sum(one.wavefronts for one in bank_map("copy", width, tuple(words), reading)) == total


@given(
    st.lists(st.integers(-1, 40), min_size=32, max_size=32),
    st.lists(st.integers(-1, 40), min_size=32, max_size=32),
)
def test_a_wide_copy_goes_from_a_line_to_a_row_at_once(to: list[int], source: list[int]) -> None:
    """The rule, lane by lane; lanes without a source fill up with zeros together."""
    words, sources = ([4 * unit if unit >= 0 else INACTIVE for unit in units] for units in (to, source))
    moved = {
        (at // 32 if at != INACTIVE else None, word // 32)
        for word, at in zip(words, sources, strict=True)
        if word != INACTIVE
    }
    groups = sum(any(word != INACTIVE for word in words[start : start + 8]) for start in range(0, 32, 8))
    assert tuple(wavefronts("copy", 16, words, sources)) == (len(moved), groups)
    assert len(bank_map("copy", 16, tuple(words), tuple(sources))) == len(moved)


def test_where_a_tile_begins_counts_for_wide_copies() -> None:
    """512 neighbouring bytes of global memory: four rows of banks, or parts of five."""
    lanes = [4 * lane for lane in range(32)]
    assert tuple(wavefronts("copy", 16, lanes, lanes)) == (4, 4)
    assert tuple(wavefronts("copy", 16, [word + 8 for word in lanes], lanes)) == (8, 4)
    assert tuple(
        wavefronts("copy", 16, lanes, [16 * (lane // 4) * 64 + lane % 4 * 4 for lane in range(32)])
    ) == (8, 4)


@given(
    st.sampled_from(KINDS),
    st.sampled_from((4, 8, 16)),
    st.lists(st.integers(0, 300), min_size=32, max_size=32),
    st.sampled_from((0, 1, 2, 3)),
)
def test_agrees_with_the_plain_rule(kind: AccessKind, width: int, units: list[int], pairing: int) -> None:
    words = [units[lane & ~pairing] * (width // 4) for lane in range(32)]
    assert tuple(wavefronts(kind, width, words)) == plain(kind, width, words)


@given(st.sampled_from(KINDS), st.sampled_from((4, 8, 16)), st.integers(0, 50))
def test_moving_every_lane_changes_nothing(kind: AccessKind, width: int, shift: int) -> None:
    words = [(lane * lane) % 37 * (width // 4) for lane in range(32)]
    moved = [word + shift * (width // 4) for word in words]
    assert wavefronts(kind, width, words) == wavefronts(kind, width, moved)


def test_idle_lanes_cost_nothing() -> None:
    assert wavefronts("load", 4, [INACTIVE] * 32) == (0, 0)
    assert wavefronts("store", 4, [0, 32] + [INACTIVE] * 30) == (2, 1)
    assert wavefronts("store", 16, [0] + [INACTIVE] * 31) == (1, 1)


@pytest.mark.parametrize(
    ("kind", "width", "words", "said"),
    [
        ("load", 3, [0] * 32, "4, 8 or 16"),
        ("load", 4, [0] * 31, "32 lanes"),
        ("load", 16, [2] * 32, "multiples of 4"),
        ("load", 4, [-2] * 32, "not negative"),
        ("fetch", 4, [0] * 32, "load, a store or a copy"),
        ("copy", 4, [0] * 32, "reads from"),
        ("load", 4.0, [0] * 32, "4, 8 or 16"),
        ("load", True, [0] * 32, "4, 8 or 16"),
        ("load", 4, [0.5] * 32, "whole numbers"),
        ("load", 4, [float("nan")] * 32, "whole numbers"),
        ("load", 4, [None] * 32, "whole numbers"),
        ("load", 4, ["1"] * 32, "whole numbers"),
        ("load", 4, [True] * 32, "whole numbers"),
        ("load", 4, [1 << 63] * 32, "below 2\\^63"),
        ("load", 4, [1 << 80] * 32, "below 2\\^63"),
        ("load", 4, 7, "32 lanes"),
    ],
)
def test_refuses_what_is_no_access(kind: AccessKind, width: int, words: list[int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        wavefronts(kind, width, words)


@pytest.mark.parametrize(
    ("sources", "said"),
    [([-2] * 32, "not negative"), ([1] * 32, "multiples of 2"), ([0] * 5, "32 lanes"), ([0.0] * 32, "whole")],
)
def test_refuses_what_no_copy_reads(sources: list[int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        wavefronts("copy", 8, [2 * lane for lane in range(32)], sources)


def test_numbers_of_any_whole_type_are_addresses() -> None:
    expected = wavefronts("store", 8, [2 * lane for lane in range(32)])
    for kind in (np.int8, np.uint8, np.int32, np.uint64):
        assert wavefronts("store", 8, np.arange(0, 64, 2, dtype=kind)) == expected  # type: ignore[arg-type]
    highest = (1 << 63) - 4
    assert wavefronts("load", 16, [highest] * 32) == (2, 2)


@given(st.sampled_from((4, 8, 16)), st.lists(st.integers(0, 200), min_size=32, max_size=32))
def test_sectors_count_what_is_touched(width: int, units: list[int]) -> None:
    addresses = [unit * width for unit in units]
    found, ideal = sectors(width, [addresses])
    touched = {byte for address in addresses for byte in range(address, address + width)}
    assert int(found[0]) == len({byte // 32 for byte in touched})
    assert int(ideal[0]) == -(-len(touched) // 32)
