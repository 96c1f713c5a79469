"""What the model predicts from machine code is what was measured, for every schedule of the examples."""

from __future__ import annotations

from functools import cache

import pytest

from tests import golden
from tests.analysis.models import needs_toolkit
from tests.examples import program
from tests.gpu import measured
from tests.gpu.measured import (
    LOST_OR_REPEATED,
    OF_CODE,
    OF_COPIES,
    PAGES,
    SIZE,
    TARGET,
    Kept,
    of_rung,
    predicted,
    with_section,
)
from tests.gpu.profiles import subjects

RUNGS = program("ladder.gemm").schedules


@cache
def kept() -> dict[tuple[str, str], dict[str, Kept]]:
    found: dict[tuple[str, str], dict[str, Kept]] = {}
    for one in measured.read()[1]:
        found.setdefault((one.file, one.schedule), {})[one.counter] = one
    return found


def test_what_was_measured_was_predicted() -> None:
    rows = [one for counters in kept().values() for one in counters.values()]
    off = [one for one in rows if abs(one.predicted - one.measured) > one.allowed]
    assert {one.counter for one in off} <= set(OF_COPIES)
    assert all(abs(one.predicted - one.measured) <= LOST_OR_REPEATED * one.predicted for one in off)
    assert len({one.schedule for one in off}) < len(kept()) / 4
    # Conflicts and sectors may be off by a little; what is counted by instruction is not.
    for one in rows:
        if one.counter in OF_CODE or one.counter.endswith(("instructions", "requests")):
            assert one.predicted == one.measured


@pytest.mark.nvcc
@pytest.mark.slow
@needs_toolkit
@pytest.mark.parametrize(("file", "schedule"), sorted(kept()))
def test_the_model_predicts_what_was_measured(file: str, schedule: str) -> None:
    """Of other machine code than was measured, all but what that code alone has: instructions, registers."""
    (subject,) = [one for one in subjects(TARGET, SIZE, (schedule,)) if one.file == file]
    code, rows = predicted(subject)
    found = kept()[file, schedule]
    same = {one.code for one in found.values()} == {code}
    now = {row.name: round(row.predicted) for row in rows}
    for name, one in found.items():
        if same or name not in OF_CODE:
            lost = LOST_OR_REPEATED * one.predicted if name in OF_COPIES else 0
            assert abs(now[name] - one.measured) <= max(one.allowed, lost), name


def section(page: str) -> str:
    if page == "README":
        return measured.overview(RUNGS)
    padded = tuple(name for name in RUNGS if name.endswith("_padded"))
    return measured.page(padded if page == "v2_padded" else (page,))


@pytest.mark.parametrize("page", sorted(page.stem for page in PAGES.glob("*.md")))
def test_tables_of_the_pages_are_what_was_measured(page: str) -> None:
    path = PAGES / f"{page}.md"
    golden.compare(path, with_section(path.read_text(encoding="utf-8"), section(page)))


def test_a_section_is_put_before_what_follows_it() -> None:
    new = "## Measured\n\nnew\n"
    assert with_section("# T\n\ntext\n", new) == f"# T\n\ntext\n\n{new}"
    assert with_section("# T\n\ntext\n\nNext: x\n", new) == f"# T\n\ntext\n\n{new}\nNext: x\n"
    old = "# T\n\n## Measured\n\nold\n\n## Counters at\n\nmore\n"
    assert with_section(old, new) == f"# T\n\n{new}\n## Counters at\n\nmore\n"
    assert with_section(with_section(old, new), new) == with_section(old, new)


def test_every_rung_was_measured() -> None:
    everything = measured.read()[1]
    assert all(of_rung(rung, everything) for rung in RUNGS)
