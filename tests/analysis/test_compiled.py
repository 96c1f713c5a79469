"""Accesses as compiled: where nothing is merged they are the written ones, edges included."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemmdsl.analysis.access import summed
from gemmdsl.analysis.compiled import build, compiled
from gemmdsl.analysis.lines import source_map
from gemmdsl.analysis.sass import read_listing
from gemmdsl.analysis.written import written
from gemmdsl.emit import emit
from gemmdsl.layout import BLOCK, BLOCKS_M, GridMap
from gemmdsl.target import TARGETS
from gemmdsl.toolchain import compile_cubin, disassemble
from tests import examples
from tests.analysis.models import as_compiled, as_written, binary, counts, kernel, needs_toolkit, shape_of

pytestmark = [pytest.mark.nvcc, needs_toolkit]


@pytest.mark.parametrize(
    ("file", "schedule", "sizes"),
    [
        ("ladder.gemm", "v0_naive", (100, 70, 33)),
        ("ladder.gemm", "v3", (256, 256, 128)),
        ("ladder.gemm", "v3_2", (2048, 2048, 2048)),
        ("ladder.gemm", "v4_warps", (300, 257, 77)),
        ("ladder.gemm", "v5_async", (200, 199, 201)),
        ("fast.gemm", "fast_90", (1024, 768, 512)),
        ("fast.gemm", "fast_90", (300, 260, 77)),
        ("fast.gemm", "fast_1024", (257, 129, 65)),
        ("fast.gemm", "fast_75", (128, 128, 136)),
        ("fast.gemm", "fast_75", (300, 260, 76)),
        ("fast.gemm", "fast_75", (129, 131, 33)),
        ("layouts.gemm", "fast_tn", (150, 131, 77)),
        ("swizzle.gemm", "swizzled", (200, 128, 64)),
        ("tiles.gemm", "odd", (70, 61, 37)),
        ("tiles.gemm", "t6x10", (120, 240, 64)),
    ],
)
def test_vector_accesses_stay_as_written(file: str, schedule: str, sizes: tuple[int, int, int]) -> None:
    assert counts(as_compiled(file, schedule, sizes).accesses) == counts(as_written(file, schedule, sizes))


@pytest.mark.slow
@pytest.mark.parametrize(("file", "schedule"), examples.schedules())
def test_machine_code_of_every_example_is_understood(file: str, schedule: str) -> None:
    """On its own target, whatever path the shape takes; that for sm_90 is compared with what was measured."""
    found, source = kernel(file, schedule)
    if source.target == "sm_90":
        pytest.skip("tests/analysis/test_measured.py runs it")
    for sizes in ((256, 256, 64), (72, 73, 71)):
        if source.plan.select(shape_of(found, sizes).sizes) is not None:
            assert as_compiled(file, schedule, sizes).thread_ffmas


def test_blocks_may_take_any_way_over_c() -> None:
    """Counts follow the grid that the kernel has, here one column of tiles after the other."""
    rows, _ = kernel("ladder.gemm", "v1_shared")
    sizes = (70, 61, 40)
    shape = shape_of(rows, sizes)
    columns = replace(rows, grid=GridMap(BLOCK % BLOCKS_M, BLOCK // BLOCKS_M))
    source = emit(columns, ())
    found = compiled(columns, source, build(source), shape)
    stores = [
        summed(accesses, "global", "store")
        for accesses in (found.accesses, written(rows, shape, source_map(source.text)))
    ]
    assert stores[0] == stores[1]


def test_scalar_reads_are_merged() -> None:
    """The compiler turns the 64 scalar reads of a K tile into 16 vector ones, padded or not into 17."""
    plain = summed(as_compiled("ladder.gemm", "v2_4x4", (2048, 2048, 2048)).accesses, "shared", "load")
    padded = summed(
        as_compiled("ladder.gemm", "v2_4x4_padded", (2048, 2048, 2048)).accesses, "shared", "load"
    )
    assert plain.requests == 33_554_432
    assert padded.requests == 35_651_584
    # Padding no longer buys what it did: it costs a load and saves nothing.
    assert padded.cost > plain.cost


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_other_targets_are_understood(target: str) -> None:
    assert target in TARGETS
    found = as_compiled("ladder.gemm", "v3_2", (384, 256, 72), target)
    assert counts(found.accesses) == counts(as_written("ladder.gemm", "v3_2", (384, 256, 72)))


@pytest.mark.parametrize("schedule", ["v2_8x8", "v2_8x8_padded"])
def test_predicates_in_registers_are_followed(schedule: str) -> None:
    """Guards of 64 outputs do not fit into seven predicates: they are bits of registers."""
    found = as_compiled("ladder.gemm", schedule, (127, 129, 131))
    asked = as_written("ladder.gemm", schedule, (127, 129, 131))
    for kind in ("load", "store"):
        made, expected = (summed(view, "global", kind).cost for view in (found.accesses, asked))
        assert made == expected
    assert found.thread_ffmas >= 127 * 129 * 131


def test_long_products_are_a_straight_line_in_k() -> None:
    """Extrapolated counts equal the sum of a run over all tiles."""
    short, long = (as_compiled("ladder.gemm", "v3_2", (128, 128, 8 * tiles)) for tiles in (20, 90))
    loads = [summed(found.accesses, "shared", "load").cost for found in (short, long)]
    assert loads[0] * 90 == loads[1] * 20


def test_instructions_of_the_main_loop() -> None:
    found = as_compiled("ladder.gemm", "v3_2", (2048, 2048, 2048))
    assert found.loop_mix["FFMA"] == 512
    assert found.loop_mix["shared loads"] == 32
    assert found.loop_mix["global loads"] == 2
    assert 0.8 < found.loop_ffma_share < 1
    assert found.mix["FFMA"] == 2048**3 // 32
    assert sum(found.issued.values()) == found.instructions


@pytest.mark.parametrize("schedule", ["fast_90", "fast_1024", "fast_512"])
def test_guards_of_asynchronous_copies_are_no_branches(schedule: str) -> None:
    """The main loop at edges, and of unaligned operands, is that of whole tiles and a few integers more."""
    whole, edge, general = (
        as_compiled("fast.gemm", schedule, sizes).loop_mix
        for sizes in ((256, 256, 256), (260, 252, 250), (257, 255, 253))
    )
    for guarded in (edge, general):
        for kind in ("FFMA", "shared loads", "barriers and branches"):
            assert guarded[kind] == pytest.approx(whole[kind], abs=1)
        assert "shared stores" not in guarded
        assert sum(guarded.values()) < 1.15 * sum(whole.values())
    assert edge["async copies"] == whole["async copies"]


def test_line_information_changes_no_instruction() -> None:
    _, source = kernel("ladder.gemm", "v2_4x4")
    plain = read_listing(disassemble(compile_cubin(source.text, source.target).data))
    annotated = binary("ladder.gemm", "v2_4x4").functions
    assert set(plain) == set(annotated)
    for name, function in plain.items():
        codes = [[(i.opcode, i.operands) for i in found.code] for found in (function, annotated[name])]
        assert codes[0] == codes[1]
