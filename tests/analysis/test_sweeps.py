"""Kernels that go through all of C around the main one: counted as written, and run."""

from __future__ import annotations

import pytest

import gemmdsl
from gemmdsl.analysis.access import Count, summed
from gemmdsl.analysis.compiled import _Runner as Runner
from gemmdsl.analysis.compiled import build
from gemmdsl.analysis.lines import source_map
from gemmdsl.analysis.sass import run_block
from gemmdsl.analysis.shape import tight
from gemmdsl.analysis.sweeps import Swept, swept
from gemmdsl.cuda_source import CudaSource
from gemmdsl.emit import emit
from gemmdsl.ir import Kernel
from gemmdsl.passes import steps
from tests.analysis.models import needs_toolkit
from tests.analysis.test_split import APART, ATOMIC, TEXT

# Where CUDA 13 keeps the grid's extent along its second axis, for sm_90.
GRID_Y = 0x10


def around(words: str, order: str, sizes: tuple[int, int, int]) -> tuple[Kernel, CudaSource, Swept]:
    last = steps(gemmdsl.loads(TEXT.format(words=words, order=order)).spec())[-1]
    source = emit(last.kernel, last.proofs)
    (found,) = swept(
        last.kernel, source.plan, tight(last.kernel.spec.problem, *sizes), source_map(source.text)
    )
    assert all(access.line for access in found.accesses)
    return last.kernel, source, found


def test_scaling_writes_each_element_once() -> None:
    """Lines of 64 floats are two warps of 4 sectors each."""
    _, _, found = around(ATOMIC, "", (40, 64, 9))
    assert (found.before, found.blocks, found.threads) == (True, 10, 256)
    assert summed(found.accesses, "global", "load") == Count()
    assert summed(found.accesses, "global", "store") == Count(80, 320, 320)


def test_adding_up_reads_every_part_of_each_element() -> None:
    _, _, found = around(APART, "", (40, 64, 9))
    assert (found.before, found.blocks) == (False, 10)
    assert summed(found.accesses, "global", "load") == Count(80, 320, 320) * 3
    assert summed(found.accesses, "global", "store") == Count(80, 320, 320)


@pytest.mark.parametrize("words", [ATOMIC, APART])
def test_nothing_goes_through_an_empty_matrix(words: str) -> None:
    _, _, found = around(words, "", (0, 64, 9))
    assert (found.blocks, found.accesses) == (0, ())


@pytest.mark.nvcc
@needs_toolkit
@pytest.mark.parametrize("words", [ATOMIC, APART])
@pytest.mark.parametrize("order", ["", " col"])
@pytest.mark.parametrize("sizes", [(64, 128, 80), (37, 61, 9)])
def test_machine_code_does_as_written(words: str, order: str, sizes: tuple[int, int, int]) -> None:
    kernel, source, found = around(words, order, sizes)
    shape = tight(kernel.spec.problem, *sizes)
    planned = (*source.plan.before, *source.plan.after)[0]
    function = build(source).functions[found.name]
    across, along, _ = planned.grid(shape.m, shape.n)
    runner = Runner(kernel, source, function, shape)
    constants = {**runner._constants(shape.k, planned.parameters), GRID_Y: along}
    for kind in ("load", "store"):
        total = Count()
        for block in range(across):
            for block_y in range(along):
                run = run_block(function, constants, block, planned.threads, block_y)
                for access in run.accesses.values():
                    if access.kind == kind:
                        total += Count(access.requests, access.cost, access.ideal)
        assert total == summed(found.accesses, "global", kind)
