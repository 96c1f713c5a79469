"""Compilers that are too old, full disks, interruptions: a clear message, and nothing broken is left."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import gemmdsl
from gemmdsl.cli import group
from gemmdsl.cuda_source import CudaSource
from gemmdsl.emulator.run import run
from gemmdsl.toolchain.errors import ToolError
from tests.emulator.samples import NAIVE

ROOT = Path(__file__).parents[2]
MULTIPLY = (
    "import numpy as np\n"
    "from gemmdsl.emulator.run import run\n"
    "from tests.emulator.samples import NAIVE\n"
    "assert (run(NAIVE, np.eye(8), np.ones((8, 8))) == 1).all()\n"
)
EYE = np.eye(8)
NUMBERS = count()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GEMMDSL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "emulator"


def fresh() -> CudaSource:
    """A kernel that neither this process nor any cache has."""
    return replace(NAIVE, text=f"{NAIVE.text}// {next(NUMBERS)}\n")


def left(folder: Path) -> list[str]:
    """Endings of finished kernels and names of unfinished ones."""
    if not folder.is_dir():
        return []
    return sorted("making" if path.is_dir() else path.suffix for path in folder.iterdir())


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize(("compiler", "version"), [("g++", "__GNUC__=8"), ("clang++", "__clang_major__=11")])
def test_a_compiler_that_is_too_old(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, compiler: str, version: str, checked: bool
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    monkeypatch.setenv("CXX", f"{compiler} -U{version.partition('=')[0]} -D{version}")
    with pytest.raises(ToolError, match=r"is too old: the emulator needs GCC 9, Clang 12 or later") as caught:
        run(fresh(), EYE, EYE, checked=checked)
    assert caught.value.diagnostics[0].code == "G917"
    assert left(own_cache) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_compile(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    started = tmp_path / "started"
    slow = program(
        tmp_path / "slow",
        f"[ $1 = --version ] && exit\necho half > kernel.so; touch {started}; exec sleep 20",
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", MULTIPLY],
        env={**environment, "CXX": slow},
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, how)
    assert process.wait(timeout=30) != 0
    # Who is killed cannot tidy up; what is left is no kernel, and is removed a day later.
    assert set(left(own_cache)) == (set() if how is signal.SIGINT else {"making"})
    assert (run(fresh(), EYE, np.ones((8, 8))) == 1).all()
    assert [ending for ending in left(own_cache) if ending != "making"] == [".o", ".so"]


def test_a_disk_that_is_full_when_the_kernel_is_written(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*names: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("gemmdsl.cache.os.replace", full)
        with pytest.raises(ToolError, match="No space left on device") as caught:
            run(fresh(), EYE, EYE)
    assert caught.value.diagnostics[0].code == "G915"
    assert left(own_cache) == []
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_text", full)
        with pytest.raises(ToolError, match="No space left on device"):
            run(fresh(), EYE, EYE)
    assert left(own_cache) in ([], [".o"])
    assert (run(fresh(), EYE, np.ones((8, 8))) == 1).all()


def test_no_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GEMMDSL_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(ToolError, match="the folder for temporary files") as caught:
        run(fresh(), EYE, EYE)
    assert caught.value.diagnostics[0].code == "G915"


KERNEL = """gemm 1

problem sgemm {
  A: f32[M, K]
  B: f32[K, N]
  C: f32[M, N] = A @ B
}

schedule tiled for sgemm on sm_80 {
  block  16 x 16 x 8
  thread 2 x 2
}
"""


@pytest.mark.parametrize("place", ["file", "full disk"])
def test_a_failing_example_that_cannot_be_saved_is_still_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    file = tmp_path / "kernel.gemm"
    file.write_text(KERNEL)
    text = gemmdsl.load(file).compile().source
    assert "    __syncthreads();" in text
    (tmp_path / "edited.cu").write_text(text.replace("    __syncthreads();", "    //", 1))
    failures = tmp_path / "failures"
    if place == "file":
        failures.touch()
    else:

        def full(*names: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("gemmdsl.files.os.replace", full)
    words = ["test", str(file), "--source", str(tmp_path / "edited.cu"), "--failures", str(failures)]
    result = CliRunner().invoke(group, [*words, "--examples", "5"])
    assert result.exit_code == 1, result.output
    assert "error[G70" in result.output
    assert f"gemmdsl run {file}" in result.output
    assert "which no thread has written" in result.output or "race on" in result.output
    assert f"follows from: {file}:10:3: block  16 x 16 x 8" in result.output
    monkeypatch.undo()
    kept = CliRunner().invoke(group, [*words[:-1], str(tmp_path / "kept"), "--examples", "5"])
    assert kept.exit_code == 1
    assert sorted(path.suffix for path in (tmp_path / "kept").iterdir()) == [".cu", ".gemm", ".json"]
