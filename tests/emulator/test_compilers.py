"""The same findings, whichever compiler the machine has; and how fast the emulator is."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gemmdsl
from gemmdsl.bench import emulator as benchmark
from gemmdsl.launch_errors import LaunchError
from tests.emulator.samples import PINGPONG, PIPELINE, one_block
from tests.emulator.test_checker import finding

COMPILERS = [
    pytest.param(
        name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed")
    )
    for name in ("g++", "clang++")
]
VECTORS: dict[str, Callable[[], object]] = {
    "written": lambda: one_block(
        "    *reinterpret_cast<float4*>(C + 1 + t % 2 * 4) = make_float4(1, 2, 3, 4);"
    ),
    "read": lambda: one_block(
        "    float4 four = *reinterpret_cast<const float4*>(A + 2);\n    C[t] = four.x + four.w;"
    ),
    "copied": lambda: one_block(
        "    *reinterpret_cast<float2*>(C + 2 * t) = *reinterpret_cast<const float2*>(A + 1);"
    ),
}


@pytest.fixture(params=COMPILERS)
def compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CXX", request.param)
    return str(request.param)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("kind", VECTORS)
def test_misaligned_vectors_are_found(kind: str) -> None:
    assert "misaligned" in finding(VECTORS[kind]()).message  # type: ignore[arg-type]


@pytest.mark.usefixtures("compiler")
def test_right_kernels_are_passed_over_in_silence() -> None:
    from gemmdsl.emulator.run import run

    for source, (m, n, k) in ((PINGPONG, (64, 32, 40)), (PIPELINE, (33, 68, 52))):
        assert (run(source, np.ones((m, k)), np.ones((k, n)), checked=True) == k).all()


PROGRAM = """gemm 1

problem sgemm {
  A: f32[M, K]
  B: f32[K, N]
  C: f32[M, N] = alpha * A @ B + beta * C
}

schedule tiled for sgemm on sm_80 {
  block  16 x 32 x 8
  thread 2 x 2
}
"""


def test_a_kernel_takes_what_the_emulator_takes() -> None:
    kernel = gemmdsl.loads(PROGRAM).compile()
    a = np.arange(12.0).reshape(3, 4)
    b, c = np.ones((4, 5)), np.full((3, 5), 2.0)
    want = 2 * a @ b + 3 * c
    for order in ("forward", "reversed", "seeded"):
        got = kernel.run(a, b, c, 2.0, 3.0, lda=9, ldb=8, ldc=7, entry="general", order=order, checked=True)
        np.testing.assert_array_equal(got, want)
    with pytest.raises(LaunchError, match="lda = 3 is below 4"):
        kernel.run(a, b, lda=3)
    with pytest.raises(LaunchError, match="has no entry point none"):
        kernel.run(a, b, entry="none")
    broken = kernel.with_source(kernel.source.replace("__syncthreads();", ""))
    with pytest.raises(LaunchError, match=r"which no thread has written|race on"):
        broken.run(np.ones((16, 16)), np.ones((16, 16)), checked=True)
    with pytest.raises(LaunchError, match="checked is for the CPU"):
        kernel.run(a, b, device="gpu", checked=True)


def test_the_benchmark_keeps_to_its_limits(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "small.gemm").write_text(PROGRAM)
    status = benchmark.main(["--repeats", "3", str(tmp_path / "small.gemm")])
    told = capsys.readouterr().out
    assert status == 0, told
    assert "million FMA/s" in told
    assert "times as long" in told
    assert "compiled and run" in told
    assert re.search(r"^small.gemm tiled +\S+ million FMA/s +\S+ times as long checked$", told, re.MULTILINE)


ALIASED = """gemm 1

problem sgemm {
  A: f32[M, K]
  B: f32[K, N]
  C: f32[M, N] = alpha * A @ B + beta * C
}

schedule aliased for sgemm on sm_80 {
  block 32 x 32 x 8
  thread 4 x 4
  stage B { load vector 4 store vector 2 }
}
"""


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("checked", [False, True])
def test_words_written_as_one_vector_are_read_as_another(checked: bool) -> None:
    kernel = gemmdsl.loads(ALIASED).compile()
    rng = np.random.default_rng(1)
    a, b = rng.integers(-8, 9, (32, 8)), rng.integers(-8, 9, (8, 32))
    for entry in kernel.launch_plan.entries:
        assert (kernel.run(a, b, entry=entry.path, checked=checked) == a @ b).all(), entry.path
