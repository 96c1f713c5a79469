"""Drawn schedules and broken input, as many as fit in everyday runs; tests/suites/__main__.py runs more."""

from __future__ import annotations

import pytest

from tests.suites import broken, drawn

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
