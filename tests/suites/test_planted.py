"""Some of the planted faults, and of the examples' barriers; tests/suites/__main__.py runs them all."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.suites.faults import FAULTS
from tests.suites.planted import EQUIVALENT, all_mutants, example_barriers, failed, fates, key, table

_EVERY = 23


def test_there_are_hundreds_of_faults_and_each_kind_is_planted() -> None:
    kinds = [mutant.kind for _, _, mutant in all_mutants()]
    assert set(kinds) == set(FAULTS)
    assert len(FAULTS) >= 20
    assert len(kinds) >= 200


def test_reasons_are_about_mutants_that_exist() -> None:
    planted = {key(host, mutant) for host, _, mutant in all_mutants()}
    assert set(EQUIVALENT) <= planted


@pytest.mark.slow
def test_planted_faults_are_found() -> None:
    found = list(fates(islice(all_mutants(), 0, None, _EVERY), workers=1))
    told = table(found)
    print(told)
    assert not any(map(failed, found)), told


@pytest.mark.slow
def test_barriers_and_waits_are_needed_and_missed() -> None:
    found = list(fates(islice(example_barriers(), 0, None, 9), workers=1, examples=0))
    told = table(found)
    print(told)
    assert found
    assert not any(map(failed, found)), told
