"""The pages of the ladder: their counters are the model's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gemmdsl.analysis.access import Access, Kind, Space, summed
from tests.analysis.models import as_written
from tests.examples import program
from tests.gpu.measured import with_section

PAGES = Path(__file__).parents[2] / "docs" / "ladder"
RUNGS = program("ladder.gemm").schedules
N = (2048, 2048, 2048)
SIDES: tuple[tuple[Space, Kind], ...] = (
    ("shared", "load"),
    ("shared", "store"),
    ("global", "load"),
    ("global", "store"),
)


def rung(schedule: str) -> tuple[Access, ...]:
    return as_written("ladder.gemm", schedule, N)


def table() -> str:
    """The table of docs/ladder/README.md."""
    lines = [
        "| Rung | Load wavefronts | Conflicts | Store wavefronts | Conflicts | Sectors loaded | C used |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for schedule in RUNGS:
        loads, stores, read, written = (summed(rung(schedule), *side, None) for side in SIDES)
        lines.append(
            f"| {schedule} | {loads.cost:,} | {loads.share:.2%} | {stores.cost:,} | {stores.share:.2%} |"
            f" {read.cost:,} | {written.efficiency:.1%} |"
        )
    return "\n".join(lines) + "\n"


def test_the_table_is_the_model_s() -> None:
    assert (PAGES / "README.md").read_text(encoding="utf-8").endswith(table())


@pytest.mark.parametrize("page", sorted(page.name for page in PAGES.glob("v*.md")))
def test_counters_of_a_page_are_the_model_s(page: str) -> None:
    known: set[str] = set()
    for schedule in RUNGS:
        accesses = rung(schedule)
        counts = [access.total for access in accesses]
        counts += [summed(accesses, *side, None) for side in SIDES]
        known |= {f"{number:,}" for count in counts for number in (count.requests, count.cost, count.excess)}
    # What was measured is compared with the machine code: tests/analysis/test_measured.py.
    text = with_section((PAGES / page).read_text(encoding="utf-8"), "")
    assert set(re.findall(r"\b\d{1,3}(?:,\d{3})+\b", text)) <= known


def test_every_rung_has_its_page() -> None:
    pages = {page.stem for page in PAGES.glob("v*.md")}
    assert {schedule for schedule in RUNGS if not schedule.endswith("_padded")} | {"v2_padded"} == pages


@pytest.mark.parametrize("page", sorted(page.name for page in PAGES.glob("*.md")))
def test_links_lead_somewhere(page: str) -> None:
    text = (PAGES / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (PAGES / target).is_file(), target
