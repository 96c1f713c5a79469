"""Verdicts and figures, on a GPU that is played by the host."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from gemmdsl.bench import Row, Settings, Subject, measure, report
from gemmdsl.bench.baseline import Buffers, cublas
from gemmdsl.bench.plot import drawn
from gemmdsl.bench.session import Report, Shape
from gemmdsl.bench.support import Ceilings
from gemmdsl.bench.timing import Samples
from gemmdsl.cli import group
from gemmdsl.diagnostics import GemmError
from gemmdsl.occupancy import occupancy
from gemmdsl.runtime import gpu
from gemmdsl.spec import Operand, Order, Problem
from gemmdsl.target import TARGETS
from gemmdsl.toolchain import Cubin, ToolError, Usage
from tests import examples
from tests.bench import libraries
from tests.runtime.fake import World
from tests.runtime.fake_memory import strided

QUICK = Settings(batches=5, batch_seconds=0.003, l2_times=0.01)
SHAPE: Shape = (36, 51, 10)


def subject(world: World, file: str = "tiles.gemm", schedule: str = "odd") -> Subject:
    kernel = examples.kernel(file, schedule)
    world.know(kernel.cuda)
    return Subject(file, kernel)


def usage(name: str, spilled: int = 0) -> Usage:
    return Usage(name, "sm_90", 40, 0, spilled, spilled, 2048, 1, 400)


def edited(world: World, pattern: str, new: str) -> Subject:
    """A kernel with a mistake."""
    kernel = examples.kernel("tiles.gemm", "odd")
    text, count = re.subn(pattern, new, kernel.source)
    assert count
    kernel = kernel.with_source(text)
    world.know(kernel.cuda)
    return Subject("tiles.gemm", kernel)


@pytest.fixture
def torch(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = libraries.torch(world)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_figures(world: World, torch: Any) -> None:
    world.usage = tuple(usage(f"sgemm_odd_{path}") for path in ("fast", "edge", "general"))
    times = {"sgemm_odd_general": 0.5, "sgemm_t6x10_general": 2.0, "cublas": 1.0}
    world.milliseconds = lambda name: times.get(name, 1.0)
    seen: list[str] = []
    found = measure(
        gpu(),
        [subject(world), subject(world, schedule="t6x10")],
        [SHAPE, (70, 50, 5)],
        cublas(),
        QUICK,
        seen.append,
    )
    assert not torch.backends.cuda.matmul.allow_tf32
    assert [(row.schedule, row.shape, row.status) for row in found.rows] == [
        ("odd", SHAPE, "timed"),
        ("odd", (70, 50, 5), "timed"),
        ("t6x10", SHAPE, "timed"),
        ("t6x10", (70, 50, 5), "timed"),
    ]
    assert len(seen) == 4
    first, whole, slow, _ = found.rows
    assert first.samples is not None
    assert first.baseline is not None
    assert (first.entry, whole.entry) == ("general", "fast")
    assert first.samples == Samples((0.0005,) * 5, 6, True)
    assert (first.baseline.calls, first.ratio, slow.ratio) == (3, 2.0, 0.5)
    assert first.flops == pytest.approx(2 * 36 * 51 * 10 / 0.0005)
    assert first.share_of_peak == pytest.approx(first.flops / found.ceilings.flops)
    assert (first.registers, first.spilled) == (40, 0)
    assert 0 < first.error < 1e-5
    assert found.against == "cuBLAS FP32 (torch 2.11.0)"
    assert world.graphs == 0
    assert world.captures == {}
    assert not report.failed(found.rows)


def test_buffers_are_rotated_until_they_do_not_fit_into_the_cache(world: World) -> None:
    (row,) = measure(gpu(), [subject(world)], [SHAPE], None, replace(QUICK, l2_times=0.05)).rows
    assert (row.sets, row.cold) == (5, False)
    (row,) = measure(gpu(), [subject(world)], [(300, 300, 100)], None, replace(QUICK, l2_times=3.0)).rows
    assert (row.sets, row.cold) == (6, True)


@pytest.mark.parametrize(
    ("pattern", "new", "told"),
    [
        (r"fmaf\((.*?\[i\]), (\w+)\[j\], acc", r"fmaf(\1, \2[i], acc", "small integers"),
        # Operands rounded as TF32 does: integers do not show it.
        (
            r"fmaf\((.*?\[i\]), (.*?\[j\]), acc",
            r"fmaf(static_cast<float>(static_cast<int>(\1 * 1024.0f)) / 1024.0f, \2, acc",
            "numbers in",
        ),
        (r"fmaf\(beta, ", "fmaf(2.0f * beta, ", "numbers in"),
    ],
    ids=["wrong index", "rounded operands", "twice beta"],
)
def test_a_wrong_kernel_is_not_timed(world: World, pattern: str, new: str, told: str) -> None:
    right, wrong = subject(world), edited(world, pattern, new)
    rows = measure(gpu(), [wrong, right], [SHAPE], None, QUICK).rows
    assert [row.status for row in rows] == ["wrong", "timed"]
    assert told in rows[0].reason
    assert rows[0].samples is None
    assert report.failed(rows)


def test_an_element_that_is_not_written_is_poison(world: World) -> None:
    # Of each row, the last element.
    lazy = edited(world, r"(store_global<C_VECTOR[^;]*;)", r"if (valid != 1) \1")
    (row,) = measure(gpu(), [lazy], [SHAPE], None, QUICK).rows
    assert row.status == "wrong"
    assert row.reason.startswith("36 of 1,836 elements are wrong for small integers, the first C[0, 50]")


def test_spills(world: World) -> None:
    world.usage = (usage("sgemm_odd_general", spilled=16),)
    (row,) = measure(gpu(), [subject(world)], [SHAPE], None, QUICK).rows
    assert (row.status, row.reason) == ("spills", "sgemm_odd_general spills 16 bytes of registers")
    assert report.failed([row])
    (row,) = measure(gpu(), [subject(world)], [SHAPE], None, replace(QUICK, allow_spills=True)).rows
    assert (row.status, row.spilled) == ("timed", 32)


def test_a_figure_above_the_ceiling_is_an_error(world: World) -> None:
    world.milliseconds = lambda name: 1e-9 if name.startswith("sgemm") else 1.0
    (row,) = measure(gpu(), [subject(world)], [SHAPE], None, QUICK).rows
    assert row.status == "impossible"
    assert "TFLOP/s are above the" in row.reason
    assert row.samples is None
    assert report.failed([row])


def test_what_does_not_apply_is_no_failure(world: World) -> None:
    world.capability = (7, 5)
    rows = measure(
        gpu(),
        [subject(world, "assume.gemm", "exact"), subject(world, "ladder.gemm", "v5_async")],
        [SHAPE],
        None,
        QUICK,
    ).rows
    assert [row.status for row in rows] == ["unfit", "unfit"]
    assert " assumes M % 128 == 0" in rows[0].reason
    assert "newer than sm_75" in rows[1].reason
    assert not report.failed(rows)


def test_what_cannot_be_compiled_is_told_in_its_row(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_cubin(text: str, target: str) -> Cubin:
        if "odd" in text:
            raise ToolError("G905", "nvcc failed")
        return world.compile(text, target)

    monkeypatch.setattr("gemmdsl.runtime.kernel.cached_cubin", compile_cubin)
    rows = measure(gpu(), [subject(world), subject(world, schedule="t6x10")], [SHAPE], None, QUICK).rows
    assert [(row.status, row.reason) for row in rows] == [("broken", "nvcc failed"), ("timed", "")]
    assert report.failed(rows)


def test_verifying_alone(world: World) -> None:
    (row,) = measure(gpu(), [subject(world)], [SHAPE], None, replace(QUICK, time=False)).rows
    assert (row.status, row.samples) == ("verified", None)


ORDERS = [(a, b, c) for a in Order for b in Order for c in Order]


@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.parametrize("orders", ORDERS, ids=lambda orders: "".join(order.value[0] for order in orders))
def test_cublas_multiplies(
    world: World, monkeypatch: pytest.MonkeyPatch, library: str, orders: tuple[Order, Order, Order]
) -> None:
    made = libraries.cupy(world) if library == "cupy" else {"torch": libraries.torch(world)}
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "torch" if library == "cupy" else "cupy", None)
    problem = Problem(
        "p",
        Operand("A", "M", "K", orders[0]),
        Operand("B", "K", "N", orders[1]),
        Operand("C", "M", "N", orders[2]),
    )
    m, n, k = 5, 7, 3
    device = gpu()
    memory = [device.allocate(4 * size, "x") for size in (m * k, k * n, m * n)]
    places = [int(block) for block in memory]
    rng = np.random.default_rng(1)
    views = [
        strided(place, shape, (shape[1], 1) if order is Order.ROW else (1, shape[0]))
        for place, shape, order in zip(places, ((m, k), (k, n), (m, n)), orders, strict=True)
    ]
    for view in views[:2]:
        view[...] = rng.integers(-9, 9, view.shape)
    baseline = cublas()
    assert library in baseline.title
    baseline.prepare(device, device.stream(), problem, (Buffers(*places, (m, n, k)),))(0)
    assert (views[2] == views[0] @ views[1]).all()


def test_without_graphs_all_are_launched_one_by_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name, module in libraries.cupy(world).items():
        monkeypatch.setitem(sys.modules, name, module)
    (row,) = measure(gpu(), [subject(world)], [SHAPE], cublas(), QUICK).rows
    assert row.samples is not None
    assert row.baseline is not None
    assert (row.samples.graph, row.baseline.graph) == (False, False)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    (row,) = measure(gpu(), [subject(world)], [SHAPE], None, QUICK).rows
    assert row.samples is not None
    assert not row.samples.graph


def test_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "cupy"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(GemmError, match="nothing to compare with") as caught:
        cublas()
    assert caught.value.diagnostics[0].code == "G951"


def test_libraries_without_cuda(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch: Any = libraries.torch(world)
    torch.backends.cuda.is_built = lambda: False
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    (tmp_path / "cupy.py").write_text("raise OSError('libcublas.so.13: cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(GemmError, match=r"torch is built without CUDA; libcublas\.so\.13: cannot open") as c:
        cublas()
    assert c.value.diagnostics[0].code == "G951"


def test_resident_blocks(world: World) -> None:
    row = gpu().limits.row
    assert row == TARGETS["sm_90"]
    world.usage = (Usage("sgemm_odd_general", "sm_90", 128, 0, 0, 0, 2048, 1, 400),)
    (measured,) = measure(gpu(), [subject(world)], [SHAPE], None, QUICK).rows
    assert measured.blocks_per_sm == occupancy(row, 70, 128, 2048).blocks == 5


@pytest.mark.parametrize(("name", "nearest"), [("sm_130", "sm_121"), ("sm_88", "sm_87"), ("sm_60", "sm_75")])
def test_a_device_that_is_not_in_the_table(world: World, name: str, nearest: str) -> None:
    limits = replace(gpu().limits, target=name, shared_per_sm=65536, threads_per_sm=1536)
    row = limits.row
    assert (row.name, row.shared_per_sm, row.max_threads_per_sm) == (name, 65536, 1536)
    assert row.max_blocks_per_sm == TARGETS[nearest].max_blocks_per_sm


def bench(*words: str) -> Result:
    return CliRunner().invoke(group, ["bench", str(examples.FOLDER / "tiles.gemm"), *words])


def test_the_command(world: World, torch: Any) -> None:
    subject(world)
    result = bench("-s", "odd", "--shapes", "36x51x10,40", "--batches", "5")
    assert result.exit_code == 0, result.output
    assert "against cuBLAS FP32 (torch 2.11.0)" in result.output
    lines = [line.split() for line in result.output.splitlines() if line.startswith("odd")]
    assert [line[:3] for line in lines] == [["odd", "36x51x10", "general"], ["odd", "40", "general"]]
    assert "2 timed" in result.output
    result = bench("-s", "odd", "--shapes", "40", "--output-format", "json")
    data = json.loads(result.stdout)
    assert (data["schema"], len(data["rows"])) == ("gemmdsl.bench/1", 1)
    row = data["rows"][0]
    assert (row["status"], row["ratio"], row["shape"], len(row["samples"]["seconds"])) == (
        "timed",
        1.0,
        [40] * 3,
        7,
    )
    result = bench("-s", "odd", "--shapes", "40", "--verify-only")
    assert "verified, largest error" in result.output
    assert "against nothing" in result.output


def test_the_command_fails_for_a_slow_lie(world: World) -> None:
    subject(world)
    world.milliseconds = lambda name: 1e-9 if name.startswith("sgemm") else 1.0
    result = bench("-s", "odd", "--shapes", "40", "--against", "none")
    assert result.exit_code == 1
    assert "impossible:" in result.output


@pytest.mark.parametrize("shapes", ["", "0", "5x5", "5x5x5x5", "5,x", str(2**31), "9" * 5000])
def test_shapes_that_are_none(shapes: str) -> None:
    result = bench("--shapes", shapes)
    assert result.exit_code == 2
    assert "Invalid value for '--shapes'" in result.output


def test_misuse(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bench("--plot", "x.gif").exit_code == 2
    assert bench("--batches", "4").exit_code == 2
    assert bench("--plot", "x.svg", "--verify-only").exit_code == 2
    result = bench("-s", "nothing")
    assert result.exit_code == 1
    assert "nothing" in result.output
    for name in ("torch", "cupy"):
        monkeypatch.setitem(sys.modules, name, None)
    subject(world)
    result = bench("-s", "odd", "--shapes", "40", "--against", "cublas")
    assert "error[G951]" in result.output
    result = bench("-s", "odd", "--shapes", "40")
    assert result.exit_code == 0
    assert "note[G951]" in result.stderr


def rows() -> tuple[Row, ...]:
    found = []
    for schedule, factor in (("v1", 1.0), ("v2", 0.5)):
        for size in (512, 1024):
            seconds = factor * size**3 * 1e-13
            found.append(
                Row("f", schedule, (size, size, size), "timed", samples=Samples((seconds,) * 5, 9, True),
                    baseline=Samples((seconds,) * 5, 9, True))
            )  # fmt: skip
    return tuple(found)


def test_plots(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    shown = Report("GPU", "sm_90", "CUDA 13.0", Ceilings(65e12, 4e12), "cuBLAS", rows())
    assert drawn(shown, "svg").startswith(b"<?xml")
    assert drawn(shown, "svg") == drawn(shown, "svg")
    assert drawn(replace(shown, rows=rows()[:1]), "png").startswith(b"\x89PNG")
    with pytest.raises(GemmError, match="nothing to draw"):
        drawn(replace(shown, rows=()), "svg")


def test_no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(GemmError, match="plots need matplotlib") as caught:
        drawn(Report("GPU", "sm_90", "CUDA 13.0", Ceilings(1.0, 1.0), "", rows()), "svg")
    assert caught.value.diagnostics[0].code == "G952"
