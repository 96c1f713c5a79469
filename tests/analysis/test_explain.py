"""Reports: text as expected, JSON in its form, a page without the network, and the command."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from gemmdsl import checker
from gemmdsl.analysis.access import summed
from gemmdsl.analysis.shape import tight
from gemmdsl.cli import group
from gemmdsl.diagnostics import GemmError
from gemmdsl.explain.advice import as_diff, build_kernel, cost_of, mended
from gemmdsl.explain.document import SCHEMA, document
from gemmdsl.explain.model import Model, model
from gemmdsl.explain.page import page
from gemmdsl.explain.pictures import ownership, timeline
from gemmdsl.explain.text import text
from tests import golden
from tests.analysis.models import as_written, needs_toolkit
from tests.examples import FOLDER

GOLDENS = Path(__file__).parent / "golden"
TEXTS = ("v0_naive", "v2_4x4_padded", "v3", "v5_async")


@cache
def ladder() -> checker.Program:
    """The ladder under a name that is the same everywhere."""
    return checker.loads((FOLDER / "ladder.gemm").read_text(encoding="utf-8"), "ladder.gemm")


@cache
def report(schedule: str, size: int = 2048, *, compile: bool = False, suggest: bool = False) -> Model:
    program = ladder()
    spec = program.spec(schedule)
    return model(program, spec, tight(spec.problem, size, size, size), compile=compile, suggest=suggest)


def without_lines(shown: str) -> str:
    """The report without the numbers of lines, which any change of the emitted text moves."""
    shown = re.sub(
        r"^  ( *\d+) (?=[ABC] )", lambda match: f"  {'#':>{len(match[1])}} ", shown, flags=re.MULTILINE
    )
    return re.sub(r"\bline \d+", "line #", shown)


@pytest.mark.parametrize("schedule", TEXTS)
def test_text(schedule: str) -> None:
    found = report(schedule, suggest=schedule == "v3")
    golden.compare(GOLDENS / f"{schedule}.txt", without_lines(text(found, ladder())))


def test_no_golden_without_a_test() -> None:
    golden.assert_no_orphans(GOLDENS, [f"{schedule}.txt" for schedule in TEXTS])


def test_document() -> None:
    found = json.loads(document(report("v2_4x4"), ladder()))
    assert found["schema"] == SCHEMA
    loads = found["as_written"]["totals"]["shared_loads"]
    assert loads == {
        "requests": 134_217_728,
        "cost": 268_435_456,
        "ideal": 134_217_728,
        "excess": 134_217_728,
    }
    assert found["as_compiled"] is None
    assert found["suggestions"] is None
    assert {finding["code"] for finding in found["findings"]} >= {"bank-conflict", "sectors"}


@pytest.mark.parametrize("schedule", ["v0_naive", "v3", "v5_async"])
def test_page_is_whole(schedule: str) -> None:
    shown = page(report(schedule, 512), ladder())
    assert not re.findall(r"(?:src|href)=\"(?!#)", shown)
    assert "http" not in shown.replace("http-equiv", "")
    pictures = re.findall(r"<svg.*?</svg>", shown, re.DOTALL)
    assert len(pictures) >= 4
    for picture in pictures:
        ElementTree.fromstring(picture)
    for number in re.findall(r'href="#L(\d+)"', shown):
        assert f'id="L{number}"' in shown


def test_page_escapes_the_source() -> None:
    shown = page(report("v3", 512), ladder())
    assert "#include &lt;cuda_runtime.h&gt;" in shown


def test_suggestions_lead_from_v3_to_no_conflict() -> None:
    program = ladder()
    spec = program.spec("v3")
    found = report("v3", suggest=True).suggested
    assert found is not None
    best = found[-1]
    assert best.cost.conflicts == 0
    assert best.cost.wavefronts < cost_of(build_kernel(spec)).wavefronts
    assert best.shared_bytes == build_kernel(spec).shared_bytes
    diff = as_diff(program, best)
    assert diff.startswith("--- ladder.gemm\n+++ ladder.gemm\n@@")
    added = "".join(
        line[1:]
        for line in diff.splitlines(keepends=True)
        if line.startswith("+") and not line.startswith("+++")
    )
    changed = checker.loads(program.source.text + added, "ladder.gemm")
    assert cost_of(build_kernel(changed.spec(best.name))) == best.cost


def test_each_suggestion_beats_the_one_before() -> None:
    found = report("v3", suggest=True).suggested
    assert found is not None
    ranks = [suggestion.cost.rank for suggestion in found]
    assert len(ranks) == 3
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks)) == len(ranks)


def test_a_conflict_is_mended_by_one_change() -> None:
    program = ladder()
    spec = program.spec("v3_1")
    accesses = as_written("ladder.gemm", "v3_1", (512, 512, 512))
    found = mended(program, spec, accesses)
    assert set(found) == {("A", "store")}
    assert found["A", "store"].changes[0].group == "stage A"


def test_every_output_has_an_owner() -> None:
    for schedule in ("v1_shared", "v3_2", "v4_warps"):
        owned = ownership(build_kernel(ladder().spec(schedule)))
        owners = [owner for row in owned.owners for owner in row]
        assert min(owners) == 0
        warp = owned.of_warp(1)
        assert {owner // 32 for row in warp.owners for owner in row if owner >= 0} == {1}


def test_timeline_multiplies_every_tile_in_order() -> None:
    for schedule in ("v1_shared", "v3_2", "v5_async"):
        events = timeline(build_kernel(ladder().spec(schedule)), 4)
        assert [event.tile for event in events if event.lane == "multiply"] == [0, 1, 2, 3]


def test_assumptions_that_do_not_hold_are_told() -> None:
    program = checker.load(FOLDER / "assume.gemm")
    spec = program.spec("whole_tiles")
    with pytest.raises(GemmError, match="G731"):
        model(program, spec, tight(spec.problem, 100, 100, 100), compile=False)


@pytest.mark.nvcc
@needs_toolkit
def test_compiled_view_says_where_it_differs() -> None:
    found = report("v2_4x4_padded", 512, compile=True)
    assert found.machine is not None
    assert "compiled-differently" in {finding.code for finding in found.findings}
    shown = text(found, ladder())
    assert "asked for 1,048,576 of 32 bits, compiled to 294,912 of 128 bits" in shown
    assert "registers by ptxas" in shown
    assert json.loads(document(found, ladder()))["as_compiled"]["registers"] == found.registers
    loads = summed(found.machine.accesses, "shared", "load")
    assert loads.excess == 0


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(group, ["explain", *words])
    return result.exit_code, result.stdout, result.stderr


LADDER = str(FOLDER / "ladder.gemm")


def test_command_writes_to_a_file(tmp_path: Path) -> None:
    to = tmp_path / "page.html"
    words = (LADDER, "-s", "v3_2", "--shape", "256x128x64", "--no-compile", "--output-format", "html")
    assert run(*words, "-o", str(to)) == (0, "", "")
    assert to.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ((LADDER, "-s", "v3_2", "--shape", "2048x1024"), 2, "is no shape"),
        ((LADDER, "-s", "v3_2", "--shape", "99999999999"), 2, "is more than"),
        ((LADDER,), 1, "name one"),
        ((LADDER, "-s", "v9"), 1, "no schedule `v9`"),
        (("missing.gemm", "-s", "v3"), 1, "missing.gemm"),
    ],
)
def test_command_refuses(words: tuple[str, ...], status: int, said: str) -> None:
    code, _, errors = run(*words)
    assert code == status
    assert said in errors


@pytest.mark.parametrize("sizes", ["0", "1x1x1", "128x128x0", "7x513x33"])
@pytest.mark.parametrize("schedule", ["v0_naive", "v2_4x4", "v5_async"])
def test_any_shape_can_be_explained(schedule: str, sizes: str) -> None:
    code, shown, errors = run(LADDER, "-s", schedule, "--shape", sizes, "--no-compile")
    assert (code, errors) == (0, "")
    assert f"{schedule} for sgemm" in shown
