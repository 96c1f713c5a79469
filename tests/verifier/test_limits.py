"""Limits of the target: blocks that do not fit are refuted, and what they take is rounded as the rules do."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from gemmdsl.index import Int, Named
from gemmdsl.occupancy import occupancy
from gemmdsl.target import TARGETS, Target
from gemmdsl.verifier import ProofError, verify_final
from gemmdsl.verifier.failure import Refuted
from gemmdsl.verifier.limits import prove_limits
from tests.verifier.kernels import kernel, with_stage
from tests.verifier.planting import named


def test_limits() -> None:
    given = kernel("async4")
    crowded = replace(given, min_blocks=17)
    big = with_stage(
        given, "A", lambda s: replace(s, tile=replace(s.tile, row_length=Named("A_ROW", Int(2000))))
    )
    old = replace(given, spec=replace(given.spec, target=TARGETS["sm_75"]))
    many = replace(given, threads=replace(given.threads, threads=named(given.threads.threads, 1056)))
    for faulty, word in (
        (crowded, "17 blocks"),
        (big, "shared memory"),
        (old, "sm_75 has no"),
        (many, "1056"),
    ):
        with pytest.raises(ProofError, match=word) as caught:
            verify_final(faulty, "specialise")
        assert caught.value.rule.name == "limits"
    assert verify_final(given, "specialise")


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_limits_round_shared_memory_as_the_rules_do(target: Target) -> None:
    """Between what blocks have of their own and what they take of an SM, some would fit by the former."""
    given = kernel("vectors")
    given = replace(given, spec=replace(given.spec, target=target), min_blocks=7)
    rounded_away = 0
    for row in range(1500):
        length = Named("A_ROW", Int(row))
        a = replace(given.stage("A"), tile=replace(given.stage("A").tile, row_length=length))
        full = replace(given, staging=(a, given.stage("B")))
        if full.shared_bytes > target.shared_per_block:
            break
        fits = occupancy(target, full.threads.threads.value, 32, full.shared_bytes).blocks >= 7
        rounded_away += not fits and 7 * (full.shared_bytes + target.shared_reserved) <= target.shared_per_sm
        with nullcontext() if fits else pytest.raises(Refuted, match="never holds"):
            prove_limits(full)
    assert rounded_away
