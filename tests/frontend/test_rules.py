"""Each rule refuses what it should, with advice that helps, and lets pass what is legal."""

from __future__ import annotations

import re
import timeit

import pytest

from gemmdsl.rules import RULES, find, violations
from gemmdsl.rules_case import Case
from tests.frontend.texts import broken, spec

COL_B = "problem p { A: f32[M, K]  B: f32[K, N] col  C: f32[M, N] col = A @ B }\n"
TILE = "block 128 x 128 x 8 thread 8 x 8"

# Per rule: options that break it and options that just keep it; a target and a problem where they matter.
CASES: dict[str, tuple[str, str] | tuple[str, str, str] | tuple[str, str, str, str]] = {
    "G201": ("block 1025 x 1 thread 1 x 1", "block 1024 x 1"),
    "G202": ("block 8 x 8 x 257", "block 8 x 8 x 256"),
    "G203": ("block 8 x 8 thread 0 x 8", "block 8 x 8 thread 1 x 8"),
    "G204": ("block 12 x 32 x 8 thread 8 x 4", "block 16 x 32 x 8 thread 8 x 4"),
    "G205": (f"{TILE} as 3 x 4", f"{TILE} as 2 x 4"),
    "G206": (f"{TILE} warp 96 x 32", f"{TILE} warp 64 x 32"),
    "G207": (f"{TILE} warp 64 x 64", f"{TILE} warp 128 x 16"),
    "G208": (f"{TILE} warp 64 x 32 lanes 4 x 8", f"{TILE} warp 64 x 32 lanes 8 x 4"),
    "G209": (f"{TILE} warp 64 x 32 lanes 4 x 4", f"{TILE} warp 32 x 64 lanes 4 x 8"),
    "G210": (f"{TILE} warp 8 x 256 lanes 1 x 32 paired", f"{TILE} warp 16 x 128 lanes 2 x 16 paired"),
    "G211": (f"{TILE} lanes 8 x 4", f"{TILE} lanes 8 x 4 warp 64 x 32"),
    "G212": ("block 64 x 32 thread 1 x 1", "block 32 x 32 thread 1 x 1"),
    "G213": (f"{TILE} raster 65", f"{TILE} raster 64 along N"),
    "G301": (f"{TILE} stage B {{ load vector 3 }}", f"{TILE} stage B {{ load vector 2 }}"),
    "G302": (f"{TILE} stage B {{ pad 65 }}", f"{TILE} stage B {{ pad 64 }}"),
    "G303": ("block 8 x 8 stage A { pad 1 }", "block 8 x 8 x 8 stage A { pad 1 }"),
    "G304": ("block 8 x 8 x 6 stage A { vector 4 }", "block 8 x 8 x 6 stage A { vector 2 }"),
    "G305": (
        f"{TILE} stage A {{ transpose store vector 2 }}",
        f"{TILE} stage A {{ transpose store vector 1 }}",
    ),
    "G306": (
        f"{TILE} stage B {{ load vector 2 store vector 4 }}",
        f"{TILE} stage B {{ vector 4 store vector 2 }}",
    ),
    "G307": (f"{TILE} stage A {{ read vector 2 }}", f"{TILE} stage A {{ read vector 2 transpose }}"),
    "G308": (f"{TILE} as 2 x 2 stage B {{ read vector 4 }}", f"{TILE} as 4 x 4 stage B {{ read vector 4 }}"),
    "G309": (f"{TILE} stage B {{ pad 2 read vector 4 }}", f"{TILE} stage B {{ pad 4 read vector 4 }}"),
    "G310": (f"{TILE} stage B {{ pad 4 swizzle }}", f"{TILE} stage B {{ swizzle }}"),
    "G311": ("block 96 x 96 x 8 thread 4 x 4 stage B { swizzle }", f"{TILE} stage B {{ vector 4 swizzle }}"),
    "G401": (f"{TILE} buffers 17 async", "block 32 x 32 x 8 buffers 16 async"),
    "G402": ("block 8 x 8 buffers 2", "block 8 x 8 x 8 buffers 2"),
    "G403": (f"{TILE} buffers 3", f"{TILE} buffers 2"),
    "G404": (f"{TILE} buffers 1 async", f"{TILE} buffers 2 async"),
    "G405": (f"{TILE} buffers 2 async", f"{TILE} buffers 2", "sm_75"),
    "G406": (
        f"{TILE} buffers 2 async stage B {{ vector 4 store vector 2 }}",
        f"{TILE} buffers 2 async stage B {{ vector 4 }}",
    ),
    "G407": (
        f"{TILE} buffers 2 async stage A {{ vector 4 transpose }}",
        f"{TILE} buffers 2 async stage A {{ vector 4 load vector 1 transpose }}",
    ),
    "G408": (f"{TILE} fragments 3 buffers 2", f"{TILE} fragments 2 buffers 2"),
    "G409": ("block 8 x 8 fragments 2", "block 8 x 8 fragments 1 B first"),
    "G410": (
        "block 64 x 64 x 7 thread 8 x 8 buffers 2 fragments 2",
        "block 64 x 64 x 2 thread 8 x 8 buffers 2 fragments 2",
    ),
    "G411": (f"{TILE} fragments 2", f"{TILE} fragments 2 buffers 2 async"),
    "G412": (f"{TILE} buffers 4 async at 1", f"{TILE} buffers 4 async at 0"),
    "G424": (
        f"{TILE} buffers 4 async A at 2 1 fragments 2",
        f"{TILE} buffers 4 async A at 1 1 2 fragments 2",
    ),
    "G425": (
        f"{TILE} buffers 4 async at 0 1 2 3 4 fragments 2",
        f"{TILE} buffers 4 async at 0 1 2 3 fragments 2",
    ),
    "G421": (f"{TILE} split_k 513", f"{TILE} split_k 512"),
    "G422": ("block 128 x 128 thread 8 x 8 split_k 2", "block 128 x 128 thread 8 x 8 split_k 1"),
    "G423": (f"{TILE} split_k 1 atomic", f"{TILE} split_k 2 atomic"),
    "G413": (
        f"{TILE} buffers 4 async at 7 fragments 2",
        f"{TILE} buffers 4 async at 6 fragments 2",
    ),
    "G414": (f"{TILE} unroll 257", "block 8 x 8 x 256 unroll 256"),
    "G415": ("block 8 x 8 unroll 1", "block 8 x 8 x 1 unroll 1"),
    "G416": (f"{TILE} unroll 3", f"{TILE} unroll 4"),
    "G417": (f"{TILE} buffers 2 fragments 2 unroll 1", f"{TILE} buffers 2 fragments 2 unroll 2"),
    "G501": (f"{TILE} min_blocks 33", "block 8 x 8 min_blocks 32"),
    "G502": ("block 128 x 128 x 36 thread 8 x 8 buffers 2", "block 128 x 128 x 32 thread 8 x 8", "sm_75"),
    "G503": ("block 128 x 128 x 8 thread 16 x 16", "block 128 x 128 x 8 thread 8 x 16"),
    "G504": ("block 32 x 32 min_blocks 2", "block 32 x 32 min_blocks 1", "sm_75"),
    "G505": ("block 8 x 8 min_blocks 17", "block 8 x 8 min_blocks 16", "sm_75"),
    "G506": (
        "block 128 x 128 x 36 thread 8 x 8 min_blocks 2",
        "block 128 x 128 x 32 thread 8 x 8 min_blocks 2",
        "sm_75",
    ),
    "G601": ("block 8 x 8 assume M % 65537 == 0", "block 8 x 8 assume M % 65536 == 0"),
    "G602": (
        f"{TILE} as 2 x 8 store C {{ vector 4 }}",
        f"{TILE} as 4 x 2 store C {{ vector 4 }}",
        "sm_90",
        COL_B,
    ),
}


def test_every_rule_has_a_case() -> None:
    assert sorted(CASES) == sorted(rule.code for rule in RULES)


@pytest.mark.parametrize("code", sorted(CASES))
def test_a_rule_refuses(code: str) -> None:
    bad, _, *where = CASES[code]
    found = broken(bad, *where)
    assert code in [diagnostic.code for diagnostic in found]
    for diagnostic in found:
        assert diagnostic.span is not None
        assert f"rule: {find(diagnostic.code).formula}" in map(str, diagnostic.notes)


@pytest.mark.parametrize("code", sorted(CASES))
def test_a_rule_lets_pass(code: str) -> None:
    _, good, *where = CASES[code]
    assert broken(good, *where) == []


# Where no change of one word makes the schedule legal there is nothing to advise.
WITHOUT_ADVICE = {"G303"}


@pytest.mark.parametrize("code", sorted(set(CASES) - WITHOUT_ADVICE))
def test_advice_helps(code: str) -> None:
    bad, _, *where = CASES[code]
    violation = next(diagnostic for diagnostic in broken(bad, *where) if diagnostic.code == code)
    advice = next(note.text for note in violation.notes if note.label == "nearest legal")
    for change in advice.split(", or "):
        left = broken(*_changed(bad, change, *where))
        assert code not in [diagnostic.code for diagnostic in left], change


def _changed(options: str, change: str, target: str = "sm_90", *problem: str) -> tuple[str, ...]:
    """The options after a piece of advice was followed."""
    if change.startswith("on "):
        return options, change.removeprefix("on "), *problem
    if match := re.fullmatch(r"stage (.) without (\w+)", change):
        stage = re.search(rf"stage {match[1]} {{[^}}]*}}", options)
        assert stage is not None
        return options.replace(stage[0], re.sub(rf"{match[2]}( \d+)?", "", stage[0])), target, *problem
    if match := re.fullmatch(r"schedule without (\w+)", change):
        return re.sub(rf"{match[1]} \d+", "", options), target, *problem
    if match := re.fullmatch(r"(?:stage|store) (.) { (.*) }", change):
        word = re.escape(re.sub(r" ?\d+$", "", match[2]))
        stage = re.search(rf"(?:stage|store) {match[1]} {{[^}}]*}}", options)
        if stage is None:
            return f"{options} {change}", target, *problem
        items = re.sub(rf"(?<!load )(?<!store )(?<!read )\b{word}( \d+)?", "", stage[0]).removesuffix("}")
        return options.replace(stage[0], f"{items} {match[2]} }}"), target, *problem
    for part in re.split(r" (?=lanes)", change):
        word = part.split()[0]
        kept = re.sub(
            rf"\b{word} [\d x]*\d( as [\d x]*\d)?( async| row| column| paired)?( at \d+)?( % \d+ == 0)?",
            "",
            options,
        )
        kept = re.sub(r"assume M % \d+ == 0", "", kept) if word == "assume" else kept
        options = f"{kept} {part}"
    return options, target, *problem


@pytest.mark.parametrize(
    ("options", "code", "advice"),
    [
        (f"{TILE} min_blocks 0", "G501", "min_blocks 1"),
        ("block 64 x 64 x 0 thread 8 x 8", "G202", "block 64 x 64 x 1"),
        ("block 64 x 64 x 0 thread 8 x 8 stage A { vector 4 }", "G202", "block 64 x 64 x 4"),
    ],
)
def test_a_nought_that_was_written_is_advised_upon(options: str, code: str, advice: str) -> None:
    (found,) = broken(options)
    assert found.code == code
    assert advice in [note.text for note in found.notes if note.label == "nearest legal"]
    assert broken(*_changed(options, advice)) == []


def test_a_nought_that_was_preferred_is_dropped() -> None:
    found = spec(f"{TILE} prefer min_blocks 0")
    assert found.schedule.min_blocks == 0
    assert found.fallbacks == ("`min_blocks 0` is dropped: an SM cannot hold 0 blocks",)


def test_a_rule_is_found_by_its_code() -> None:
    assert [find(rule.code) for rule in RULES] == list(RULES)
    with pytest.raises(KeyError, match="G200"):
        find("G200")


def test_all_violations_are_reported_at_once() -> None:
    options = "block 128 x 96 x 6 thread 8 x 8 as 3 x 4 warp 64 x 64 stage A { vector 4 pad 1 } buffers 3"
    assert {d.code for d in broken(options)} >= {"G205", "G206", "G207", "G304", "G403"}


def test_rules_are_not_asked_about_words_that_are_out_of_bounds() -> None:
    assert [d.code for d in broken(f"block {10**30} x 8 x 8 thread 8 x 8")] == ["G201"]
    assert [d.code for d in broken("block 0 x 8 x 8 thread 8 x 8")] == ["G201"]
    assert [d.code for d in broken("block -8 x 8 x 8")] == ["G201"]
    assert [d.code for d in broken("block 8 x 8 x 0")] == ["G202"]
    assert [d.code for d in broken("block 8 x 8 min_blocks 0")] == ["G501"]
    assert [d.code for d in broken("block 8 x 8 buffers 0")] == ["G401"]
    assert [d.code for d in broken("block 8 x 8 assume M % 0 == 0")] == ["G601"]
    assert [d.code for d in broken(f"{TILE} buffers 2 fragments 0")] == ["G408"]
    assert [d.code for d in broken(f"{TILE} buffers 0 async at 3 fragments 2")] == ["G401"]
    assert "G301" in [d.code for d in broken("block 8 x 8 x 8 stage A { vector 0 }")]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Tiles that do not divide have no number of threads, and what follows from it.
        ("block 128 x 128 x 8 thread 8 x 6 min_blocks 2", ["G204"]),
        ("block 1000 x 1000 thread 3 x 3", ["G204"]),
        ("block 128 x 128 thread 3 x 3 min_blocks 32", ["G204"]),
        ("block 64 x 64 thread 1 x 1 min_blocks 2", ["G212"]),
        # A piece that is none says nothing of vectors.
        (f"{TILE} as 8 x 3 store C {{ vector 4 }}", ["G205"]),
        (f"{TILE} as 8 x 3 stage B {{ read vector 4 }}", ["G205"]),
        # Nor do vectors that cannot be moved, of rows and of copies.
        (f"{TILE} stage B {{ load vector 2 store vector 4 pad 2 }}", ["G306"]),
        (f"{TILE} buffers 2 async stage B {{ load vector 2 store vector 4 }}", ["G306"]),
        (f"{TILE} as 8 x 2 stage B {{ read vector 4 pad 2 }}", ["G308"]),
        # What is wrong with one operand is no reason to be silent about the other.
        (
            f"{TILE} as 8 x 2 stage B {{ read vector 4 }} stage A {{ transpose pad 1 read vector 4 }}",
            ["G308", "G309"],
        ),
        (f"{TILE} warp 64 x 32 lanes 3 x 5 paired", ["G209"]),
    ],
)
def test_what_builds_on_a_mistake_is_not_judged(options: str, expected: list[str]) -> None:
    assert sorted({d.code for d in broken(options)}) == expected


def test_rules_stand_behind_those_that_they_need() -> None:
    codes = [rule.code for rule in RULES]
    for rule in RULES:
        assert all(codes.index(code) < codes.index(rule.code) for code in rule.needs), rule.code


def test_every_fragment_takes_registers() -> None:
    tile = "block 128 x 112 x 2 thread 8 x 14 buffers 2 async min_blocks 3"
    assert broken(f"{tile} fragments 1") == []
    assert [d.code for d in broken(f"{tile} fragments 2")] == ["G503"]


@pytest.mark.parametrize(
    ("options", "registers"),
    [
        # 64 outputs, fragments of 8 + 8, 24 around them; then what copies take.
        ("block 64 x 64 thread 8 x 8", 104),
        ("block 64 x 64 x 8 thread 8 x 8", 104),
        ("block 64 x 64 x 8 thread 8 x 8 fragments 2 buffers 2", 104 + 16 + 16),
        ("block 64 x 64 x 8 thread 8 x 8 buffers 2", 104 + 16),
        ("block 64 x 64 x 8 thread 8 x 8 buffers 2 async", 104 + 16),
        ("block 64 x 64 x 8 thread 8 x 8 stage B { vector 4 }", 104),
        ("block 64 x 64 x 8 thread 8 x 8 buffers 2 async stage B { vector 4 }", 104 + 8 + 2),
        # Rounds that are no whole rows: each copy has an address of its own.
        ("block 24 x 40 x 8 thread 8 x 8", 104 + 4 * (13 + 22)),
        ("block 24 x 40 x 8 thread 8 x 8 buffers 2 async stage B { vector 4 }", 104 + 4 * (13 + 6)),
    ],
)
def test_registers_of_a_thread(options: str, registers: int) -> None:
    legal = spec(options)
    assert Case(legal.schedule, legal.problem, legal.target).registers == registers


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("block 128 x 128 thread 16 x 16", "thread tile 16 x 16 takes 312 registers, but a thread has 255"),
        (
            "block 14 x 6 x 10 thread 14 x 6 buffers 3 async",
            "thread tile 14 x 6 and 200 copies of each K tile take 928 registers, but a thread has 255",
        ),
        (
            f"{TILE} min_blocks 3",
            "thread tile 8 x 8 and 8 copies of each K tile take 104 registers, but a thread has 80 where"
            " 3 blocks of 256 threads share an SM",
        ),
        (
            "block 128 x 256 x 8 thread 4 x 8",
            "thread tile 4 x 8 and 3 copies of each K tile take 68 registers,"
            " but each of 1024 threads has 64",
        ),
    ],
)
def test_too_few_registers(options: str, expected: str) -> None:
    assert [d.message for d in broken(options)] == [f"{expected}: it would spill"]


def test_the_least_change_comes_first() -> None:
    # Of the thread tile, half would have to go.
    (found,) = broken("block 128 x 128 x 64 thread 8 x 16 buffers 2")
    assert str(found.notes[-1]) == "nearest legal: buffers 1, or thread 8 x 8"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("buffers 4 async at -1", ["G413"]),
        ("buffers 4 async at -1 fragments 2", ["G413"]),
        ("buffers 4 async at 99", ["G412"]),
        ("buffers 4 async at 99 fragments 2", ["G413"]),
        ("buffers 4 async at 0 0", ["G412"]),
        ("buffers 4 async A at 0 -1 fragments 2", ["G413", "G424"]),
        ("buffers 4 async A at 9 8 B at 1 fragments 2", ["G413", "G424"]),
    ],
)
def test_a_wrong_step_is_one_finding(options: str, expected: list[str]) -> None:
    assert [d.code for d in broken(f"{TILE} {options}")] == expected


def test_violations_are_found_quickly() -> None:
    legal = spec(f"{TILE} warp 64 x 32 stage A {{ vector 4 transpose }} stage B {{ vector 4 }} buffers 2")
    seconds = (
        min(timeit.repeat(lambda: violations(legal.schedule, legal.problem, legal.target), number=20)) / 20
    )
    assert seconds < 0.3e-3
