"""What builds on a mistake is judged as far as it does not depend on how that is put right."""

from __future__ import annotations

import pytest

from gemmdsl.checker import analyse
from gemmdsl.source import Source
from tests.frontend.texts import HEAD, PROBLEM, codes, errors

TILE = "block 128 x 128 x 8  thread 8 x 8"
BASE = f"schedule base for p on sm_90 {{ {TILE} }}\n"


def one(options: str) -> list[str]:
    return sorted(codes(f"{HEAD}schedule s for p on sm_90 {{ {options} }}"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Each with a rule that is broken elsewhere.
        (f"{TILE} stage C {{ pad 1 }} buffers 3", ["G113", "G403"]),
        (f"{TILE} stage B {{ pad 65 }} store C {{ pad 3 }}", ["G117", "G302"]),
        (f"{TILE} store C {{ pad 3 vector 3 }}", ["G117", "G301"]),
        (f"{TILE} min_blocks 0 buffers 3", ["G403", "G501"]),
        ("block 64 x 64 x 0 thread 8 x 8 buffers 0", ["G202", "G401"]),
        (f"{TILE} assume aligned M stage A {{ pad 1 read vector 2 }}", ["G113", "G307"]),
        (f"{TILE} assume M % 4 == 1 buffers 17 async", ["G118", "G401"]),
        (f"{TILE} fma along K buffers 0", ["G113", "G401"]),
        (f"{TILE} no warp buffers 0", ["G116", "G401"]),
        (f"{TILE} buffers 2 buffers 3 min_blocks 33", ["G115", "G501"]),
        ("block 8 thread 8 x 8 buffers 0", ["G114"]),
        (f"{TILE} warp 64 buffers 3", ["G114", "G403"]),
        # The tile that could not be read is not held against what depends on it.
        (f"{TILE} buffers 3 buffers 0", ["G115"]),
        ("block 128 x 128 x 8 thread 8 buffers 3", ["G114", "G403"]),
        ("block 128 x 128 x 8 thread 8 x 8 as 3 warp 64 x 32", ["G114"]),
        ("block 128 x 128 x 8 warp 64 lanes 8 x 4", ["G114"]),
        (f"{TILE} stage A {{ vector 2 vector 4 pad 1 }} stage B {{ vector 3 }}", ["G115", "G301"]),
        (f"{TILE} stage A {{ pad 1 }} stage A {{ vector 3 }} stage B {{ pad 65 }}", ["G115", "G302"]),
        ("block 8 x 8 block 1025 x 8 thread 3 x 3", ["G115"]),
        ("block 8 x 8 assume M % 0 == 1", ["G118"]),
    ],
)
def test_a_mistake_hides_only_what_depends_on_it(options: str, expected: list[str]) -> None:
    assert one(options) == expected


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (PROBLEM.replace("B: f32", "B: f16"), ["G110", "G304", "G403"]),
        (PROBLEM.replace("[M, K]", "[M, Q]"), ["G119", "G304", "G403"]),
        (PROBLEM.replace("+ beta", "+ gamma"), ["G111", "G304", "G403"]),
        (PROBLEM.replace(" = alpha * A @ B + beta * C", ""), ["G111", "G304", "G403"]),
        (PROBLEM.replace("A: f32", "A: f32[M, K] A: f32"), ["G101", "G304", "G403"]),
        # What layout is meant, nobody knows.
        (PROBLEM.replace("[K, N]", "[N, K]"), ["G119", "G119", "G403"]),
        (PROBLEM.replace("A: f32[M, K]", ""), ["G112", "G403"]),
        (PROBLEM.replace("A:", "X:"), ["G112", "G113", "G403"]),
        (PROBLEM.replace("[M, K]", "[M, K"), ["G010", "G403"]),
        (PROBLEM.replace("problem p", "problem q"), ["G102", "G403"]),
    ],
)
def test_a_wrong_problem_hides_only_what_depends_on_its_layouts(problem: str, expected: list[str]) -> None:
    options = "block 64 x 64 x 6 thread 8 x 8 stage A { load vector 4 } buffers 3"
    assert sorted(codes(f"gemm 1\n{problem}schedule s for p on sm_90 {{ {options} }}")) == expected


@pytest.mark.parametrize(
    ("clauses", "options", "expected"),
    [
        ("for p on sm_91", "buffers 0", ["G105", "G401"]),
        ("for p on sm_91", "buffers 2 async min_blocks 32", ["G105", "G503"]),
        ("for p", "buffers 0", ["G106", "G401"]),
        ("on sm_90", "buffers 0 stage A { vector 3 }", ["G106", "G401"]),
        ("for p on sm_75 on sm_90", "buffers 2 async min_blocks 32", ["G115", "G503"]),
        ("for p on sm_75 on sm_75", "buffers 2 async", ["G115", "G405"]),
    ],
)
def test_a_wrong_clause_hides_only_what_depends_on_it(
    clauses: str, options: str, expected: list[str]
) -> None:
    assert sorted(codes(f"{HEAD}schedule s {clauses} {{ {TILE} {options} }}")) == expected


@pytest.mark.parametrize(
    ("parent", "options", "expected"),
    [
        (BASE.replace("8 }", "8  store C { pad 1 } }"), "buffers 3", ["G117", "G403"]),
        (BASE.replace("8 }", "8  buffers 2 buffers 1 }"), "stage A { pad 65 }", ["G115", "G302"]),
        (BASE.replace("8 }", "8  buffers 2 buffers 1 }"), "buffers 3", ["G115", "G403"]),
        (BASE.replace("on sm_90", "on sm_91"), "buffers 3", ["G105", "G403"]),
        # Nothing is known of the parent: only what the schedule itself gives is judged.
        (BASE.replace("8 }", "8  $ }"), f"{TILE} buffers 3", ["G010", "G403"]),
        (BASE.replace("8 }", "8  $ }"), f"{TILE} stage A {{ pad 65 }}", ["G010"]),
        (BASE.replace("8 }", "8  $ }"), "no warp no warp thread 7 x 7", ["G010", "G115"]),
        ("", f"{TILE} buffers 0 no warp no stage A", ["G103", "G401"]),
        (BASE.replace("for p on sm_90", "extends s"), f"{TILE} buffers 3", ["G104", "G403"]),
    ],
)
def test_a_wrong_parent_hides_only_what_depends_on_it(parent: str, options: str, expected: list[str]) -> None:
    text = f"{HEAD}{parent}schedule s extends base {{ {options} }}"
    if "G104" in expected:
        text += "\nschedule t extends s { block 8 x 8 x 8  buffers 3 }"
    assert sorted(codes(text)) == expected


def test_no_advice_is_given_on_what_is_not_known_in_full() -> None:
    *_, known = errors(f"{HEAD}schedule s for p on sm_90 {{ {TILE} stage C {{}} buffers 3 }}")
    *_, doubtful = errors(f"{HEAD}schedule s for p on sm_91 {{ {TILE} buffers 3 }}")
    assert [note.label for note in known.notes] == ["rule", "nearest legal"]
    assert [note.label for note in doubtful.notes] == ["rule"]


def test_what_is_unsound_is_no_part_of_the_program() -> None:
    text = f"{HEAD}{BASE}schedule s extends base {{ stage C {{}} }} schedule t extends s {{}}"
    program, _ = analyse(Source("test.gemm", text))
    assert program.schedules == ("base",)
    assert [declared.name for declared in program.unsound] == ["s", "t"]


def test_an_empty_tile_is_one_finding() -> None:
    assert one("block 8 x 8 x 8 thread 0 x 8") == ["G203"]
    assert one("block 8 x 8 x 8 thread 8 x 8 as 0 x 8") == ["G203"]
    assert one("block 8 x 8 x 8 thread 0 x 8 as 4 x 0") == ["G203", "G203"]


def test_too_many_threads_are_one_finding() -> None:
    assert one("block 128 x 128 x 8") == ["G212"]
