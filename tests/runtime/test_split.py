"""Kernels that share K among blocks, on a GPU that is played by the host: every launch, and their memory."""

from __future__ import annotations

import numpy as np
import pytest

import gemmdsl
from gemmdsl.bench import Settings, Subject, measure
from gemmdsl.cuda_source import Status
from gemmdsl.diagnostics import GemmError
from gemmdsl.launch_errors import from_status
from gemmdsl.runtime import gpu, run
from tests.runtime.fake import World

TEXT = """gemm 1
problem p {{ A: f32[M, K]  B: f32[K, N]  C: f32[M, N] = alpha * A @ B + beta * C }}
schedule s for p on sm_90 {{ block 16 x 32 x 4 thread 4 x 4 {words} }}
"""
NAMES = {"split_k 3 atomic": ("p_s_scale", "p_s_general"), "split_k 3": ("p_s_general", "p_s_reduce")}


def made(world: World, words: str) -> gemmdsl.CompiledKernel:
    kernel = gemmdsl.loads(TEXT.format(words=words)).compile()
    world.know(kernel.cuda)
    return kernel


@pytest.mark.parametrize("words", NAMES)
def test_all_launches_of_a_call_are_made_in_order(world: World, words: str) -> None:
    source = made(world, words).cuda
    random = np.random.default_rng(3)
    a, b, c = (random.integers(-8, 9, shape).astype(np.float32) for shape in ((17, 31), (31, 9), (17, 9)))
    found = run(gpu(), source, a, b, c, 2.0, -1.0)
    np.testing.assert_array_equal(found, 2 * a.astype(np.float64) @ b - c)
    assert [name for name, *_ in world.launches] == list(NAMES[words])


def test_memory_for_partial_sums_is_kept_for_the_next_call(world: World) -> None:
    source = made(world, "split_k 3").cuda
    a, b = np.ones((16, 8), np.float32), np.ones((8, 32), np.float32)
    used = []
    for _ in range(2):
        run(gpu(), source, a, b)
        used.append(world.bytes_used())
    assert used[0] == used[1] == 3 * 4 * 16 * 32
    run(gpu(), source, a[:4], b)
    assert world.bytes_used() == used[0]
    run(gpu(), source, np.ones((33, 8), np.float32), b)
    assert world.bytes_used() == 3 * 4 * 33 * 32


def test_no_memory_for_partial_sums(world: World) -> None:
    source = made(world, "split_k 128").cuda
    world.memory = 1 << 16
    with pytest.raises(GemmError, match="partial sums"):
        run(gpu(), source, np.ones((16, 8), np.float32), np.ones((8, 32), np.float32))


@pytest.mark.parametrize("words", NAMES)
def test_they_are_verified_and_timed(world: World, words: str) -> None:
    kernel = made(world, words)
    quick = Settings(batches=3, batch_seconds=0.003, l2_times=0.01)
    report = measure(gpu(), [Subject("split.gemm", kernel)], [(16, 32, 40)], None, quick)
    assert report.rows[0].status == "timed", report.rows[0].reason


def test_the_launcher_tells_that_there_is_no_memory() -> None:
    source = gemmdsl.loads(TEXT.format(words="split_k 3")).compile().cuda
    error = from_status(Status.NO_MEMORY, source, {"M": 16, "N": 32, "K": 8})
    assert str(error) == "error[G928]: p_s has no 6144 bytes of memory for partial sums"
