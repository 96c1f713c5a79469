"""Compilers, caches and their troubles."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gemmdsl import cache
from gemmdsl.cuda_source import CudaSource
from gemmdsl.emulator.builder import build, host_unit
from gemmdsl.emulator.library import Library
from gemmdsl.emulator.run import run
from gemmdsl.toolchain.errors import ToolError
from tests.cli.test_files import bar
from tests.emulator.samples import NAIVE, PIPELINE, one_block


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GEMMDSL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "emulator"


def fresh(source: CudaSource, note: str) -> CudaSource:
    """The same kernel with another text, which no cache has."""
    return replace(source, text=f"{source.text}// {note}\n")


def built(source: CudaSource, *, cached: bool = True) -> tuple[Library, Path]:
    def load(path: Path) -> tuple[Library, Path]:
        return Library(source, path), path

    return build(source, load, cached=cached)


def code(problem: pytest.ExceptionInfo[ToolError]) -> str:
    return problem.value.diagnostics[0].code


def test_the_second_build_comes_from_the_cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first = built(NAIVE)
    assert first.parent == own_cache
    made = first.stat().st_ino
    monkeypatch.setattr("gemmdsl.emulator.compiler.Compiler.run", None)
    _, second = built(NAIVE)
    assert (second, second.stat().st_ino) == (first, made)
    assert sorted(path.suffix for path in own_cache.iterdir()) == [".o", ".so"]


def test_another_text_or_compiler_is_another_kernel(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first = built(NAIVE)
    _, second = built(fresh(NAIVE, "edited"))
    monkeypatch.setenv("CXX", "g++ -DANOTHER")
    _, third = built(NAIVE)
    assert len({first, second, third}) == 3


def test_uncached_builds_leave_nothing(own_cache: Path) -> None:
    library, path = built(NAIVE, cached=False)
    assert library is not None
    assert not path.exists()
    assert [file.suffix for file in own_cache.iterdir()] == [".o"]


@pytest.mark.parametrize("refusal", ["rights", "file system"])
def test_a_read_only_cache_is_read_and_no_obstacle(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    _, kept = built(NAIVE)
    before = sorted(own_cache.iterdir())
    made = tempfile.mkdtemp

    def refused(*, prefix: str, dir: Path | None) -> str:
        if dir == own_cache:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return made(prefix=prefix, dir=dir)

    # A user with all rights may write anywhere, so the refusal is played.
    if refusal == "rights":
        allowed = os.access
        monkeypatch.setattr("os.access", lambda path, mode: path != own_cache and allowed(path, mode))
    else:
        monkeypatch.setattr("tempfile.mkdtemp", refused)
    assert built(NAIVE)[1] == kept
    _, path = built(fresh(NAIVE, "read-only"))
    assert not path.exists()
    assert sorted(own_cache.iterdir()) == before


def test_a_cache_that_cannot_be_made_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GEMMDSL_CACHE", str(tmp_path / "file"))
    _, path = built(NAIVE)
    assert not path.exists()


@pytest.mark.parametrize("ending", ["*.so", "*.o"])
def test_a_damaged_file_is_made_again(own_cache: Path, ending: str) -> None:
    _, first = built(NAIVE)
    (damaged,) = own_cache.glob(ending)
    damaged.unlink()
    damaged.write_bytes(b"\x7fELF, but not much of it")
    library, path = built(NAIVE if ending == "*.so" else fresh(NAIVE, "not cached"))
    assert library is not None
    assert path.parent == first.parent


def test_two_processes_may_fill_the_cache_at_once(own_cache: Path) -> None:
    script = (
        "import numpy as np\n"
        "from gemmdsl.emulator.run import run\n"
        "from tests.emulator.samples import PIPELINE\n"
        "assert (run(PIPELINE, np.eye(8), np.ones((8, 8))) == 1).all()\n"
    )
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    processes = [
        subprocess.Popen([sys.executable, "-c", script], env=environment, cwd=root, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    for process in processes:
        _, messages = process.communicate(timeout=120)
        assert process.returncode == 0, messages.decode()
    assert sorted(path.suffix for path in own_cache.iterdir()) == [".o", ".so"]


def test_the_cache_keeps_what_was_used_last(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MAX_FILES", 4)
    own_cache.mkdir(parents=True)
    now = time.time()
    for age in range(10):
        (own_cache / f"{age}.so").touch()
        os.utime(own_cache / f"{age}.so", (now - 60 - age, now - 60 - age))
    abandoned = own_cache / "making-abandoned"
    abandoned.mkdir()
    os.utime(abandoned, (now - 1e6, now - 1e6))
    (own_cache / "making-busy").mkdir()
    assert cache.find("emulator", "9.so")

    def make(work: Path) -> Path:
        (work / "made").touch()
        return work / "made"

    cache.put("emulator", "new.so", make)
    assert sorted(path.name for path in own_cache.iterdir()) == ["9.so", "making-busy", "new.so"]


def test_no_compiler(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolError, match="needs a C\\+\\+ compiler and none was found") as problem:
        run(fresh(NAIVE, "no compiler"), np.eye(2), np.eye(2))
    assert code(problem) == "G911"


@pytest.mark.parametrize("named", ["no-such-compiler", "no-such-compiler -O1", "'unbalanced"])
def test_a_named_compiler_that_is_not_there(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", named)
    with pytest.raises(ToolError, match="CXX=") as problem:
        built(NAIVE)
    assert code(problem) == "G911"


@pytest.mark.usefixtures("own_cache")
def test_a_compiler_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken"
    broken.write_text("this is no program")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(ToolError) as problem:
        built(NAIVE)
    assert code(problem) == "G912"


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("named", ["true", "sh -c :"])
def test_what_is_no_compiler_and_says_nothing(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", named)
    with pytest.raises(ToolError, match="reported no error and made no file") as problem:
        built(NAIVE)
    assert code(problem) == "G913"


def test_a_cache_that_cannot_be_searched_is_no_obstacle(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache.mkdir(parents=True)
    bar(monkeypatch, own_cache)
    monkeypatch.setattr(cache, "folder", lambda kind: None)
    assert cache.find("emulator", "any") is None
    assert (run(fresh(NAIVE, "barred"), np.ones((2, 2)), np.ones((2, 2))) == 2).all()


def test_a_cache_without_a_place_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("GEMMDSL_CACHE", "relative")
    assert cache.location() is None
    assert (run(fresh(NAIVE, "gone"), np.ones((2, 2)), np.ones((2, 2))) == 2).all()


def test_keys_may_be_made_of_names_that_are_no_text() -> None:
    assert cache.key("\udcff") != cache.key("\udcfe")


def test_a_full_disk_is_named(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = tmp_path / "full"
    full.write_text("#!/bin/sh\necho 'fatal error: error writing x: No space left on device' >&2\nexit 1\n")
    full.chmod(full.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(full))
    with pytest.raises(ToolError, match="no space left on device") as problem:
        built(NAIVE)
    assert code(problem) == "G915"
    assert list(own_cache.iterdir()) == []


def test_text_that_does_not_compile_is_shown_with_its_line(own_cache: Path) -> None:
    with pytest.raises(ToolError, match=r"did not compile probe") as problem:
        built(one_block("    C[t] = undeclared;"))
    assert code(problem) == "G913"
    assert re.search("kernel.cu:7:12: error: .*undeclared", str(problem.value))
    assert [path.suffix for path in own_cache.iterdir()] == [".o"]


def test_every_entry_point_can_be_called_by_itself() -> None:
    unit = host_unit(PIPELINE)
    place = "unsigned across, unsigned along, unsigned threads, size_t shared"
    assert f"int gemm_emu_run_pipeline_edge({place}, int M," in unit
    a = np.ones((4, 4))
    np.testing.assert_array_equal(run(NAIVE, a, a, entry="general"), a @ a)
    np.testing.assert_array_equal(run(NAIVE, a, a, entry="naive_general"), a @ a)


def test_fibers_on_ucontext_do_the_same(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "c++ -DGEMM_EMU_UCONTEXT")
    source = fresh(PIPELINE, "ucontext")
    a = np.arange(40 * 64).reshape(40, 64) % 7
    b = np.arange(64 * 8).reshape(64, 8) % 5
    np.testing.assert_array_equal(run(source, a, b), a @ b)
