"""A field of a schedule is complete when a word reaches it, text keeps it, and advice knows its words."""

from __future__ import annotations

from dataclasses import fields
from itertools import islice
from typing import Any

import pytest

import gemmdsl
from gemmdsl.checker import analyse
from gemmdsl.inheritance import options_of
from gemmdsl.rules import RULES, Violation, violations
from gemmdsl.rules_options import Options, StageOptions, derive
from gemmdsl.rules_repair import Adviser, candidates
from gemmdsl.source import Source
from gemmdsl.spec import Assumption, Schedule, Spec, Stage
from gemmdsl.target import TARGETS
from gemmdsl.testing import program_text, spec_text
from gemmdsl.testing.text import options_of as options_that_give
from tests.frontend.test_rules import CASES
from tests.frontend.texts import PROBLEM, spec

TILE = "block 128 x 128 x 8 thread 8 x 8"

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
    "copy_step": f"{TILE} buffers 3 async at 2 fragments 2",
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
    # A is kept as [k][m] and B as [k][n], so that reads can be vectors.
    layout = "problem p { A: f32[M, K] col  B: f32[K, N]  C: f32[M, N] = A @ B }\n"
    found = spec(f"{TILE} stage {operand} {{ {STAGE_WORDS[name]} }}", "sm_90", layout)
    assert getattr(found.schedule.stage(operand), name) != getattr(Stage(), name)
    assert_kept(found)


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
