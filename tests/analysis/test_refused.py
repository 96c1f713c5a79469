"""What `explain` says where tools fail, where nothing is launched, and where nothing could be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from gemmdsl import checker
from gemmdsl.analysis.access import summed
from gemmdsl.analysis.shape import tight
from gemmdsl.cli import group
from gemmdsl.explain.document import document
from gemmdsl.explain.model import model, occupancies
from gemmdsl.explain.text import text
from gemmdsl.passes import build
from gemmdsl.target import TARGETS
from tests.analysis.models import needs_toolkit
from tests.examples import FOLDER

LADDER = str(FOLDER / "ladder.gemm")


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(group, ["explain", *words])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("nvcc", "nvdisasm", "said"),
    [
        ("echo boom >&2; exit 3", "exit 1", "nvcc failed on the CUDA text for sm_75 (exit status 3); boom"),
        ("exit 0", "exit 1", "it made no cubin"),
        ("echo text > kernel.cubin", "exit 1", "it made no cubin"),
        ("printf '\\177ELF' > kernel.cubin", "exit 4", "nvdisasm failed on the cubin (exit status 4)"),
        ("printf '\\177ELF' > kernel.cubin", "echo hello", "no sgemm_v3_fast in it"),
        (
            "printf '\\177ELF' > kernel.cubin",
            "echo '.text.sgemm_v3_fast:'; echo '/*0000*/ LDS.64 ;'",
            "no registers of sgemm_v3_fast",
        ),
        (
            "printf '\\177ELF' > kernel.cubin; echo \"Compiling entry function 'sgemm_v3_fast' for 'sm_75'\";"
            " echo 'Used 8 registers'",
            "echo '.text.sgemm_v3_fast:'; echo '/*0000*/ LDS.64 ;'",
            "operands of LDS.64",
        ),
    ],
)
def test_tools_that_fail_leave_what_is_written(
    nvcc: str, nvdisasm: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    for name, action in (("nvcc", nvcc), ("nvdisasm", nvdisasm)):
        tool = tmp_path / "bin" / name
        tool.write_text(
            f"""#!/bin/sh
case "$*" in
  *--version*) echo "release 13.0, V13.0.1 {tmp_path}" ;;
  *--list-gpu-code*) echo sm_75 ;;
  *) {action} ;;
esac
""",
            encoding="utf-8",
        )
        tool.chmod(0o755)
    monkeypatch.setenv("GEMMDSL_CUDA", str(tmp_path))
    monkeypatch.setenv("GEMMDSL_CACHE", str(tmp_path / "cache"))
    code, shown, errors = run(LADDER, "-s", "v3", "--shape", "512")
    assert (code, errors) == (0, "")
    assert f"machine code was not looked at: {said}" in shown or said in shown.splitlines()[2]
    assert "Shared memory as written" in shown
    assert "as compiled by" not in shown


def test_a_grid_has_an_end() -> None:
    code, shown, errors = run(LADDER, "-s", "v3", "--shape", "2147483647", "--no-compile")
    assert (code, shown) == (1, "")
    assert "G733" in errors
    assert "281,474,976,710,656 blocks, more than a grid can have" in errors


SMALL = """gemm 1
problem p {
  A: f32[M, K]
  B: f32[K, N]
  C: f32[M, N] = A @ B
}
schedule tiny for p on sm_80 { block 2 x 2 x 2 }
schedule crooked for p on sm_80 { block 31 x 17 x 3 }
"""


@pytest.mark.nvcc
@needs_toolkit
@pytest.mark.parametrize("schedule", ["tiny", "crooked"])
def test_small_and_crooked_blocks_are_run(schedule: str) -> None:
    """A block of less than a warp has one; on odd rows, each of 81 blocks is aligned in its own way."""
    program = checker.loads(SMALL)
    spec = program.spec(schedule)
    found = model(program, spec, tight(spec.problem, 287, 155, 7))
    assert found.machine is not None, found.no_machine
    assert found.machine.thread_ffmas >= 287 * 155 * 7
    for space, kind in (("global", "load"), ("global", "store")):
        asked, made = (summed(view, space, kind) for view in (found.accesses, found.machine.accesses))
        assert made.cost == asked.cost
    shown = json.loads(document(found, program), parse_constant=pytest.fail)
    assert shown["as_compiled"]["instructions"]["main_loop"]["FFMA"] > 0
    lines = text(found, program).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("Instructions as compiled"))
    rows = {line[2:24].strip(): line[24:].split() for line in lines[at + 2 : at + 2 + len(found.machine.mix)]}
    assert {kind: int(row[1].replace(",", "")) for kind, row in rows.items()} == dict(found.machine.mix)
    assert sum(float(row[2].rstrip("%")) for row in rows.values()) == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize("sizes", ["0", "0x64x64", "64x0x64"])
def test_what_is_not_launched_takes_no_time(sizes: str) -> None:
    code, shown, errors = run(LADDER, "-s", "v3", "--shape", sizes, "--no-compile")
    assert (code, errors) == (0, "")
    assert "0 blocks of 256 threads" in shown
    assert "binds" not in shown
    assert "time between" not in shown
    assert "  DRAM                                  0.0 us alone" in shown


@pytest.mark.nvcc
@needs_toolkit
def test_what_is_not_launched_does_not_differ() -> None:
    program = checker.load(LADDER)
    spec = program.spec("v3")
    found = model(program, spec, tight(spec.problem, 0, 0, 0))
    assert found.machine is not None
    assert found.findings == ()


def test_every_target_has_its_occupancy() -> None:
    """A block that a target has no shared memory for fits there no time."""
    program = checker.load(FOLDER / "ladder.gemm")
    spec = program.spec("v1_shared", "sm_90")
    large = replace(spec.schedule, block_k=256, buffers=3, asynchronous=True)
    kernel = build(replace(spec, schedule=large))
    found = {one.target: one for one in occupancies(kernel, 64)}
    assert list(found) == ["sm_90", *(name for name in TARGETS if name != "sm_90")]
    assert found["sm_90"].blocks == 1
    assert (found["sm_75"].blocks, found["sm_75"].limiters) == (0, ("shared memory",))
