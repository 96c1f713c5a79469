"""Occupancy against CUDA's rules worked out by hand, intensity, and waves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmdsl.analysis.registers import estimated_registers
from gemmdsl.analysis.roofline import executed, intensities, waves
from gemmdsl.analysis.shape import Shape
from gemmdsl.occupancy import occupancy, registers_for
from gemmdsl.target import TARGETS
from tests.analysis.models import as_compiled, kernel, needs_toolkit, shape_of


@pytest.mark.parametrize(
    ("target", "threads", "registers", "shared", "blocks", "limiters"),
    [
        ("sm_75", 256, 64, 4352, 4, ("registers", "threads")),
        ("sm_75", 256, 128, 16384, 2, ("registers",)),
        ("sm_75", 1024, 32, 8192, 1, ("threads",)),
        ("sm_80", 256, 128, 16384, 2, ("registers",)),
        ("sm_80", 128, 32, 40_000, 4, ("shared memory",)),
        ("sm_90", 256, 202, 49152, 1, ("registers",)),
        ("sm_90", 32, 16, 0, 32, ("block slots",)),
        ("sm_90", 256, 255, 0, 1, ("registers",)),
        ("sm_86", 256, 40, 51_000, 1, ("shared memory",)),
        ("sm_90", 96, 128, 0, 5, ("registers",)),
        # 6 warps are checked as 8: registers are given out in four parts.
        ("sm_90", 192, 255, 0, 1, ("registers",)),
        ("sm_90", 288, 200, 0, 0, ("registers",)),
    ],
)
def test_blocks_per_sm(
    target: str, threads: int, registers: int, shared: int, blocks: int, limiters: tuple[str, ...]
) -> None:
    found = occupancy(TARGETS[target], threads, registers, shared)
    assert found.blocks == blocks
    assert found.limiters == limiters
    assert found.warps == blocks * -(-threads // 32)


@given(st.sampled_from(list(TARGETS.values())), st.integers(1, 32), st.integers(0, 90_000), st.integers(1, 8))
def test_registers_for_is_the_most_that_fits(target: object, warps: int, shared: int, blocks: int) -> None:
    row = TARGETS[getattr(target, "name", "sm_90")]
    most = registers_for(row, 32 * warps, shared, blocks)
    if most:
        assert occupancy(row, 32 * warps, most, shared).blocks >= blocks
    if most < 255:
        assert occupancy(row, 32 * warps, most + 1, shared).blocks < blocks


def test_intensity_of_a_thread_tile() -> None:
    found, _ = kernel("ladder.gemm", "v3_2")
    shared, staged, whole = intensities(found, shape_of(found, (2048, 2048, 2048)))
    assert shared.floats_per_fma == 0.25
    assert shared.flop_per_byte == 2.0
    assert staged.floats_per_fma == 2 / 128
    assert whole.floats_per_fma == pytest.approx(3 / 2048)


def test_waves_and_what_the_last_one_loses() -> None:
    found, _ = kernel("ladder.gemm", "v3_2", "sm_90")
    # 512 blocks on 132 SMs: the busiest has 4, on average they have 3.88.
    filled = waves(found, shape_of(found, (4096, 2048, 64)), occupancy(TARGETS["sm_90"], 256, 202, 16640))
    assert filled.blocks == 512
    assert filled.waves == pytest.approx(3.88, abs=0.005)
    assert (filled.sms, filled.most, filled.parts) == (132, 4, 1)
    assert filled.lost == pytest.approx(0.03, abs=0.001)


def test_launch_bounds_cap_the_estimate() -> None:
    found, _ = kernel("ladder.gemm", "v2_128")
    assert estimated_registers(found) == 120
    assert estimated_registers(replace(found, min_blocks=4)) == 64


@pytest.mark.nvcc
@needs_toolkit
@pytest.mark.parametrize("schedule", ["v2_4x4", "v3", "v3_2", "v4_warps", "v5_async"])
def test_the_estimate_is_near_the_truth(schedule: str) -> None:
    found, _ = kernel("ladder.gemm", schedule)
    truth = as_compiled("ladder.gemm", schedule, (128, 128, 64)).usage.registers
    assert abs(estimated_registers(found) - truth) <= 0.15 * truth


def test_blocks_multiply_whole_tiles() -> None:
    """What reaches beyond the matrices is multiplied, and its time is taken."""
    staged, _ = kernel("ladder.gemm", "v3_2")
    assert executed(staged, Shape(129, 1, 9, 9, 1, 1)) == 2 * 128 * 128 * 16
    naive, _ = kernel("ladder.gemm", "v0_naive")
    rows, cols = naive.block_m.value, naive.block_n.value
    assert executed(naive, Shape(rows + 1, 1, 9, 9, 1, 1)) == 2 * rows * cols * 9
