"""A field of a schedule is complete when a word reaches it, text keeps it, and advice knows its words."""

from __future__ import annotations

from dataclasses import fields
from itertools import islice
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import gemmdsl
from gemmdsl.api import compile_spec
from gemmdsl.checker import analyse
from gemmdsl.inheritance import options_of
from gemmdsl.rules import RULES, Violation, violations
from gemmdsl.rules_options import Options, StageOptions, derive
from gemmdsl.rules_repair import Adviser, candidates
from gemmdsl.source import Source
from gemmdsl.spec import Assumption, Schedule, Spec, Stage
from gemmdsl.target import TARGETS
from gemmdsl.testing import program_text, spec_text, specs
from gemmdsl.testing.simplify import simplify
from gemmdsl.testing.text import options_of as options_that_give
from tests.frontend.test_rules import CASES
from tests.frontend.texts import PROBLEM, spec

TILE = "block 128 x 128 x 8 thread 8 x 8"
# A is kept as [k][m] and B as [k][n], so that reads can be vectors.
STRAIGHT = "problem p { A: f32[M, K] col  B: f32[K, N]  C: f32[M, N] = A @ B }\n"

# Words that give each field another value than TILE has.
WORDS = {
    "block_m": "block 64 x 128 x 8 thread 8 x 8",
    "block_n": "block 128 x 64 x 8 thread 8 x 8",
    "block_k": "block 128 x 128 x 16 thread 8 x 8",
    "thread_m": "block 128 x 128 x 8 thread 4 x 8",
    "thread_n": "block 128 x 128 x 8 thread 8 x 4",
    "piece_m": f"{TILE} as 4 x 8",
    "piece_n": f"{TILE} as 8 x 4",
    "warp": f"{TILE} warp 64 x 32",
    "lanes": f"{TILE} warp 64 x 32",
    "lane_order": f"{TILE} warp 64 x 32 lanes 8 x 4 paired",
    "stage_a": f"{TILE} stage A {{ transpose }}",
    "stage_b": f"{TILE} stage B {{ vector 4 }}",
    "c_vector": f"{TILE} store C {{ vector 4 }}",
    "buffers": f"{TILE} buffers 2",
    "asynchronous": f"{TILE} buffers 2 async",
    "copy_steps": f"{TILE} buffers 3 async A at 1 2 B at 3 fragments 2",
    "fragments": f"{TILE} buffers 2 fragments 2",
    "read_first": f"{TILE} buffers 2 fragments 2 B first",
    "fma_along": f"{TILE} fma along M",
    "fma_snake": f"{TILE} fma along N snake",
    "unroll": f"{TILE} unroll 4",
    "raster": f"{TILE} raster 8",
    "raster_along": f"{TILE} raster 8 along N",
    "min_blocks": f"{TILE} min_blocks 2",
    "split_k": f"{TILE} split_k 4",
    "split_atomic": f"{TILE} split_k 4 atomic",
    "assumptions": f"{TILE} assume M % 128 == 0",
}
STAGE_WORDS = {
    "load": "load vector 4 store vector 1",
    "store": "load vector 4 store vector 4",
    "read": "read vector 4",
    "transpose": "transpose",
    "pad": "pad 4",
    "swizzle": "swizzle",
}
# Every word with a value of its own, so that another value can be tried.
FULL = Options(
    block=(128, 128, 8),
    warp=(64, 32),
    lanes=(8, 4),
    thread=(8, 8),
    piece=(4, 4),
    a=StageOptions(4, 4, 4, 4, True, 4, True),
    b=StageOptions(4, 4, 4, 4, True, 4, True),
    c_vector=4,
    buffers=2,
    fragments=2,
    unroll=4,
    raster=8,
    min_blocks=2,
    split_k=4,
    split_atomic=True,
    assumptions=(Assumption(axis="M", multiple=128),),
)


def assert_kept(found: Spec) -> None:
    assert gemmdsl.loads(spec_text(found), found.file).spec().schedule == found.schedule


def away_from(one: Any, other: Any) -> set[str]:
    """The fields in which two schedules or stages differ."""
    return {f.name for f in fields(one) if getattr(one, f.name) != getattr(other, f.name)}


def test_every_field_has_words() -> None:
    assert {"name", *WORDS} == {field.name for field in fields(Schedule)}
    assert set(STAGE_WORDS) == {field.name for field in fields(Stage)}


@pytest.mark.parametrize("name", WORDS)
def test_a_field_is_reached_and_kept_as_text(name: str) -> None:
    found = spec(WORDS[name])
    assert getattr(found.schedule, name) != getattr(spec(TILE).schedule, name)
    assert_kept(found)


@pytest.mark.parametrize("name", STAGE_WORDS)
@pytest.mark.parametrize("operand", ["A", "B"])
def test_a_field_of_a_stage_is_reached_and_kept_as_text(name: str, operand: Any) -> None:
    found = spec(f"{TILE} stage {operand} {{ {STAGE_WORDS[name]} }}", "sm_90", STRAIGHT)
    assert getattr(found.schedule.stage(operand), name) != getattr(Stage(), name)
    assert_kept(found)


# What a field's words stand beside, where they need more than TILE.
BESIDE = {
    "lane_order": f"{TILE} warp 64 x 32 lanes 8 x 4",
    "copy_steps": f"{TILE} buffers 3 async fragments 2",
    "asynchronous": f"{TILE} buffers 2",
    "read_first": f"{TILE} buffers 2 fragments 2",
    "fragments": f"{TILE} buffers 2",
    "raster_along": f"{TILE} raster 8",
    "split_atomic": f"{TILE} split_k 4",
}


def emitted(words: str, layout: str = PROBLEM) -> str:
    """The CUDA of a schedule, without the comment at its head, which names the schedule's words."""
    return compile_spec(spec(words, "sm_90", layout)).text.partition("#include")[2]


@pytest.mark.parametrize("name", WORDS)
def test_a_field_reaches_the_text(name: str) -> None:
    beside = BESIDE.get(name, TILE)
    found, without = spec(WORDS[name], "sm_90").schedule, spec(beside, "sm_90").schedule
    changed = away_from(without, found)
    assert name in changed
    # A warp has lanes, a smaller thread tile smaller pieces.
    assert changed <= {name, "lanes", "warp", "piece_m", "piece_n"}
    assert emitted(WORDS[name]) != emitted(beside)


@pytest.mark.parametrize("name", STAGE_WORDS)
@pytest.mark.parametrize("operand", ["A", "B"])
def test_a_field_of_a_stage_reaches_the_text(name: str, operand: str) -> None:
    words = f"{TILE} stage {operand} {{ {STAGE_WORDS[name]} }}"
    beside = f"{TILE} stage {operand} {{ load vector 4 store vector 1 }}" if name == "store" else TILE
    assert emitted(words, STRAIGHT) != emitted(beside, STRAIGHT)


def test_drawn_schedules_have_every_field_away_from_its_default() -> None:
    away: set[str] = set()

    @settings(
        max_examples=400,
        phases=[Phase.generate],
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(specs())
    def collect(found: Spec) -> None:
        away.update(away_from(Schedule(found.schedule.name, 1, 1), found.schedule))
        for stage in (found.schedule.stage_a, found.schedule.stage_b):
            away.update(away_from(Stage(), stage))

    collect()
    assert away >= set(WORDS) | set(STAGE_WORDS)


@pytest.mark.parametrize("name", WORDS)
def test_what_fails_is_simplified_in_every_field(name: str) -> None:
    """Back to its default, and tiles to those of a thread."""
    found = simplify(spec(WORDS[name], "sm_90"), lambda _: True).schedule
    if name.split("_")[0] in ("block", "thread", "piece"):
        assert (found.block_m, found.block_n) == (found.thread_m, found.thread_n)
        assert (found.piece_m, found.piece_n) == (found.thread_m, found.thread_n)
        assert found.block_k == 0
    else:
        assert getattr(found, name) == getattr(Schedule("s", 1, 1), name)


def test_words_of_a_schedule_are_those_of_its_text() -> None:
    """With every field away from its default at once."""
    found = spec(
        f"{TILE} as 4 x 4 warp 64 x 32 lanes 8 x 4 paired buffers 3 async at 2 fragments 2 B first"
        " fma along M snake unroll 4 raster 5 along N min_blocks 1 split_k 3 atomic"
        " stage A { read vector 4 transpose pad 4 } stage B { vector 4 } store C { vector 4 }"
        " assume K % 8 == 0 assume aligned B"
    )
    options = options_that_give(found.schedule)
    text = program_text(found.problem, {found.schedule.name: (options, found.target.name)})
    assert derive(found.schedule.name, options, found.problem) == found.schedule
    assert gemmdsl.loads(text).spec().schedule == found.schedule


def broken_words() -> set[str]:
    """Every word that a violation names, in the bad case of each rule."""
    found: set[str] = set()
    for bad, _, *where in CASES.values():
        target, problem = (*where, *("sm_90", PROBLEM)[len(where) :])
        program, _ = analyse(
            Source("test.gemm", f"gemm 1\n{problem}schedule s for p on {target} {{ {bad} }}")
        )
        declared = program.declared["s"]
        schedule = derive("s", options_of(declared.entries), declared.problem)
        for violation in violations(schedule, declared.problem, declared.target):
            found |= set(violation.words)
    return found


def test_every_word_of_a_rule_has_other_values() -> None:
    """Words of operands are named by the rules without their operand."""
    stages = {f"{operand}.{item}" for operand in ("A", "B") for item in STAGE_WORDS}
    named = broken_words()
    general = {word.split(".")[-1] for word in named | stages} | {"assume", "vector", "target"}
    assert {word for rule in RULES for word in rule.words} <= general
    for word in named | stages:
        assert list(islice(candidates(word, FULL, TARGETS["sm_75"]), 1)), word


@pytest.mark.parametrize("word", ["another", "A.another", "fma"])
def test_a_word_that_advice_does_not_know_is_no_error(word: str) -> None:
    assert list(candidates(word, FULL, TARGETS["sm_75"])) == []
    problem = spec(TILE).problem
    violation = Violation(RULES[0], (word,), {"axis": "M", "extent": 0})
    assert Adviser().repairs(FULL, problem, TARGETS["sm_90"], violation) == ()
