"""The parts of the evidence, made small and run on the GPU that is not there."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from gemmdsl.runtime.sanitize import Sanitized
from gemmdsl.testing.schedules import SMALL
from gemmdsl.testing.schedules import specs as any_specs
from tests import examples
from tests.bench import libraries
from tests.gpu import evidence, tables
from tests.runtime.fake import World

FEW = [("tiles.gemm", "odd"), ("ladder.gemm", "v0_naive")]


class Here:
    """An executor that does things at once, in this process."""

    def __init__(self, processes: int, mp_context: object = None) -> None:
        return

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *exception: object) -> None:
        return

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(*arguments))
        return future


@pytest.fixture
def small(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(evidence, "SHAPES", [(36, 51, 10)])
    monkeypatch.setattr(evidence, "LARGE", (40, 50, 3))
    monkeypatch.setattr(evidence, "REPEATS", 2)
    monkeypatch.setattr(evidence, "compile_all", lambda texts, target, processes: None)
    monkeypatch.setattr(evidence.examples, "schedules", lambda: FEW)
    known = evidence.compile_spec
    monkeypatch.setattr(evidence, "compile_spec", lambda spec: world.know(known(spec)))
    for file, schedule in [
        *FEW,
        ("ladder.gemm", "v3_2"),
        ("ladder.gemm", "v5_async"),
        ("layouts.gemm", "fast_fortran"),
    ]:
        world.know(examples.kernel(file, schedule).cuda)
    monkeypatch.setitem(sys.modules, "torch", libraries.torch(world))
    return world


def test_times(small: World, tmp_path: Path) -> None:
    said: list[str] = []
    assert evidence.times(tmp_path, said.append, 1)
    assert said[-1] == "times: 2 timed"
    rows = json.loads((tmp_path / "times.json").read_text())["rows"]
    assert [row["status"] for row in rows] == ["timed", "timed"]


@pytest.mark.parametrize("part", ["suite", "candidates"])
def test_suite(small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    table = tmp_path / "few.toml"
    table.write_text(
        f'files = ["{examples.FOLDER / "tiles.gemm"}"]\n'
        'products = [\n{ shape = "36x51x10", schedule = "odd" },\n{ shape = 20, schedule = "odd" } ]'
    )
    monkeypatch.setattr(evidence, "SUITE", table)
    for name in examples.program("tiles.gemm").schedules:
        small.know(examples.kernel("tiles.gemm", name).cuda)
    said: list[str] = []
    assert getattr(evidence, part)(tmp_path, said.append, 1, commit="abc")
    assert said[-1] == f"{part}: geometric mean 1.000 x cuBLAS, worst 1.000 (36x51x10); 2 timed"
    data = json.loads((tmp_path / f"{part}.json").read_text())
    assert data["commit"] == "abc"
    lines = list(tables.suite(data))
    assert "| 36x51x10 | `odd` | general | 1000.00 |" in "\n".join(lines)
    assert "gemmdsl 0.1.0 at abc" in lines[0]


def test_drawn(small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(evidence, "specs", lambda: any_specs(SMALL))
    said: list[str] = []
    assert evidence.drawn(tmp_path, said.append, 1, 2, 4)
    assert said[-1] == "drawn: 2 schedules, 8 cases on GPU and emulator, 0 wrong or different"


def test_repeat(small: World, tmp_path: Path) -> None:
    said: list[str] = []
    assert evidence.repeat(tmp_path, said.append, 1)
    assert said[0] == "repeat: 2 runs of 2 schedules, 0 with other bits"
    assert said[-1] == f"large: C has 2000 elements, 2^31 are {2**31}: 3 verified"


@pytest.mark.parametrize("clean", [True, False])
def test_sanitize(small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: bool) -> None:
    monkeypatch.setattr(evidence, "sanitized", lambda sources, tool: Sanitized(clean, "told", "more"))
    said: list[str] = []
    assert evidence.sanitize(tmp_path, said.append, 2) is clean
    assert said[-1].startswith(f"sanitize: clean examples: memcheck {2 * clean} of 2")
