"""What the documents name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gemmdsl.checker import load

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])

LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
MODULE = re.compile(r"`((?:gemmdsl|tests|templates|grammar|examples)/[\w./]+)`")
CODE = re.compile(r'"([GP]\d{3})"')

# Modules that may share codes, by the beginning of their path.
AREAS = ("bench/", "cli/", "emulator/", "files", "launch_errors", "runtime/", "toolchain/", "verifier/")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    missing = [link for link in LINK.findall(text) if not (document.parent / link).exists()]
    missing += [path for path in MODULE.findall(text) if not (ROOT / path).exists()]
    assert missing == []


def test_no_page_has_a_place_that_was_left_to_fill() -> None:
    left = {
        path.relative_to(ROOT).as_posix(): found
        for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        if (
            found := re.findall(
                r"@[A-Z][A-Z_]*@|\b(?:TODO|FIXME|XXX|TBD)\b", path.read_text(encoding="utf-8")
            )
        )
    }
    assert left == {}


def test_the_readme_names_every_rung_of_the_ladder() -> None:
    rows = [
        line
        for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert named == list(load(ROOT / "examples" / "ladder.gemm").schedules)


def test_every_code_lies_in_a_documented_area() -> None:
    """The rows of the architecture's table: `G70x`, or `G901` to `G910`."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    ranges = []
    for row in re.findall(r"^\| (`[GP]\d.*?) \| ", text, re.MULTILINE):
        names = re.findall(r"`(\w+)`", row)
        ranges.append((names[0].replace("x", "0"), names[-1].replace("x", "9")))
    codes = {
        code
        for module in (ROOT / "gemmdsl").rglob("*.py")
        for code in CODE.findall(module.read_text(encoding="utf-8"))
    }
    assert {code for code in codes if sum(low <= code <= high for low, high in ranges) != 1} == set()


def test_no_code_has_two_meanings() -> None:
    areas: dict[str, set[str]] = {}
    for module in (ROOT / "gemmdsl").rglob("*.py"):
        path = module.relative_to(ROOT / "gemmdsl").as_posix()
        area = next((area for area in AREAS if path.startswith(area)), "front end")
        for code in CODE.findall(module.read_text(encoding="utf-8")):
            areas.setdefault(code, set()).add(area)
    assert {code: found for code, found in areas.items() if len(found) > 1} == {}
