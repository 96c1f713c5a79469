"""`gemmdsl run` on example files, as a user calls it."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import gemmdsl
from gemmdsl.cli import group
from gemmdsl.cli.run import _rate
from gemmdsl.launch_errors import LaunchError

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
    assert "of what rounding may add up to" in result.output


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


def test_a_refusal_is_all_that_is_said(file: Path) -> None:
    result = call(file, "-s", "tiled", "--shape", "8x8x8", "--entry", "none")
    assert (result.exit_code, result.stdout) == (1, "")


@pytest.mark.parametrize(
    "words",
    [
        ("--shape", "1x2147483647x0"),
        ("--shape", "2147483647x2147483647x1"),
        ("--shape", "2147483647x1x2147483647"),
        ("--shape", "8x8x8", "--lda", "2000000000"),
        ("--shape", "8x8x8", "--ldc", "2000000000", "--sanitize", "race"),
        ("--shape", "8x8x8", "--offsets", "2147483647,2147483647,2147483647"),
    ],
)
def test_what_memory_cannot_hold_is_refused_before_it_is_taken(
    file: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("gemmdsl.memory.available", lambda: 2**34)
    tracemalloc.start()
    try:
        result = call(file, "-s", "tiled", *words)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
    assert (result.exit_code, result.stdout) == (1, "")
    assert re.match(
        r"error\[G920\]: operands of .* take [\d,.]+ GiB of memory, and 16\.0 GiB are free\n$", result.stderr
    )


def test_memory_that_runs_out_all_the_same(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise MemoryError("Unable to allocate 1 byte")

    monkeypatch.setattr("gemmdsl.testing.trial.compare", full)
    result = call(file, "-s", "tiled", "--shape", "4")
    assert result.exit_code == 1
    assert "error[G920]: no memory for operands of 4 x 4 x 4: Unable to allocate 1 byte" in result.stderr


@pytest.mark.parametrize(
    ("lda", "said"), [("-2000000000", "below 8"), ("0", "below 8"), (str(2**31), "32-bit")]
)
def test_leading_dimensions_are_looked_at_before_there_is_memory(file: Path, lda: str, said: str) -> None:
    result = call(file, "-s", "tiled", "--shape", "8x8x8", "--lda", lda)
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr


@pytest.mark.parametrize(
    ("shape", "title"),
    [("5", "5 x 5 x 5"), (" 3X4x5 ", "3 x 4 x 5"), ("007x0x1", "7 x 0 x 1"), (f"{'0' * 99}2", "2 x 2 x 2")],
)
def test_forms_of_a_shape(file: Path, shape: str, title: str) -> None:
    result = call(file, "-s", "naive", "--shape", shape)
    assert result.exit_code == 0, result.output
    assert title in result.stdout


def test_no_product_makes_alpha_meaningless(file: Path) -> None:
    for alpha in ("nan", "inf", "1e300"):
        result = call(file, "-s", "all", "--shape", "5x6x0", "--alpha", alpha, "--beta", "2")
        assert result.exit_code == 0, result.output


def test_rates_are_told_of_small_runs_too() -> None:
    assert [_rate(rate) for rate in (2.0, 1.6e4, 9e6, 1.5e8)] == [
        "0 thousand",
        "16 thousand",
        "9000 thousand",
        "150 million",
    ]


@pytest.mark.parametrize(
    "shape",
    [
        *("8x8", "8x8x-1", "axbxc", "8x8x8x8", "3000000000x1x1", "", "4,4,4", "x4x4", "\u0663"),
        *("9" * 5000, f"1x{'9' * 5000}x1"),
    ],
)
def test_shapes_that_are_none(file: Path, shape: str) -> None:
    result = call(file, "-s", "tiled", "--shape", shape)
    assert result.exit_code == 2
    assert "Invalid value for '--shape'" in result.output
    assert len(result.output) < 400


@pytest.mark.parametrize("value", ["1,2", "a,b,c", "1,2,-3", f"{'9' * 5000},0,0", f"{2**31},0,0"])
def test_offsets_that_are_none(file: Path, value: str) -> None:
    result = call(file, "-s", "tiled", "--shape", "8x8x8", "--offsets", value)
    assert result.exit_code == 2
    assert "Invalid value for '--offsets'" in result.output
    assert len(result.output) < 400


@pytest.mark.parametrize("device", [f"gpu:{'9' * 5000}", "gpu:-1", "gpu:\u0663", "gpu:"])
def test_devices_that_are_none(file: Path, device: str) -> None:
    kernel = gemmdsl.load(file).compile("naive")
    with pytest.raises(LaunchError, match="has to be") as caught:
        kernel.run([[1.0]], [[1.0]], device=device)
    assert caught.value.argument == "device"
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("device", "name", "value"),
    [
        ("cpu", "out", np.zeros((1, 1), np.float32)),
        ("cpu", "stream", 0),
        *(("gpu", name, 1) for name in ("lda", "ldb", "ldc", "checked")),
        ("gpu:1", "entry", "fast"),
        ("gpu", "order", "reversed"),
    ],
)
def test_arguments_that_are_for_another_device(file: Path, device: str, name: str, value: object) -> None:
    kernel = gemmdsl.load(file).compile("naive")
    with pytest.raises(LaunchError, match=f"G920.*{name} is for") as caught:
        kernel.run([[1.0]], [[1.0]], device=device, **{name: value})  # type: ignore[arg-type]
    assert caught.value.argument == name


def test_schedules_that_refuse_a_shape_do_not_keep_others_from_running(tmp_path: Path) -> None:
    path = tmp_path / "mixed.gemm"
    path.write_text(
        "gemm 1\nproblem p { A: f32[M, K]  B: f32[K, N]  C: f32[M, N] = A @ B }\n"
        "schedule eight for p on sm_75 { block 8 x 8  assume M % 8 == 0 }\n"
        "schedule nought for p on sm_75 { block 0 x 8 }\n"
        "schedule any for p on sm_75 { block 8 x 8 }\n"
    )
    result = call(path, "-s", "all", "--shape", "5")
    assert result.exit_code == 1
    assert "error[G925]: M = 5, and p_eight assumes M % 8 == 0" in result.stderr
    assert "error[G201]" in result.stderr
    assert result.stdout.startswith("any for sm_75")
    assert "right: " in result.stdout
    assert call(path, "-s", "eight", "--shape", "5").stdout == ""


def test_without_a_compiler_no_schedule_is_tried_twice(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    result = call(file, "-s", "all", "--shape", "5x6x7", "--target", "sm_90")
    assert (result.exit_code, result.stderr.count("error[G911]")) == (2, 1)


def test_a_source_without_end(file: Path) -> None:
    result = call(file, "-s", "tiled", "--shape", "4", "--source", "/dev/zero")
    assert result.exit_code == 1
    assert "error[G930]: cannot read /dev/zero: it has more than 4,194,304 bytes" in result.stderr


def test_no_compiler(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    result = call(file, "-s", "naive", "--shape", "5x6x7", "--target", "sm_90")
    assert result.exit_code == 2
    assert "error[G911]" in result.output


def test_no_gpu_yet(file: Path) -> None:
    result = call(file, "-s", "naive", "--shape", "5x6x7", "--device", "gpu")
    assert result.exit_code == 2
    assert "error[G940]: running on a GPU needs pycuda" in result.output
