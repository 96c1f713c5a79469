"""Reports: text as expected, JSON in its form, a page without the network, and the command."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from gemmdsl import checker
from gemmdsl.analysis.access import Access, Count, summed
from gemmdsl.analysis.compiled import Compiled
from gemmdsl.analysis.shape import tight
from gemmdsl.cli import group
from gemmdsl.diagnostics import GemmError
from gemmdsl.explain.advice import as_diff, cost_of, mended
from gemmdsl.explain.compiling import Mend, Trials
from gemmdsl.explain.document import SCHEMA, document
from gemmdsl.explain.model import Model, model
from gemmdsl.explain.page import page
from gemmdsl.explain.pictures import ownership, timeline
from gemmdsl.explain.text import text
from gemmdsl.ir import Kernel
from gemmdsl.passes import build
from gemmdsl.spec import CopySteps
from gemmdsl.toolchain import Usage
from tests import examples, golden
from tests.analysis.models import as_written, needs_toolkit
from tests.examples import FOLDER

GOLDENS = Path(__file__).parent / "golden"
TEXTS = ("v0_naive", "v2_4x4_padded", "v3", "v5_async")
SPLIT = ("long_k", "long_k_repeatable")


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


@cache
def split(schedule: str) -> tuple[checker.Program, Model]:
    """A product whose K is shared among blocks, from the text alone."""
    program = checker.loads((FOLDER / "split.gemm").read_text(encoding="utf-8"), "split.gemm")
    spec = program.spec(schedule)
    return program, model(program, spec, tight(spec.problem, 131, 135, 1001), compile=False)


@pytest.mark.parametrize("schedule", SPLIT)
def test_text_of_kernels_that_share_k(schedule: str) -> None:
    program, found = split(schedule)
    golden.compare(GOLDENS / f"{schedule}.txt", without_lines(text(found, program)))


def test_kernels_around_the_main_one_are_told_apart() -> None:
    program, found = split("long_k")
    shown = json.loads(document(found, program))
    assert shown["as_written"]["totals"]["global_adds"]["requests"] > 0
    (scale,) = shown["other_kernels"]
    assert (scale["name"], scale["when"], scale["blocks"]) == ("sgemm_long_k_scale", "before", 5 * 17)
    # Five warps for each of the 131 lines.
    assert scale["as_written"]["totals"]["global_stores"]["requests"] == 5 * 131
    html = page(found, program)
    assert "sgemm_long_k_scale, 85 blocks of 256 threads: global memory as written" in html
    assert "all adds" in html


@pytest.mark.parametrize("schedule", TEXTS)
def test_text(schedule: str) -> None:
    found = report(schedule, suggest=schedule == "v3")
    golden.compare(GOLDENS / f"{schedule}.txt", without_lines(text(found, ladder())))


def test_no_golden_without_a_test() -> None:
    golden.assert_no_orphans(GOLDENS, [f"{schedule}.txt" for schedule in (*TEXTS, *SPLIT)])


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
    assert best.cost.wavefronts < cost_of(build(spec)).wavefronts
    assert best.shared_bytes == build(spec).shared_bytes
    diff = as_diff(program, best)
    assert diff.startswith("--- ladder.gemm\n+++ ladder.gemm\n@@")
    added = "".join(
        line[1:]
        for line in diff.splitlines(keepends=True)
        if line.startswith("+") and not line.startswith("+++")
    )
    changed = checker.loads(program.source.text + added, "ladder.gemm")
    assert cost_of(build(changed.spec(best.name))) == best.cost


def test_each_suggestion_beats_the_one_before() -> None:
    found = report("v3", suggest=True).suggested
    assert found is not None
    ranks = [suggestion.cost.rank for suggestion in found]
    assert len(ranks) == 3
    assert [suggestion.name for suggestion in found] == [f"v3_suggested_{number}" for number in (1, 2, 3)]
    together = ladder().source.text + "".join(f"\n{suggestion.text}" for suggestion in found)
    assert set(checker.loads(together).schedules) >= {suggestion.name for suggestion in found}
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks)) == len(ranks)


def test_a_conflict_is_mended_by_one_change() -> None:
    program = ladder()
    spec = program.spec("v3_1")
    accesses = as_written("ladder.gemm", "v3_1", (512, 512, 512))
    found = mended(program, spec, accesses)
    assert set(found) == {("shared", "A", "store")}
    mends = found["shared", "A", "store"]
    assert len(mends) == 2
    assert {mend.changes[0].group for mend in mends} == {"stage A"}


@pytest.mark.parametrize(
    "changes",
    [
        {"fragments": 1},
        {"read_first": "A"},
        {"fma_along": "M"},
        {"fma_snake": False},
        {"copy_steps": CopySteps()},
        {"unroll": 2},
        {"raster": 8},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_words_about_time_are_no_moves(changes: dict[str, object]) -> None:
    """They change when something is done, which counters of memory cannot see."""
    spec = checker.load(FOLDER / "fast.gemm").spec("fast_90_paired")
    if "fragments" in changes:
        changes = {**changes, "copy_steps": CopySteps()}
    other = replace(spec.schedule, **changes)  # type: ignore[arg-type]
    assert other != spec.schedule
    assert cost_of(build(replace(spec, schedule=other))) == cost_of(build(spec))


@pytest.mark.parametrize("size", [1, 129])
def test_one_block_is_singular(size: int) -> None:
    shown = text(report("v3", size), ladder())
    assert ("1 block of 256 threads" in shown) == (size == 1)
    assert ("note[tail]: 1 block for the 40 SMs of T4" in shown) == (size == 1)
    assert ("4 blocks of 256 threads" in shown) == (size == 129)
    assert not re.search(r"\b1 (blocks|threads|bytes|wavefronts|conflicts|requests)\b", shown)
    shown = page(report("v3", size), ladder())
    assert ("1 block of 256 threads" in shown) == (size == 1)
    assert f"the first wave reads {'1 row' if size == 1 else '2 rows'} of A's tiles" in shown


def test_every_output_has_an_owner() -> None:
    for schedule in ("v1_shared", "v3_2", "v4_warps"):
        owned = ownership(build(ladder().spec(schedule)))
        owners = [owner for row in owned.owners for owner in row]
        assert min(owners) == 0
        warp = owned.of_warp(1)
        assert {owner // 32 for row in warp.owners for owner in row if owner >= 0} == {1}


def test_timeline_multiplies_every_tile_in_order() -> None:
    for schedule in ("v1_shared", "v3_2", "v5_async"):
        events = timeline(build(ladder().spec(schedule)), 4)
        assert [event.tile for event in events if event.lane == "multiply"] == [0, 1, 2, 3]


@pytest.mark.parametrize("schedule", ["fast_90", "fast_128", "fast_75"])
def test_timeline_of_fragments(schedule: str) -> None:
    """Copies in the midst of a tile come once, and a tile is read and multiplied only when it has come."""
    program = checker.load(FOLDER / "fast.gemm")
    events = timeline(build(program.spec(schedule)), 6)
    for operand in "AB":
        lanes = (f"copy {operand}", f"store {operand}")
        assert [event.tile for event in events if event.lane in lanes] == list(range(6))
    barrier = read = 0
    seen = []
    arrived: dict[int, int] = {}
    for number, event in enumerate(events):
        match event.lane:
            case "barriers":
                barrier = number
            case "read":
                assert barrier > arrived[event.tile]
                read = event.tile
            case "multiply":
                assert event.tile in (read - 1, read)
                seen.append(event.tile)
            case lane if lane.startswith(("copy", "store")) and event.tile >= 0:
                arrived[event.tile] = number
            case _:
                pass
    assert list(dict.fromkeys(seen)) == list(range(6))
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, marks=pytest.mark.slow if file == "ladder.gemm" else ())
        for file in examples.files()
    ],
)
def test_every_example_is_explained(file: str) -> None:
    program = checker.load(FOLDER / file)
    for schedule in program.schedules:
        spec = program.spec(schedule)
        found = model(program, spec, tight(spec.problem, 384, 384, 384), compile=False)
        assert text(found, program).startswith(f"{schedule} for ")
        assert json.loads(document(found, program))["schedule"] == schedule
        for picture in re.findall(r"<svg.*?</svg>", page(found, program), re.DOTALL):
            ElementTree.fromstring(picture)


def test_multiples_beyond_a_tile_are_no_obstacle() -> None:
    source = (FOLDER / "ladder.gemm").read_text(encoding="utf-8")
    program = checker.loads(
        f"{source}\nschedule wide extends v3 {{\n  assume K % 64 == 0\n}}\n", "ladder.gemm"
    )
    costs = [cost_of(build(program.spec(schedule))) for schedule in ("v3", "wide")]
    assert costs[0] == costs[1]


def fake(kernel: Kernel, wavefronts: int, registers: int, spills: int = 0) -> Compiled:
    """Machine code of a kernel whose A is stored with so many wavefronts, two of them ideal."""
    access = Access("shared", "store", "A", "", 0, 4, Count(2, wavefronts, 2), None, ())
    usage = Usage("kernel", "sm_75", registers, 0, spills, spills, 0, 1, 0)
    return Compiled("kernel", "nvcc", usage, (access,), {}, {}, {}, 0)


@pytest.mark.parametrize(
    ("made", "but"),
    [
        ((2, 128, 0), ""),
        ((3, 128, 0), "as compiled, they take 3 wavefronts, and 4 without it"),
        ((2, 130, 0), "as compiled, 130 registers leave room for 1 of the 2 blocks per SM"),
        ((2, 128, 8), "as compiled, registers spill"),
        (None, "its machine code has something unknown"),
    ],
)
def test_what_speaks_against_a_change(
    made: tuple[int, int, int] | None, but: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ladder()
    spec = program.spec("v3_1")
    kernel = build(spec)
    shape = tight(spec.problem, 512, 512, 512)
    mends = mended(program, spec, as_written("ladder.gemm", "v3_1", (512, 512, 512)))["shared", "A", "store"]

    def machine_code(*_: object) -> tuple[Compiled | None, str]:
        return (None, "unknown") if made is None else (fake(kernel, *made), "")

    monkeypatch.setattr("gemmdsl.explain.compiling.machine_code", machine_code)
    now = fake(kernel, 4, 128)
    mend = Trials(kernel, shape, now).mend(("shared", "A", "store"), mends)
    assert (mend.tried, mend.but) == (True, but)
    assert mend.suggestion == mends[0]
    assert Trials(kernel, shape, now).better(mends[0]) == (but == "" or made == (3, 128, 0))
    assert Trials(kernel, shape, None).mend(("shared", "A", "store"), mends) == Mend(mends[0])


def test_advice_says_what_it_knows() -> None:
    found = report("v3_1")
    said = next(finding.advice for finding in found.findings if finding.code == "bank-conflict")
    assert said == "`stage A { swizzle }` removes the conflicts, as written; costs no memory"


def test_advice_is_a_word_of_the_language() -> None:
    program = ladder()
    for schedule in program.schedules:
        for finding in report(schedule, 512).findings:
            for words in re.findall("`(.*?)` (?:removes|takes)", finding.advice):
                extended = f"{program.source.text}\nschedule advised extends {schedule} {{ {words} }}\n"
                assert checker.loads(extended, "ladder.gemm").spec("advised")


def test_advice_tells_of_vectors_that_it_costs() -> None:
    program = checker.loads(
        (FOLDER / "ladder.gemm").read_text(encoding="utf-8")
        + "\nschedule wide extends v2_4x4 { stage B { vector 4 } }\n"
    )
    spec = program.spec("wide")
    found = model(program, spec, tight(spec.problem, 512, 512, 512), compile=False)
    told = "; ".join(finding.advice for finding in found.findings)
    assert (
        "`thread 4 x 4 as 1 x 1` removes the conflicts, as written; costs no memory; reads of B become 32"
        in told
    )


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
        ((LADDER, "-s", "v3_2", "--shape", "2048x1024"), 2, "Invalid value for '--shape'"),
        ((LADDER, "-s", "v3_2", "--shape", "99999999999"), 2, "Invalid value for '--shape'"),
        ((LADDER, "-s", "v3_2", "--shape", "9" * 5000), 2, "Invalid value for '--shape'"),
        ((LADDER, "-s", "v3_2", "-o", LADDER), 2, "is the file to read"),
        ((LADDER, "-s", "v3_2", "-o", ""), 2, "cannot be empty"),
        ((LADDER,), 1, "name one"),
        ((LADDER, "-s", "v9"), 1, "no schedule `v9`"),
        (("missing.gemm", "-s", "v3"), 1, "missing.gemm"),
    ],
)
def test_command_refuses(words: tuple[str, ...], status: int, said: str) -> None:
    code, _, errors = run(*words)
    assert code == status
    assert said in errors


def test_no_part_of_k_has_rows_of_its_own() -> None:
    code, shown, errors = run(
        *(str(FOLDER / "split.gemm"), "-s", "long_k", "--shape", "256x256x16384", "--no-compile")
    )
    assert (code, errors) == (0, "")
    assert "the first wave reads 2 rows of A's tiles and 2 columns of B's, in 32 parts of K" in shown


@pytest.mark.parametrize("sizes", ["0", "1x1x1", "128x128x0", "7x513x33"])
@pytest.mark.parametrize("schedule", ["v0_naive", "v2_4x4", "v5_async"])
def test_any_shape_can_be_explained(schedule: str, sizes: str) -> None:
    code, shown, errors = run(LADDER, "-s", schedule, "--shape", sizes, "--no-compile")
    assert (code, errors) == (0, "")
    assert f"{schedule} for sgemm" in shown


def test_a_wide_copy_is_told_by_lines_and_rows() -> None:
    """B's tile of `row` begins 32 bytes into a slot: what comes from four lines goes to five rows."""
    program = checker.load(FOLDER / "shapes.gemm")
    spec = program.spec("row")
    found = model(program, spec, tight(spec.problem, 1, 8192, 8192), compile=False)
    said = " ".join(text(found, program).split())
    assert "take 7 wavefronts where 4 would do: each takes what lies in one line" in said
    assert "B copy: 8 wavefronts, from 4 lines of 128 bytes to 5 rows of banks" in said


def test_leading_dimensions_choose_the_path() -> None:
    """Rows that begin at any word allow no vectors: of copies there are more, and of sectors, too."""
    words = ["explain", str(FOLDER / "fast.gemm"), "--schedule", "fast_90", "--shape", "512", "--no-compile"]
    for given, path in (
        ([], "fast"),
        (["--ldb", "516"], "fast"),
        (["--lda", "513", "--ldb", "513"], "general"),
    ):
        result = CliRunner().invoke(group, [*words, *given])
        assert result.exit_code == 0
        assert f"path {path}" in result.stdout.splitlines()[0]
    for given in (["--lda", "511"], ["--ldc", "0"], ["--ldb", "-1"], ["--ldb", str(2**31)]):
        result = CliRunner().invoke(group, [*words, *given])
        assert result.exit_code == 2
        assert f"Invalid value for '{given[0]}'" in result.stderr
