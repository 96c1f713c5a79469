"""The cache of cubins, with a script for a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gemmdsl import cache
from gemmdsl.cubins import cached_cubin
from gemmdsl.toolchain import ToolError

FAKE = """\
#!/bin/sh
case "$1" in
  --version) echo "Cuda compilation tools, release 13.0, V13.0.{build}" ;;
  --list-gpu-code) echo sm_80 sm_90 ;;
  *)
    echo compiled >> "{log}"
    echo "ptxas info    : Compiling entry function 'k' for 'sm_80'" >&2
    echo "ptxas info    : Used 12 registers, used 1 barriers, 256 bytes smem" >&2
    for last; do :; done
    (printf '\177ELF\n'; cat kernel.cu) > "$last"
    ;;
esac
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that writes a line into this file each time it compiles, and an empty cache."""
    compiler(tmp_path, monkeypatch, "88")
    monkeypatch.setenv("GEMMDSL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "log"


def compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, build: str) -> None:
    path = folder / f"cuda{build}" / "bin" / "nvcc"
    path.parent.mkdir(parents=True)
    path.write_text(FAKE.format(build=build, log=folder / "log"))
    path.chmod(0o755)
    monkeypatch.setenv("GEMMDSL_CUDA", str(path.parents[1]))


def compiled(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_the_second_time_nothing_is_compiled(log: Path) -> None:
    first = cached_cubin("text", "sm_80")
    assert cached_cubin("text", "sm_80") == first
    assert (first.data, first.usage[0].registers, first.compiler) == (b"\x7fELF\ntext", 12, "nvcc 13.0")
    assert compiled(log) == 1


def test_text_target_and_build_of_the_compiler_count(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached_cubin("text", "sm_80")
    cached_cubin("other", "sm_80")
    cached_cubin("text", "sm_90")
    compiler(tmp_path, monkeypatch, "99")
    cached_cubin("text", "sm_80")
    assert compiled(log) == 4


@pytest.mark.parametrize("damage", [b"", b"no json\n", b'{"format": "another"}\n', b"[1]\n"])
def test_a_damaged_file_is_made_again(log: Path, tmp_path: Path, damage: bytes) -> None:
    cached_cubin("text", "sm_80")
    (file,) = (tmp_path / "cache" / "cubin").iterdir()
    whole = file.read_bytes()
    for bad in (damage, whole[:-1]):
        file.write_bytes(bad)
        assert cached_cubin("text", "sm_80").data == b"\x7fELF\ntext"
        assert file.read_bytes() == whole
    assert compiled(log) == 3


def test_a_read_only_cache_is_read_and_nothing_more(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached_cubin("kept", "sm_80")
    # A user with all rights may write anywhere, so the refusal is played.
    monkeypatch.setattr(cache, "folder", lambda kind: None)
    cached_cubin("kept", "sm_80")
    cached_cubin("not kept", "sm_80")
    cached_cubin("not kept", "sm_80")
    assert compiled(log) == 3


def test_a_full_disk_is_named(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ToolError, match="No space left") as problem:
        cached_cubin("text", "sm_80")
    assert problem.value.diagnostics[0].code == "G915"
    assert list((tmp_path / "cache" / "cubin").iterdir()) == []


def test_many_processes_at_once(log: Path, tmp_path: Path) -> None:
    script = (
        "from gemmdsl.cubins import cached_cubin\n"
        "assert cached_cubin('text', 'sm_80').data == b'\\x7fELF\\ntext'\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script], cwd=Path(__file__).parents[2], stderr=subprocess.PIPE
        )
        for _ in range(4)
    ]
    for process in processes:
        _, messages = process.communicate(timeout=60)
        assert process.returncode == 0, messages.decode()
    assert len(list((tmp_path / "cache" / "cubin").iterdir())) == 1
