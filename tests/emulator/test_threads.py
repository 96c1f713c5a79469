"""Barriers, warps, asynchronous copies and what happens when threads do not play by the rules."""

from __future__ import annotations

import numpy as np
import pytest

from gemmdsl.cuda_source import CudaSource, Status
from gemmdsl.emulator.library import Landing, RunOptions, ThreadOrder
from gemmdsl.emulator.run import arguments_of, launch, store
from gemmdsl.launch_errors import LaunchError
from tests.emulator.samples import one_block

WIDTH = 128


def results(source: CudaSource, order: ThreadOrder = "forward", landing: Landing = "late") -> np.ndarray:
    """What the kernel left in C, WIDTH elements; A holds 0, 1, 2 ..."""
    stored = store(source, 1, WIDTH, WIDTH)
    stored["A"].fill(np.arange(WIDTH).reshape(1, WIDTH))
    launch(source, arguments_of(stored, 1, WIDTH, WIDTH), options=RunOptions(order, 1, landing))
    assert stored["C"].stray_writes() == ""
    return stored["C"].matrix[0].copy()


def failure(source: CudaSource, order: ThreadOrder = "forward") -> str:
    with pytest.raises(LaunchError) as caught:
        results(source, order)
    assert caught.value.status is Status.LAUNCH_FAILED
    assert caught.value.diagnostics[0].code == "G927"
    return caught.value.diagnostics[0].message


@pytest.mark.parametrize("order", ["forward", "reversed", "seeded"])
def test_a_barrier_orders_writes_before_reads(order: ThreadOrder) -> None:
    source = one_block("""
    __shared__ float words[64];
    for (int round = 0; round < 3; ++round) {
        words[t] = t + round;
        __syncthreads();
        C[t] = words[63 - t];
        __syncthreads();
    }""")
    np.testing.assert_array_equal(results(source, order)[:64], np.arange(63, -1, -1) + 2)


def test_shared_memory_starts_as_nan_in_every_block() -> None:
    source = one_block("""
    __shared__ float words[64];
    C[t] = words[t];
    __syncthreads();
    words[t] = 1.0f;""")
    for _ in range(2):
        assert np.isnan(results(source)[:64]).all()


def test_a_barrier_that_some_threads_skip_names_both_groups() -> None:
    message = failure(one_block("    if (t < 32 || t == 40) __syncthreads();"))
    assert "barrier not reached by all threads in block (0, 0, 0)" in message
    assert "threads 0-31, 40 (33 of 64) wait at the barrier on line 7" in message
    assert "threads 32-39, 41-63 (31 of 64) have returned" in message


def test_barriers_in_both_branches_are_told_apart_by_their_lines() -> None:
    branches = "    if (t < 16)\n        __syncthreads();\n    else\n        __syncthreads();"
    message = failure(one_block(branches))
    assert "threads 0-15 (16 of 64) wait at the barrier on line 8" in message
    assert "threads 16-63 (48 of 64) wait at the barrier on line 10" in message


def test_one_thread_may_be_missing() -> None:
    message = failure(one_block("    if (t != 63) __syncthreads();"), "reversed")
    assert "thread 63 (1 of 64) has returned" in message


def test_threads_that_wait_for_each_other_are_a_deadlock() -> None:
    message = failure(one_block("    if (t % 2) __syncwarp();\n    else __syncthreads();"))
    assert message.startswith("probe: deadlock in block (0, 0, 0)")
    assert "(32 of 64) wait for lanes 0xffffffff on line 7" in message


@pytest.mark.parametrize("order", ["forward", "reversed", "seeded"])
def test_lanes_of_a_warp_exchange_values(order: ThreadOrder) -> None:
    source = one_block("""
    const int sum = [&] {
        int value = t;
        for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
        return value;
    }();
    C[t] = sum;
    if (t % 32 < 8) {
        C[t + 64] = __shfl_sync(0xffu, t, 3) + 100 * __shfl_down_sync(0xffu, t % 32, 1, 8)
            + 10000 * static_cast<int>(__ballot_sync(0xffu, t % 2));
    } else {
        __syncwarp(0xffffff00u);
        C[t + 64] = __shfl_up_sync(0xffffff00u, t, 1, 8);
    }""")
    got = results(source, order)
    assert (got[:32] == 496).all()
    assert (got[32:64] == 496 + 32 * 32).all()
    down = np.array([1, 2, 3, 4, 5, 6, 7, 7])
    np.testing.assert_array_equal(got[64:72], 3 + 100 * down + 10000 * 0xAA)
    # The first lane of each eight keeps its own value.
    np.testing.assert_array_equal(got[104:128], [t - (t % 8 != 0) for t in range(40, 64)])


def test_reading_a_lane_that_does_not_take_part_is_an_error() -> None:
    message = failure(one_block("    if (t < 8) C[t] = __shfl_sync(0xffu, t, 9);"))
    assert "reads lane 9, which is not in the mask 0xff, on line 7" in message


def test_a_lane_outside_its_own_mask_is_an_error() -> None:
    assert "thread 8 is not in the mask 0xff" in failure(one_block("    __syncwarp(0xffu);"))


ASYNC = """
    __shared__ float4 words[64];
    float* mine = reinterpret_cast<float*>(&words[t]);
    mine[0] = mine[1] = mine[2] = mine[3] = -1.0f;
    __pipeline_memcpy_async(&mine[0], A + t, 4);
    __pipeline_commit();
    __pipeline_memcpy_async(&mine[1], A + t, 4, 4);
    __pipeline_commit();
    __pipeline_wait_prior({pending});
    C[t] = mine[0];
    C[t + 64] = mine[1];"""


@pytest.mark.parametrize("pending", [0, 1, 2])
def test_copies_land_group_by_group_at_the_wait(pending: int) -> None:
    got = results(one_block(ASYNC.replace("{pending}", str(pending))))
    np.testing.assert_array_equal(got[:64], np.arange(64) if pending < 2 else np.full(64, -1))
    np.testing.assert_array_equal(got[64:], np.zeros(64) if pending < 1 else np.full(64, -1))


def test_copies_land_at_once_on_request() -> None:
    got = results(one_block(ASYNC.replace("{pending}", "2")), landing="early")
    np.testing.assert_array_equal(got, [*range(64), *[0] * 64])


def test_many_copies_may_be_under_way() -> None:
    source = one_block("""
    __shared__ float words[64][100];
    for (int i = 0; i < 100; ++i) {
        __pipeline_memcpy_async(&words[t][i], A + i, 4);
        if (i % 3 == 2) __pipeline_commit();
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    float sum = 0;
    for (int i = 0; i < 100; ++i) sum += words[t][i];
    C[t] = sum;""")
    assert (results(source)[:64] == 4950).all()


@pytest.mark.parametrize(
    ("copy", "words"),
    [
        ("__pipeline_memcpy_async(&words[1], A, 16);", "16 bytes between misaligned addresses"),
        ("__pipeline_memcpy_async(&words[0], A + 1, 8);", "8 bytes between misaligned addresses"),
        ("__pipeline_memcpy_async(&words[0], A, 12);", "of 12 bytes, 0 of them zero, by thread 0 on line 8"),
        ("__pipeline_memcpy_async(&words[0], A, 4, 8);", "copy of 4 bytes, 8 of them zero"),
    ],
)
def test_copies_that_a_gpu_cannot_make_are_errors(copy: str, words: str) -> None:
    assert words in failure(one_block(f"    __shared__ __align__(16) float words[64];\n    {copy}"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("volatile int* page = reinterpret_cast<int*>(8192); *page = 1;", "access to invalid address 0x2000"),
        ("C[int64_t(1) << 60] = 1.0f;", "access to a null or impossible address"),
        ("volatile float words[30000]; words[t] = 1.0f; C[t] = words[t + 1];", "stack overflow by thread 0"),
        ("volatile int zero = M - 1; C[t] = N / zero;", "division by zero by thread 0 of block (0, 0, 0)"),
    ],
)
def test_a_crash_of_the_kernel_is_an_error_of_the_launch(body: str, words: str) -> None:
    assert words in failure(one_block(f"    {body}"))


def test_after_a_failed_launch_the_next_one_is_fine() -> None:
    broken = one_block("    if (t < 32) __syncthreads();\n    C[t] = t;")
    for _ in range(3):
        failure(broken)
    fine = one_block("    __syncthreads();\n    C[t] = t;")
    np.testing.assert_array_equal(results(fine)[:64], np.arange(64))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (one_block("", threads=1025), "block of 1025 x 1 x 1 threads: a block has 1 to 1024 threads"),
        (one_block("", threads=0), "block of 0 x 1 x 1 threads"),
        (one_block("", dynamic=1024), "dynamic shared memory and the kernel declares none"),
        (one_block("", dynamic=200 * 1024), "204800 bytes of shared memory and the target has 166912"),
        (one_block("", dynamic=50 * 1024), "51200 bytes of shared memory and the kernel may have 49152"),
        (one_block("", static=70 * 1024, target="sm_75"), "71680 bytes of shared memory and the target has"),
    ],
)
def test_launches_beyond_the_limits_are_refused(source: CudaSource, words: str) -> None:
    assert words in failure(source)
