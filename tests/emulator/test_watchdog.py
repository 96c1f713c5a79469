"""Kernels that do not come to an end are ended, in the same process, and nothing is left behind."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest

from gemmdsl.cuda_source import CudaSource
from gemmdsl.emulator.library import RunOptions
from gemmdsl.emulator.run import arguments_of, launch, store
from gemmdsl.launch_errors import LaunchError
from tests.emulator.samples import PIPELINE, one_block

ENDLESS = {
    "nothing": "volatile int go = 1; while (go) {}",
    "reads": "volatile float sum = 0; for (int i = 0; i >= 0; i = (i + 1) % 64) sum = sum + A[i];",
    "barriers": "while (true) __syncthreads();",
    "warps": "while (true) __syncwarp();",
    "votes": "while (__any_sync(0xffffffffu, true)) {}",
    "one thread": "volatile int go = t == 40; while (go) {} C[t] = 1.0f;",
    "copies": "__shared__ float words[64]; while (true) __pipeline_memcpy_async(&words[t], A + t, 4);",
}


def ended(source: CudaSource, *, checked: bool, seconds: float = 0.1) -> str:
    stored = store(source, 1, 64, 64)
    stored["A"].fill(np.ones((1, 64)))
    with pytest.raises(LaunchError) as caught:
        launch(
            source,
            arguments_of(stored, 1, 64, 64),
            options=RunOptions(seconds=seconds),
            checked=checked,
        )
    assert caught.value.diagnostics[0].code == "G927"
    return caught.value.diagnostics[0].message


@pytest.mark.parametrize("kind", ENDLESS)
def test_an_endless_loop_is_ended(kind: str) -> None:
    message = ended(one_block(f"    {ENDLESS[kind]}"), checked=False)
    assert "of block (0, 0, 0) was still running after 0.1 seconds of processor time" in message
    if kind == "one thread":
        assert "thread 40 of block" in message


@pytest.mark.parametrize("kind", ["nothing", "reads", "barriers", "votes"])
def test_the_checker_says_where_it_was_last(kind: str) -> None:
    message = ended(one_block(f"    {ENDLESS[kind]}"), checked=True)
    assert "was still running after 0.1 seconds" in message
    if kind == "reads":
        assert message.endswith("; last seen on line 7")


def test_an_interruption_leaves_nothing_behind() -> None:
    source = one_block(f"    {ENDLESS['barriers']}")
    ended(source, checked=False, seconds=0.01)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mappings = len(Path("/proc/self/maps").read_text().splitlines())
    for _ in range(30):
        ended(source, checked=False, seconds=0.01)
    assert len(Path("/proc/self/maps").read_text().splitlines()) <= mappings + 4
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 20_000  # KiB


def test_after_it_the_next_launch_is_fine() -> None:
    ended(one_block(f"    {ENDLESS['copies']}"), checked=False)
    fine = one_block("    __syncthreads();\n    C[t] = A[t];")
    stored = store(fine, 1, 64, 64)
    stored["A"].fill(np.arange(64).reshape(1, 64))
    launch(fine, arguments_of(stored, 1, 64, 64))
    np.testing.assert_array_equal(stored["C"].matrix[0], np.arange(64))


def test_every_block_has_the_whole_time() -> None:
    m, n, k = 320, 640, 48
    stored = store(PIPELINE, m, n, k, lda=48, ldb=640, ldc=640)
    stored["A"].fill(np.ones((m, k)))
    stored["B"].fill(np.ones((k, n)))
    arguments = arguments_of(stored, m, n, k)
    for _ in range(20):  # a hundred blocks, each far below the limit, all of them together above it
        launch(PIPELINE, arguments, options=RunOptions(seconds=0.04, workers=1))
    assert (stored["C"].matrix == k).all()


def test_without_a_limit_nothing_is_watched() -> None:
    source = one_block(
        "    float sum = 0;\n    for (int i = 0; i < 20000; ++i) sum += A[i % 64];\n    C[t] = sum;"
    )
    stored = store(source, 1, 64, 64)
    stored["A"].fill(np.ones((1, 64)))
    launch(source, arguments_of(stored, 1, 64, 64), options=RunOptions(seconds=0))
    assert (stored["C"].matrix == 20000).all()
