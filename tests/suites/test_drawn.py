"""Drawn schedules and broken input, as many as fit in everyday runs; tests/suites/__main__.py runs more."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import pytest

from gemmdsl.rules_options import Options
from gemmdsl.spec import CopySteps
from gemmdsl.testing import program_text
from tests.suites import broken, drawn
from tests.suites.designs import DESIGNS, problem

_SHARDS = 4


@pytest.mark.parametrize("shard", range(_SHARDS))
def test_drawn_schedules_are_right(shard: int, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(drawn, "FAILURES", tmp_path)
    tally = drawn.run(48, 7, 8, first=12 * shard, most=12)
    print(tally)
    assert tally.counts["schedules"] == 12
    assert tally.counts["cases"] >= 12 * 30
    assert not tally.failures, "\n".join(tally.failures)


@pytest.mark.parametrize("shard", range(_SHARDS))
def test_broken_input_gets_coded_diagnostics(shard: int) -> None:
    tally = broken.run(500, 100 + shard)
    print(tally)
    assert not tally.failures, "\n".join(tally.failures[:3])
    assert tally.counts["mutated texts refused"] > 100
    assert tally.counts["schedules refused"] > 40


@pytest.mark.parametrize("design", DESIGNS)
def test_texts_say_what_any_one_word_makes_of_a_schedule(design: str) -> None:
    wanted, rng = problem("TN"), random.Random(3)
    right = DESIGNS[design](wanted)
    plain = Options(right.block)
    for field in fields(Options):
        for wild in (plain, *(broken.options(rng) for _ in range(4))):
            words = broken.sayable(replace(right, **{field.name: getattr(wild, field.name)}))
            text = program_text(wanted, {"s": (words, "sm_90")})
            assert broken.said(text, words, wanted), text


def test_what_has_no_word_to_stand_behind_is_not_drawn() -> None:
    wanted = problem("TT")
    turns, parts = DESIGNS["turns"](wanted), DESIGNS["parts_atomic"](wanted)
    for words in (
        replace(turns, asynchronous=False, buffers=2),
        replace(DESIGNS["warps"](wanted), copy_steps=CopySteps((1,), (1,)), fragments=2),
        replace(parts, split_k=None),
    ):
        text = program_text(wanted, {"s": (words, "sm_90")})
        assert not broken.said(text, words, wanted)
        spoken = broken.sayable(words)
        assert broken.said(program_text(wanted, {"s": (spoken, "sm_90")}), spoken, wanted)
