"""Accesses as written: published counters, and a plain count of every thread's every access."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from gemmdsl.analysis import sectors, wavefronts
from gemmdsl.analysis.access import Count, summed
from gemmdsl.analysis.banks import INACTIVE
from gemmdsl.index import Int, evaluate
from gemmdsl.ir import Kernel
from tests.analysis.models import as_written, counts, kernel, shape_of

N = (2048, 2048, 2048)


@pytest.mark.parametrize(
    ("schedule", "requests", "cost", "share"),
    [
        # Measured on a T4 and published with the ladder.
        ("v2_4x4", 134_217_728, 268_435_456, 0.5),
        ("v2_4x4_padded", 134_217_728, 201_326_592, 1 / 3),
        # By the rule.
        ("v3", 16_777_216, 83_886_080, 0.4),
        ("v3_1", 16_777_216, 50_331_648, 0.0),
        ("v3_2", 16_777_216, 50_331_648, 0.0),
    ],
)
def test_shared_loads_of_the_ladder(schedule: str, requests: int, cost: int, share: float) -> None:
    loads = summed(as_written("ladder.gemm", schedule, N), "shared", "load")
    assert (loads.requests, loads.cost) == (requests, cost)
    assert loads.share == pytest.approx(share, abs=5e-5)


@pytest.mark.parametrize(
    ("schedule", "share"), [("v2_4x4", 0.0), ("v2_4x4_padded", 1 / 3), ("v3", 1 / 3), ("v3_2", 0.0)]
)
def test_shared_stores_of_the_ladder(schedule: str, share: float) -> None:
    stores = summed(as_written("ladder.gemm", schedule, N), "shared", "store")
    assert stores.share == pytest.approx(share)


def test_the_last_rung_takes_three_wavefronts_per_load() -> None:
    loads = summed(as_written("ladder.gemm", "v3_2", N), "shared", "load")
    assert loads.per_request == 3.0
    assert loads.excess == 0


def test_every_access_has_its_line() -> None:
    for schedule in ("v0_naive", "v1_shared", "v3_2", "v5_async"):
        _, source = kernel("ladder.gemm", schedule)
        lines = source.text.splitlines()
        for access in as_written("ladder.gemm", schedule, (512, 512, 512)):
            assert access.line > 0, access
            assert access.function
            assert any(word in lines[access.line - 1] for word in ("move<", "_global", "] ="))


def test_nothing_to_compute_costs_nothing() -> None:
    for sizes in ((0, 128, 64), (128, 0, 64)):
        assert all(access.total == Count() for access in as_written("ladder.gemm", "v3_2", sizes))
    empty = counts(as_written("ladder.gemm", "v3_2", (128, 128, 0)))
    # Only C is stored, float by float: rows of A have no length that allows vectors.
    assert {key[:3]: count.requests for key, count in empty.items() if count.requests} == {
        ("global", "store", "C"): 64 * 8
    }


def plain_reads(found: Kernel) -> Iterator[tuple[str, list[int]]]:
    """Operand and word addresses of each fragment read of each warp in one K tile, thread by thread."""
    assert found.staging is not None
    assert found.block_k is not None
    for staging, axis in zip(found.staging, (found.threads.rows, found.threads.cols), strict=True):
        for k in range(found.block_k.value):
            for index in range(0, axis.count.value, staging.read.value):
                row, col = staging.tile.place(axis.index(Int(index)), Int(k))
                word = row * staging.tile.row_length + col
                threads = found.threads.threads.value
                for warp in range(-(-threads // 32)):
                    lanes = range(32 * warp, 32 * warp + 32)
                    yield (
                        staging.tile.operand.name,
                        [
                            int(evaluate(word, {"thread": thread})) if thread < threads else INACTIVE
                            for thread in lanes
                        ],
                    )


@pytest.mark.parametrize(
    ("file", "schedule"),
    [("ladder.gemm", "v2_4x4"), ("tiles.gemm", "odd"), ("swizzle.gemm", "swizzled_paired")],
)
def test_reads_agree_with_a_plain_count(file: str, schedule: str) -> None:
    found, _ = kernel(file, schedule)
    expected: Counter[str] = Counter()
    for operand, words in plain_reads(found):
        width = 4 * (found.stage("A" if operand == "A" else "B").read.value)
        expected[operand] += wavefronts("load", width, words).wavefronts
    sizes = (found.block_m.value, found.block_n.value, found.block_k.value if found.block_k else 1)
    one_tile = as_written(file, schedule, sizes)
    reads = {a.operand: a.total.cost for a in one_tile if (a.space, a.kind) == ("shared", "load")}
    assert reads == dict(expected)


def test_guarded_stores_agree_with_a_plain_count() -> None:
    """C's stores on a ragged shape with an odd leading dimension: every thread, every block."""
    found, _ = kernel("ladder.gemm", "v2_4x4")
    sizes = (70, 93, 5)
    shape = shape_of(found, sizes)
    total = Count()
    for block in range(4):
        block_row, block_col = block // 2 * 64, block % 2 * 64
        for i in range(4):
            for j in range(4):
                for warp in range(8):
                    addresses, active = [], []
                    for thread in range(32 * warp, 32 * warp + 32):
                        env = {"thread": thread}
                        m = block_row + int(evaluate(found.threads.rows.index(Int(i)), env))
                        n = block_col + int(evaluate(found.threads.cols.index(Int(j)), env))
                        addresses.append(4 * (m * shape.ldc + n))
                        active.append(m < shape.m and n < shape.n)
                    cost, ideal = sectors(4, [addresses], [active])
                    total += Count(int(any(active)), int(cost[0]), int(ideal[0]))
    assert summed(as_written("ladder.gemm", "v2_4x4", sizes), "global", "store") == total
