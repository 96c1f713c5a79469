"""compute-sanitizer, played by scripts, and what it would have watched."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gemmdsl.cli import group
from gemmdsl.runtime import gpu, load
from gemmdsl.runtime.exercise import exercises, perform
from gemmdsl.runtime.sanitize import TOOLS, judged, sanitized
from tests import examples
from tests.runtime.fake import World

SCRIPT = """\
#!{python}
import sys
if sys.argv[1] == "--version":
    print("NVIDIA (R) Compute Sanitizer")
    print("Version 2025.3.0.0 (build 1) (public-release)")
    sys.exit()
print("========= COMPUTE-SANITIZER")
tool, code = sys.argv[2], sys.argv[sys.argv.index("--error-exitcode") + 1]
{action}
"""
RACES = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at kernel.cu:120 and Read access at kernel.cu:130
=========     in kernel sgemm_odd_edge
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"


def sanitizer(folder: Path, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    path = folder / "bin" / "compute-sanitizer"
    path.parent.mkdir()
    path.write_text(SCRIPT.format(python=sys.executable, action=action))
    path.chmod(0o755)
    monkeypatch.setenv("GEMMDSL_CUDA", str(folder))


@pytest.mark.parametrize(
    ("file", "schedule"), [("tiles.gemm", "odd"), ("assume.gemm", "exact"), ("layouts.gemm", "fast_fortran")]
)
def test_every_entry_point_is_exercised(world: World, file: str, schedule: str) -> None:
    source = world.know(examples.kernel(file, schedule).cuda)
    kernel = load(gpu(), source)
    done = list(exercises(source))
    assert {exercise.entry for exercise in done} == set(source.plan.entries)
    assert all(perform(kernel, exercise) for exercise in done)
    assert world.used == {}


def test_a_clean_run() -> None:
    assert judged(0, CLEAN, "").clean


def test_what_was_found() -> None:
    found = judged(86, RACES, "")
    assert (found.clean, found.title) == (False, "1 hazard displayed (1 error, 0 warnings)")
    assert "Race reported between" in found.text
    assert "SUMMARY" not in found.text


@pytest.mark.parametrize(
    ("status", "text", "messages", "shown"),
    [
        (1, CLEAN, "sgemm_odd_edge is wrong for {'M': 5}", "sgemm_odd_edge is wrong"),
        (0, "", "", ""),
        (255, "========= Error: Device not supported", "", "Device not supported"),
    ],
)
def test_a_run_that_did_not_happen_is_not_clean(status: int, text: str, messages: str, shown: str) -> None:
    found = judged(status, text, messages)
    assert (found.clean, found.title) == (False, f"the run ended with status {status}")
    assert shown in found.text


def test_the_tool_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sanitizer(tmp_path, monkeypatch, 'print(f"========= ERROR SUMMARY: 0 errors, {tool}")')
    source = examples.kernel("tiles.gemm", "odd").cuda
    for tool in TOOLS:
        assert sanitized([source], tool).title == f"0 errors, {tool}"


def test_the_child_reads_its_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without pycuda the child gets as far as opening the GPU.
    action = "import os; sys.modules['pycuda.driver'] = None; exec(sys.argv[-1])"
    sanitizer(tmp_path, monkeypatch, action)
    found = sanitized([examples.kernel("tiles.gemm", "odd").cuda], "memcheck")
    assert not found.clean
    assert "running on a GPU needs pycuda" in found.text


def test_the_command(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = world.know(examples.kernel("tiles.gemm", "odd").cuda)
    sanitizer(tmp_path, monkeypatch, 'print("========= ERROR SUMMARY: 0 errors")')
    words = ["test", str(examples.FOLDER / "tiles.gemm"), "--schedule", "odd", "--device", "gpu"]
    words += ["--examples", "5", "--failures", str(tmp_path / "failures")]
    result = CliRunner().invoke(group, [*words, "--sanitize", "race,memory"])
    assert result.exit_code == 0, result.output
    assert "1 schedule right" in result.output
    assert len(world.launches) > 40
    (tmp_path / "bin" / "compute-sanitizer").unlink()
    (tmp_path / "bin").rmdir()
    sanitizer(tmp_path, monkeypatch, f"print({RACES!r}); sys.exit(int(code))")
    result = CliRunner().invoke(group, [*words, "--sanitize", "race"])
    assert result.exit_code == 1
    assert "race    compute-sanitizer's racecheck: 1 hazard displayed" in result.output
    assert kernel.plan.launcher == "sgemm_odd"


def test_run_on_the_gpu(world: World) -> None:
    world.know(examples.kernel("tiles.gemm", "odd").cuda)
    file = str(examples.FOLDER / "tiles.gemm")
    words = ["run", file, "--schedule", "odd", "--shape", "36x51x6", "--device", "gpu"]
    result = CliRunner().invoke(group, words)
    assert result.exit_code == 0, result.output
    assert "result  right: all 1836 elements equal numpy's" in result.output
    assert "ms on the GPU, one run" in result.output
    assert len(world.launches) == 1
    result = CliRunner().invoke(group, [*words, "--sanitize", "race"])
    assert result.exit_code == 2
