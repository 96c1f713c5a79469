"""Suites: their tables and what is wrong with them, and figures on a GPU that is played by the host."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gemmdsl import resources
from gemmdsl.bench import Settings
from gemmdsl.bench.baseline import cublas
from gemmdsl.bench.origin import origin_of
from gemmdsl.bench.suite import SuiteReport, run_suite, tasks_of
from gemmdsl.bench.suite_report import suite_failed, suite_json, suite_plot, suite_table, verdict
from gemmdsl.bench.suite_table import LAYOUTS, load_table
from gemmdsl.cli import group
from gemmdsl.diagnostics import GemmError
from gemmdsl.runtime import gpu
from tests import examples
from tests.bench import libraries
from tests.runtime.fake import World

GOOD = '{ shape = 5, schedule = "odd" }'
QUICK = Settings(batches=5, batch_seconds=0.003, l2_times=0.01)
OWN = examples.FOLDER / "suite.toml"
FILES = f'files = ["{examples.FOLDER / "layouts.gemm"}", "{examples.FOLDER / "tiles.gemm"}"]\n'


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    def write(*products: str, files: str = FILES) -> Path:
        path = tmp_path / "suite.toml"
        lines = "".join(f"  {product},\n" for product in products)
        path.write_text(f"{files}products = [\n{lines}]\n")
        return path

    return write


@pytest.fixture
def known(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    for file in ("layouts.gemm", "tiles.gemm"):
        for name in examples.program(file).schedules:
            world.know(examples.kernel(file, name).cuda)
    monkeypatch.setitem(sys.modules, "torch", libraries.torch(world))
    return world


def measured(path: Path, candidates: bool = False, chosen: Settings = QUICK) -> SuiteReport:
    table = load_table(path)
    return run_suite(gpu(), "suite.toml", tasks_of(table, table.products, candidates), cublas(), chosen)


def test_the_suite_of_the_examples() -> None:
    found = load_table(OWN)
    assert resources.suite_table() == OWN
    shapes = {product.shape for product in found.products}
    squares = (512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 1000, 1023, 1025, 4097, 2049)
    assert shapes == {
        *((size,) * 3 for size in squares),
        *((16, 4096, 4096), (4096, 16, 4096), (1, 8192, 8192), (256, 256, 16384), (64, 64, 65536)),
        *((8192, 8192, 64), (12672, 4096, 4096), (35, 79, 19), (3, 3, 431)),
    }
    for size in (1000, 4096):
        assert {one.layout for one in found.products if one.shape == (size,) * 3} == set(LAYOUTS)
    assert {(one.shape[0], one.pad) for one in found.products if one.pad} == {(2049, 2), (2048, 1)}


def test_figures(known: World, table: Callable[..., Path]) -> None:
    times = {"sgemm_odd_general": 0.5, "cublas": 1.0, "gemmdsl_fill": 0.25, "nt_fast_nt_general": 4.0}
    known.milliseconds = lambda name: times.get(name, 1.0)
    path = table(
        '{ shape = "36x51x10", schedule = "odd" }',
        '{ shape = 30, layout = "NT", pad = 3, schedule = "fast_nt" }',
    )
    found = measured(path)
    first, second = found.entries
    assert (first.product.name, first.row.status, first.row.ratio) == ("36x51x10", "timed", 2.0)
    assert (second.product.name, second.row.status, second.row.ratio) == ("30 NT pad 3", "timed", 0.25)
    assert (second.row.pad, second.row.entry) == (3, "general")
    assert found.launch == pytest.approx(0.00025)
    assert (first.bound, first.share) == ("launch", pytest.approx(0.5))
    assert found.mean == pytest.approx(0.5**0.5)
    assert found.worst is second
    assert not suite_failed(found)
    assert verdict(found) == "geometric mean 0.707 x cuBLAS, worst 0.250 (30 NT pad 3); 2 timed"
    text = suite_table(found)
    assert "Fake H200 (sm_90)" in text
    lines = [line.split() for line in text.splitlines() if line.startswith("36x51x10")]
    assert lines == [["36x51x10", "odd", "general", "500.00", "0.00", "TFLOP/s", "2.000", "launch", "50.0%"]]
    assert "Candidates" not in text
    data = json.loads(suite_json(found))
    assert data["schema"] == "gemmdsl.suite/1"
    assert (data["device"], data["target"], data["worst"]) == ("Fake H200", "sm_90", "30 NT pad 3")
    assert [entry["row"]["ratio"] for entry in data["entries"]] == [2.0, 0.25]
    assert data["entries"][1]["product"] == {
        "name": "30 NT pad 3", "shape": [30, 30, 30], "layout": "NT", "pad": 3, "schedule": "fast_nt"
    }  # fmt: skip


def test_what_binds(known: World, table: Callable[..., Path]) -> None:
    known.milliseconds = lambda name: {"gemmdsl_fill": 1e-6, "gemmdsl_peak": 1e-3}.get(name, 1.0)
    path = table('{ shape = "700x700x2", schedule = "odd" }')
    (entry,) = measured(path).entries
    assert (entry.bound, entry.row.cold) == ("DRAM", True)
    (entry,) = measured(path, chosen=replace(QUICK, l2_times=0.0)).entries
    assert entry.row.cold
    known.milliseconds = lambda name: {"gemmdsl_fill": 1e-6, "copy": 1e-6}.get(name, 1.0)
    (entry,) = measured(path).entries
    assert entry.bound == "FMA"


def test_candidates(known: World, table: Callable[..., Path]) -> None:
    times = {"sgemm_odd_general": 2.0, "sgemm_k6_general": 0.5, "cublas": 1.0}
    known.milliseconds = lambda name: times.get(name, 1.0)
    found = measured(table('{ shape = "20x30x7", name = "small 🚀", schedule = "odd" }'), candidates=True)
    (entry,) = found.entries
    names = [row.schedule for row in entry.candidates]
    assert set(names) == {"fast_nn", *examples.program("tiles.gemm").schedules}
    assert (names[0], names[-1]) == ("k6", "odd")
    assert (entry.row.schedule, entry.row.ratio) == ("odd", 0.5)
    text = suite_table(found)
    assert "  small 🚀: k6 2.000, " in text
    assert '  { shape = "20x30x7", name = "small 🚀", schedule = "k6" },' in text
    suggested = text.partition("as a table:\n")[2]
    assert tomllib.loads(f"products = [\n{suggested}]")["products"][0]["name"] == "small 🚀"
    assert len(json.loads(suite_json(found))["entries"][0]["candidates"]) == len(names)


def test_a_failure_is_told_and_the_rest_is_measured(known: World, table: Callable[..., Path]) -> None:
    path = table('{ shape = 30000, schedule = "odd" }', '{ shape = 20, schedule = "odd" }')
    found = measured(path)
    first, second = found.entries
    assert (first.row.status, second.row.status) == ("broken", "timed")
    assert "memory" in first.row.reason
    assert suite_failed(found)
    assert f"broken: {first.row.reason}" in suite_table(found)
    assert json.loads(suite_json(found))["entries"][0]["bound"] is None


def test_a_baseline_that_gives_up(known: World, table: Callable[..., Path]) -> None:
    torch: Any = sys.modules["torch"]
    plain = torch.mm

    def multiply(a: Any, b: Any, out: Any) -> None:
        if out.shape == (7, 7):
            raise RuntimeError("CUDA out of memory\nand more")
        plain(a, b, out)

    torch.mm = multiply
    found = measured(table(GOOD, '{ shape = 7, schedule = "odd" }', '{ shape = 6, schedule = "odd" }'))
    assert [entry.row.status for entry in found.entries] == ["timed", "broken", "timed"]
    assert found.entries[1].row.reason == "cuBLAS FP32 (torch 2.11.0) failed: CUDA out of memory"


def test_a_lost_device(known: World, table: Callable[..., Path]) -> None:
    def milliseconds(name: str) -> float:
        known.fail_waiting |= name.startswith("nt_fast_nt")
        return 1.0

    known.milliseconds = milliseconds
    products = (GOOD, '{ shape = 6, layout = "NT", schedule = "fast_nt" }', '{ shape = 7, schedule = "odd" }')
    found = measured(table(*products))
    assert [entry.row.status for entry in found.entries] == ["timed", "broken", "broken"]
    assert verdict(found).endswith("worst 1.000 (5); 2 broken, 1 timed")


def test_a_schedule_that_does_not_fit_is_a_failure(known: World, table: Callable[..., Path]) -> None:
    known.know(examples.kernel("assume.gemm", "exact").cuda)
    files = f'files = ["{examples.FOLDER / "assume.gemm"}"]\n'
    found = measured(table('{ shape = 50, schedule = "exact" }', files=files))
    assert found.entries[0].row.status == "unfit"
    assert suite_failed(found)
    assert found.worst is None
    assert verdict(found) == "1 unfit"


@pytest.mark.parametrize(
    ("product", "code", "told", "marked"),
    [
        ("{ shape = 5, schedule = odd }", "G954", "this is not TOML", ""),
        ('{ shap = 5, schedule = "odd" }', "G955", "unknown key `shap`; did you mean `shape`?", "shap"),
        ('{ shape = "5x6", schedule = "odd" }', "G955", "`shape` is of the form", "shape"),
        ('{ shape = 0, schedule = "odd" }', "G955", "an extent is from 1 to 2147483647", "shape"),
        (f'{{ shape = 0x{"f" * 5000}, schedule = "odd" }}', "G955", "an extent is from 1", "shape"),
        ('{ shape = true, schedule = "odd" }', "G955", "`shape` is of the form", "shape"),
        ('{ schedule = "odd" }', "G955", "`shape` is of the form", '{ schedule = "odd" }'),
        ("{ shape = 5 }", "G955", "`schedule` has to name a schedule", "{ shape = 5 }"),
        ("{ shape = 5 }, # no schedule", "G955", "`schedule` has to name", "{ shape = 5 }"),
        ('{ shape = 5, layout = "nt", schedule = "odd" }', "G955", "`layout` is one of NN, NT", "layout"),
        ('{ shape = 5, pad = -1, schedule = "odd" }', "G955", "`pad` is a number from 0", "pad"),
        ('{ shape = 5, name = "", schedule = "odd" }', "G955", "`name` has to be a text", "name"),
        ('{ shape = 5, name = "6", schedule = "ood" }', "G956", "did you mean `odd`?", "schedule"),
        (
            '{ shape = 5, layout = "TT", schedule = "odd" }',
            "G957",
            "`odd` computes NN, and this product is TT",
            "schedule",
        ),
        ('{ shape = "5x5x5", schedule = "k6" }', "G958", "two products have the name `5`", "shape"),
    ],
)
def test_mistakes(table: Callable[..., Path], product: str, code: str, told: str, marked: str) -> None:
    with pytest.raises(GemmError) as caught:
        load_table(table(GOOD, product))
    assert [found.code for found in caught.value.diagnostics if found.code == code] == [code]
    found = next(found for found in caught.value.diagnostics if found.code == code)
    assert told in found.message
    assert found.position is not None
    assert found.position[0] == 4
    assert found.source is not None
    assert found.span is not None
    if marked:
        assert found.source.text[found.span.start : found.span.end] == marked
    if code == "G957":
        assert found.notes[0].text == "for TT there is `fast_tt`"


def test_a_schedule_for_a_column_major_c(table: Callable[..., Path]) -> None:
    with pytest.raises(GemmError) as caught:
        load_table(table('{ shape = 5, layout = "TT", schedule = "fast_fortran" }'))
    (found,) = caught.value.diagnostics
    assert found.code == "G957"
    assert found.notes[0].text == "the products of a suite have a row-major C; for TT there is `fast_tt`"


@pytest.mark.parametrize(
    ("files", "code", "told"),
    [
        ("", "G955", "`files` has to be a list"),
        ("files = []\n", "G955", "`files` has to be a list"),
        ('files = ["nowhere.gemm"]\n', "G001", "nowhere.gemm cannot be read"),
        ('files = [" "]\n', "G955", "`files` has to be a list"),
        (f"{FILES}{'k' * 5000} = 1\n", "G955", f"unknown key `{'k' * 60}...`"),
        (f"extra = {'[' * 2000}{']' * 2000}\n", "G954", "brackets are nested too deeply"),
        (f"extra = {'1' * 5000}\n", "G954", "a number in this TOML has too many digits"),
        (FILES + "extra = 1\n", "G955", "unknown key `extra`; there are files, products"),
    ],
)
def test_mistakes_about_files(table: Callable[..., Path], files: str, code: str, told: str) -> None:
    with pytest.raises(GemmError) as caught:
        load_table(table(GOOD, files=files))
    assert caught.value.diagnostics[0].code == code
    assert told in caught.value.diagnostics[0].message


def test_a_name_that_two_files_have(table: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "copy.gemm").write_text((examples.FOLDER / "tiles.gemm").read_text())
    with pytest.raises(GemmError) as caught:
        load_table(table(GOOD, files=FILES.replace("]", ', "copy.gemm"]')))
    assert {found.code for found in caught.value.diagnostics} == {"G956"}
    assert "both have a schedule `odd`" in str(caught.value)
    assert caught.value.diagnostics[0].position == (1, FILES.index("]") + 4)


def test_products_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "suite.toml"
    for rest in ("", "products = []", "products = 5"):
        path.write_text(FILES + rest)
        with pytest.raises(GemmError, match="`products` has to be a list"):
            load_table(path)


def test_headed_tables_are_as_good(tmp_path: Path) -> None:
    path = tmp_path / "suite.toml"
    head = f"{FILES}\n[[products]]\nshape = 5\nschedule = 'odd'\n\n[[products]]\nshape = 6\n"
    path.write_text(head + "schedule = 'k6'\n")
    assert [product.schedule for product in load_table(path).products] == ["odd", "k6"]
    path.write_text(head + "schedule = 'k7'\n")
    with pytest.raises(GemmError) as caught:
        load_table(path)
    assert caught.value.diagnostics[0].position == (9, 1)


def test_products_on_one_line_have_places_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "suite.toml"
    first = "{ shape = 5, name = '}{ \\', schedule = 'odd' }, # { and [[\n"
    second = '{ shape = 6, schedule = \'odd\', name = """}{\\"""" }, { shape = 7, schedule = \'x\' }'
    path.write_text(f"{FILES}products = [{first}{second}]\n")
    with pytest.raises(GemmError) as caught:
        load_table(path)
    assert "no file has a schedule `x`" in str(caught.value)
    assert caught.value.diagnostics[0].position == (3, second.rindex("schedule") + 1)


@pytest.mark.parametrize(("data", "code"), [(b"a\0b", "G003"), (b"#" * 300_000, "G004"), (None, "G002")])
def test_what_is_no_table(tmp_path: Path, data: bytes | None, code: str) -> None:
    path = tmp_path / "suite.toml"
    if data is None:
        path.mkdir()
    else:
        path.write_bytes(data)
    with pytest.raises(GemmError, match="a table") as caught:
        load_table(path)
    assert caught.value.diagnostics[0].code == code


def bench(*words: str) -> Result:
    return CliRunner().invoke(group, ["bench", *words])


def test_the_command(known: World, table: Callable[..., Path]) -> None:
    path = str(table(GOOD, '{ shape = 6, layout = "NT", schedule = "fast_nt" }'))
    result = bench("--suite", path, "--batches", "5")
    assert result.exit_code == 0, result.output
    assert "suite.toml against cuBLAS FP32 (torch 2.11.0)" in result.output
    assert "2 timed" in result.output
    result = bench("--suite", path, "--only", "*NT", "--output-format", "json")
    assert [entry["product"]["name"] for entry in json.loads(result.stdout)["entries"]] == ["6 NT"]
    result = bench("--suite", path, "--only", "5", "--candidates")
    assert result.exit_code == 0, result.output
    assert "Candidates, the fastest first:" in result.output
    known.milliseconds = lambda name: 1e-12 if "odd" in name else 1.0
    result = bench("--suite", path)
    assert result.exit_code == 1
    assert "impossible:" in result.output


def test_the_checkouts_own_table(known: World, monkeypatch: pytest.MonkeyPatch) -> None:
    result = bench("--suite", "--only", "nothing")
    assert result.exit_code == 2
    assert "no product is called 'nothing': there are 512, 768," in result.output
    monkeypatch.setattr(resources, "_PACKAGE", Path("/nowhere/gemmdsl"))
    result = bench("--suite")
    assert result.exit_code == 2
    assert "an installed gemmdsl has no suite of its own" in result.output


@pytest.mark.parametrize(
    "words",
    [
        ("--suite", "t.toml", "some.gemm"),
        ("--suite", "t.toml", "-s", "odd"),
        ("--suite", "t.toml", "--shapes", "512"),
        ("--suite", "t.toml", "--verify-only"),
        ("some.gemm", "--only", "512"),
        ("some.gemm", "--candidates"),
        (),
    ],
)
def test_misuse(words: tuple[str, ...]) -> None:
    assert bench(*words).exit_code == 2


def test_the_plot_is_not_written_over_the_table(known: World, table: Callable[..., Path]) -> None:
    path = table(GOOD)
    svg = path.with_suffix(".svg")
    svg.write_text(path.read_text())
    result = bench("--suite", str(svg), "--plot", str(svg))
    assert result.exit_code == 2
    assert "is the file to read" in result.output


def test_a_plot_that_could_not_be_drawn_is_refused_first(
    known: World, table: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, picture = str(table(GOOD)), str(tmp_path / "x.svg")
    result = bench("--suite", path, "--plot", picture, "--against", "none")
    assert (result.exit_code, known.launches) == (2, [])
    assert "--plot shows ratios of a suite" in result.output
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "error[G952]" in bench("--suite", path, "--plot", picture).output
    monkeypatch.setattr("gemmdsl.bench.plot.check_library", lambda: None)
    assert "error[G701]" in bench("--suite", path, "--plot", str(tmp_path / "no" / "x.svg")).output
    for name in ("torch", "cupy"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "error[G951]" in bench("--suite", path, "--plot", picture).output
    assert known.launches == []
    assert [found.name for found in tmp_path.iterdir()] == ["suite.toml"]


def test_figures_are_shown_although_the_plot_fails(
    known: World, table: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    known.milliseconds = lambda name: 1e-12 if "odd" in name else 1.0
    result = bench("--suite", str(table(GOOD)), "--plot", str(tmp_path / "x.svg"))
    assert "impossible:" in result.stdout
    assert "there is nothing to draw: no kernel was compared" in result.stderr


def test_a_plot(known: World, table: Callable[..., Path]) -> None:
    pytest.importorskip("matplotlib")
    found = measured(table(GOOD))
    assert suite_plot(found, "svg").startswith(b"<?xml")
    with pytest.raises(GemmError, match="nothing to draw"):
        suite_plot(replace(found, entries=()), "svg")


def test_where_figures_are_from(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    version = tmp_path / "version"
    version.write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Mon Jan 1\nGCC version: 1.2"
    )
    monkeypatch.setattr("gemmdsl.bench.origin._DRIVER", version)
    found = origin_of(gpu(), "abc")
    assert (found.driver, found.commit, found.target) == ("580.159.04", "abc", "sm_90")
    monkeypatch.setattr("gemmdsl.bench.origin._DRIVER", tmp_path / "none")
    monkeypatch.setattr("gemmdsl.bench.origin._PACKAGE", tmp_path / "gemmdsl")
    found = origin_of(gpu())
    assert (found.driver, found.commit) == ("", "")


def test_padded_operands_reach_cublas(known: World, table: Callable[..., Path]) -> None:
    """The fake's cuBLAS writes where our kernel reads: both see the same leading dimensions."""
    seen: list[Any] = []
    torch: Any = sys.modules["torch"]
    plain = torch.mm
    torch.mm = lambda a, b, out: (seen.append((a.strides, b.strides, out.strides)), plain(a, b, out))
    measured(table('{ shape = "8x6x5", layout = "NT", pad = 2, schedule = "fast_nt" }'))
    assert seen[0] == ((4 * 7, 4), (4, 4 * 7), (4 * 8, 4))
