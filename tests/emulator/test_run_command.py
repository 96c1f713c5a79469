"""`gemmdsl run` on example files, as a user calls it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gemmdsl.cli import group

KERNELS = """gemm 1

problem sgemm {
  A: f32[M, K]
  B: f32[K, N]
  C: f32[M, N] = alpha * A @ B + beta * C
}

schedule tiled for sgemm on sm_80 {
  block  32 x 16 x 8
  thread 4 x 2
}

schedule naive for sgemm on sm_80 {
  block 16 x 16
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.gemm"
    path.write_text(KERNELS)
    return path


def call(*words: object) -> Result:
    return CliRunner().invoke(group, ["run", *map(str, words)])


def test_a_right_kernel(file: Path) -> None:
    result = call(file, "-s", "tiled", "--shape", "33x65x17", "--alpha", "2", "--beta", "-1", "--ldb", "70")
    assert result.exit_code == 0, result.output
    assert "tiled for sm_80, 33 x 65 x 17, alpha = 2, beta = -1" in result.output
    assert "right: all 2145 elements equal numpy's" in result.output
    assert "ms on the CPU emulator" in result.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "path    fast\n"),
        (["--shape", "64x32x9"], "path    edge: K = 9 is no multiple of 8\n"),
        (
            ["--shape", "63x30x16", "--ldb", "32"],
            "path    edge: M = 63 is no multiple of 32, N = 30 is no multiple of 16\n",
        ),
        (["--ldb", "37"], "path    general: ldb = 37 is no multiple of 4\n"),
        (["--offsets", "0,1,0"], "path    general: the address of B is no multiple of 16\n"),
        (["--ldb", "37", "--entry", "general"], "path    general\n"),
        (["--shape", "0x32x16"], "path    none: nothing to compute\n"),
    ],
)
def test_a_path_says_why_it_was_not_the_one_before(file: Path, words: list[str], expected: str) -> None:
    file.write_text(KERNELS.replace("thread 4 x 2", "thread 4 x 2  stage B { vector 4 }"))
    result = call(file, "-s", "tiled", "--shape", "64x32x16", *words)
    assert expected in result.output


@pytest.mark.parametrize("shape", ["1x1x1", "0x5x3", "5x4x0", "64x32x16"])
def test_all_schedules_at_edge_sizes(file: Path, shape: str) -> None:
    result = call(file, "-s", "all", "--shape", shape, "--beta", "3")
    assert result.exit_code == 0, result.output
    assert result.output.count("result  right") == 2


def test_full_precision_is_judged_by_its_bound(file: Path) -> None:
    result = call(file, "-s", "tiled", "--shape", "16X16X40", "--operands", "uniform", "--alpha", "0.7")
    assert result.exit_code == 0, result.output
    assert "of the bound" in result.output


def test_nothing_is_read_that_must_not_be(file: Path) -> None:
    result = call(file, "-s", "all", "--shape", "20x20x20", "--alpha", "0", "--beta", "0")
    assert result.exit_code == 0, result.output


def test_a_path_of_choice(file: Path) -> None:
    result = call(file, "-s", "tiled", "--shape", "64x32x16", "--entry", "general")
    assert result.exit_code == 0, result.output
    assert "path    general" in result.output
    refused = call(file, "-s", "tiled", "--shape", "64x32x16", "--entry", "no-such-path")
    assert refused.exit_code == 1
    assert "error[G920]" in refused.output


def test_a_wrong_kernel_is_seen(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from gemmdsl import api
    from gemmdsl.cuda_source import CudaSource
    from gemmdsl.spec import Spec

    emit = api.compile_spec

    def spoiled(spec: Spec) -> CudaSource:
        source = emit(spec)
        assert "fmaf(" in source.text
        return replace(source, text=source.text.replace("fmaf(", "1.0f + fmaf("))

    monkeypatch.setattr(api, "compile_spec", spoiled)
    result = call(file, "-s", "tiled", "--shape", "3x2x1")
    assert result.exit_code == 1
    assert "WRONG: 6 elements wrong, worst C[" in result.output


def test_a_leading_dimension_that_is_too_small(file: Path) -> None:
    result = call(file, "-s", "tiled", "--shape", "8x8x8", "--lda", "7")
    assert result.exit_code == 1
    assert "error[G922]: lda = 7 is below 8, the least for A with K = 8" in result.output


@pytest.mark.parametrize("shape", ["8x8", "8x8x-1", "axbxc", "8x8x8x8", "3000000000x1x1", ""])
def test_shapes_that_are_none(file: Path, shape: str) -> None:
    result = call(file, "-s", "tiled", "--shape", shape)
    assert result.exit_code == 2
    assert "Invalid value for '--shape'" in result.output


def test_no_compiler(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    result = call(file, "-s", "naive", "--shape", "5x6x7", "--target", "sm_90")
    assert result.exit_code == 2
    assert "error[G911]" in result.output


def test_no_gpu_yet(file: Path) -> None:
    result = call(file, "-s", "naive", "--shape", "5x6x7", "--device", "gpu")
    assert result.exit_code == 2
    assert "error[G940]: running on a GPU needs pycuda" in result.output
