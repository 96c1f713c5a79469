"""Machine code of kernels whose blocks share K, against the text and against all blocks one by one."""

from __future__ import annotations

from collections import Counter

import pytest

import gemmdsl
from gemmdsl.analysis.access import Access
from gemmdsl.analysis.compiled import _Runner as Runner
from gemmdsl.analysis.compiled import build, compiled
from gemmdsl.analysis.parts import part_classes
from gemmdsl.analysis.sass import run_block
from gemmdsl.analysis.shape import part_extents, tight
from gemmdsl.emit import emit
from gemmdsl.passes import steps
from tests.analysis.models import as_compiled, as_written, counts, kernel, needs_toolkit, shape_of
from tests.analysis.test_split import APART, ATOMIC, TEXT

nvcc = pytest.mark.nvcc


def bytes_moved(accesses: tuple[Access, ...]) -> Counter[tuple[str, str, str | None]]:
    """What lanes of whole warps would move, however the compiler cuts it up."""
    found: Counter[tuple[str, str, str | None]] = Counter()
    for access in accesses:
        found[access.space, access.kind, access.operand] += access.total.requests * access.width
    return found


@nvcc
@needs_toolkit
@pytest.mark.parametrize(
    ("file", "schedule", "sizes"),
    [
        ("split.gemm", "long_k", (256, 256, 16384)),
        ("split.gemm", "long_k", (131, 135, 1001)),
        ("split.gemm", "skinny", (16, 4096, 4096)),
        ("split.gemm", "skinny", (33, 301, 201)),
        ("shapes.gemm", "thirds", (256, 256, 512)),
        ("shapes.gemm", "uneven_halved", (301, 203, 77)),
        ("shapes.gemm", "dot", (64, 64, 1000)),
        ("shapes.gemm", "narrow", (256, 16, 260)),
        ("shapes.gemm", "tiny_deep", (63, 65, 67)),
    ],
)
def test_accesses_stay_as_written(file: str, schedule: str, sizes: tuple[int, int, int]) -> None:
    assert counts(as_compiled(file, schedule, sizes).accesses) == counts(as_written(file, schedule, sizes))


@nvcc
@needs_toolkit
@pytest.mark.parametrize("sizes", [(256, 256, 16384), (131, 135, 1001), (100, 64, 9)])
def test_parts_that_are_kept_apart_are_stored_as_written(sizes: tuple[int, int, int]) -> None:
    made, asked = (view("split.gemm", "long_k_repeatable", sizes) for view in (as_compiled, as_written))
    accesses = made.accesses
    assert bytes_moved(accesses) == bytes_moved(asked)
    loads = [{key: count for key, count in counts(one).items() if key[2] != "C"} for one in (accesses, asked)]
    assert loads[0] == loads[1]


@nvcc
@needs_toolkit
@pytest.mark.parametrize("words", [ATOMIC, APART])
@pytest.mark.parametrize("sizes", [(40, 70, 0), (40, 70, 9), (64, 64, 48), (33, 70, 8 * 3 * 40 + 13)])
def test_classes_of_blocks_and_parts_stand_for_all(words: str, sizes: tuple[int, int, int]) -> None:
    """Also where a part is so long that most of its K tiles are not run."""
    last = steps(gemmdsl.loads(TEXT.format(words=words, order="")).spec())[-1]
    source = emit(last.kernel, last.proofs)
    binary, shape = build(source), tight(last.kernel.spec.problem, *sizes)
    found = compiled(last.kernel, source, binary, shape)
    function = binary.functions[found.entry]
    constants = Runner(last.kernel, source, function, shape)._constants(shape.k, source.plan.entry_parameters)
    across, along, _ = source.plan.grid(shape.m, shape.n)
    runs = [
        run_block(function, constants, block, source.plan.threads, part)
        for block in range(across)
        for part in range(along)
    ]
    assert found.instructions == sum(int(run.issued.sum()) for run in runs)
    every = [access for run in runs for access in run.accesses.values()]
    for total, one_by_one in (
        (sum(one.total.requests for one in found.accesses), sum(one.requests for one in every)),
        (sum(one.total.cost for one in found.accesses), sum(one.cost for one in every)),
        (sum(one.total.ideal for one in found.accesses), sum(one.ideal for one in every)),
    ):
        assert total == one_by_one


@pytest.mark.parametrize("schedule", ["long_k", "long_k_repeatable", "skinny"])
@pytest.mark.parametrize("sizes", [(256, 256, 16384), (131, 135, 1001), (40, 70, 9), (1, 1, 0)])
def test_classes_of_parts_have_all_of_k(schedule: str, sizes: tuple[int, int, int]) -> None:
    found, source = kernel("split.gemm", schedule)
    shape = shape_of(found, sizes)
    parts = part_classes(found, shape)
    assert source.plan.parts is not None
    assert sum(part.times for part in parts) == source.plan.parts.count
    assert sum(part.times * part.depth for part in parts) == shape.k
    assert sum(part.times for part in parts if part.tiles) == source.plan.parts.busy(shape.k)
    extents = part_extents(found, shape)
    assert all(extents[part.first][1] == part.depth for part in parts)


def test_a_kernel_without_parts_has_one_class_of_them() -> None:
    found, _ = kernel("ladder.gemm", "v0_naive")
    (part,) = part_classes(found, shape_of(found, (100, 70, 33)))
    assert (part.first, part.times, part.residues, part.depth, part.tiles) == (0, 1, (0, 0, 0), 33, 33)
