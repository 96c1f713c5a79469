"""Compilation with the real nvcc, and with scripts that fail as it may."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gemmdsl.toolchain import ToolError, compile_cubin, compile_ptx, find_tool, supported_targets
from gemmdsl.toolchain import nvcc as under_test
from gemmdsl.toolchain.process import run_tool

HEADERS = {"scale.h": "#define FACTOR 2.0f\n"}
KERNEL = """\
#include "scale.h"

extern "C" __global__ void __launch_bounds__(256, 2) scale(float* c, const float* a, int n) {
  __shared__ float tile[256];
  tile[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += 256) {
    c[i] = fmaf(a[i], FACTOR, tile[255 - threadIdx.x]);
  }
}
"""
FAKE = """\
#!/bin/sh
case "$1" in
  --version) echo "Cuda compilation tools, release 13.0, V13.0.88" ;;
  --list-gpu-code) echo sm_80 ;;
  *) {} ;;
esac
"""


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    """Make the compiler a script that does `action` when asked to compile."""
    (folder / "bin").mkdir()
    (folder / "bin" / "nvcc").write_text(FAKE.format(action))
    (folder / "bin" / "nvcc").chmod(0o755)
    monkeypatch.setenv("GEMMDSL_CUDA", str(folder))


def code(caught: pytest.ExceptionInfo[ToolError]) -> str:
    return caught.value.diagnostics[0].code


@pytest.mark.nvcc
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_a_cubin_and_its_report(target: str) -> None:
    cubin = compile_cubin(KERNEL, target, HEADERS)
    assert cubin.data[:4] == b"\x7fELF"
    (usage,) = cubin.usage
    assert (usage.entry, usage.target, usage.shared, usage.stack, usage.spills) == (
        "scale",
        target,
        1024,
        0,
        False,
    )
    assert 0 < usage.registers <= 128
    assert cubin.compiler == f"nvcc {find_tool('nvcc').release}"


@pytest.mark.nvcc
def test_the_same_text_gives_the_same_bytes() -> None:
    assert compile_cubin(KERNEL, "sm_80", HEADERS) == compile_cubin(KERNEL, "sm_80", HEADERS)


@pytest.mark.nvcc
def test_ptx() -> None:
    text = compile_ptx(KERNEL, "sm_80", HEADERS)
    assert ".target sm_80" in text
    assert ".entry scale(" in text


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("__global__ void k() { wrong }", 'identifier "wrong" is undefined'),
        ("__global__ void k() { int unused; }", '"unused" was declared but never referenced'),
    ],
)
def test_errors_and_warnings_are_both_refused(text: str, said: str) -> None:
    with pytest.raises(ToolError, match="nvcc failed on the CUDA text for sm_80") as caught:
        compile_cubin(text, "sm_80")
    assert code(caught) == "G905"
    assert said in str(caught.value)


@pytest.mark.nvcc
def test_an_unknown_target_lists_the_known_ones() -> None:
    with pytest.raises(ToolError, match="cannot compile for sm_52") as caught:
        compile_cubin(KERNEL, "sm_52", HEADERS)
    assert code(caught) == "G904"
    assert "sm_75, sm_80, " in str(caught.value)
    assert "sm_80" in supported_targets(find_tool("nvcc"))


@pytest.mark.nvcc
def test_no_host_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMMDSL_CUDA", str(find_tool("nvcc").path.parents[1]))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match=r"needs a C\+\+ compiler") as caught:
        compile_cubin(KERNEL, "sm_80", HEADERS)
    assert code(caught) == "G907"


def test_a_compiler_that_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, "kill -SEGV $$")
    with pytest.raises(ToolError, match=r"ended by signal 11") as caught:
        compile_cubin(KERNEL, "sm_80")
    assert code(caught) == "G905"
    assert "it said: nothing" in str(caught.value)


@pytest.mark.parametrize("made", ["exit 0", "for last; do :; done; echo text > $last; echo odd >&2"])
def test_a_compiler_that_makes_no_cubin(made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, made)
    with pytest.raises(ToolError, match="it made no cubin") as caught:
        compile_cubin(KERNEL, "sm_80")
    assert code(caught) == "G905"


def test_long_messages_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, "seq 1 500 >&2; exit 2")
    with pytest.raises(ToolError) as caught:
        compile_cubin(KERNEL, "sm_80")
    assert "\n30\n" in str(caught.value) + "\n"
    assert "\n31\n" not in str(caught.value) + "\n"


def test_a_compiler_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The inner shell must go too: it holds the pipes open.
    fake(tmp_path, monkeypatch, "sh -c 'sleep 60'")
    monkeypatch.setattr(under_test, "_TIMEOUT", 0.2)
    start = time.monotonic()
    with pytest.raises(ToolError, match=r"stopped: it had not finished after 0\.2 seconds") as caught:
        compile_cubin(KERNEL, "sm_80")
    assert code(caught) == "G906"
    assert time.monotonic() - start < 10


def test_an_interrupt_ends_the_tool(tmp_path: Path) -> None:
    marker = tmp_path / "still-running"
    script = (
        "import signal, threading\n"
        "from gemmdsl.toolchain.process import run_tool\n"
        "main = threading.main_thread().ident\n"
        "threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT)).start()\n"
        f"run_tool(['/bin/sh', '-c', 'sleep 1; touch {marker}'])\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert "KeyboardInterrupt" in ended.stderr
    time.sleep(1.2)
    assert not marker.exists()


def test_no_place_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, "exit 0")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr("tempfile.TemporaryDirectory", refuse)
    with pytest.raises(ToolError, match="Permission denied") as caught:
        compile_cubin(KERNEL, "sm_80")
    assert code(caught) == "G908"


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, 'touch "$TMPDIR/intermediate"; exit 2')
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    with pytest.raises(ToolError):
        compile_cubin(KERNEL, "sm_80")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_output_that_is_not_text() -> None:
    outcome = run_tool(["/bin/sh", "-c", r"printf '\377ok'; printf 'no' >&2; exit 3"])
    assert (outcome.status, outcome.text, outcome.messages) == (3, "\N{REPLACEMENT CHARACTER}ok", "no")
