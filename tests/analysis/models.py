"""Kernels and their counts, made once per run."""

from __future__ import annotations

from functools import cache

import pytest

from gemmdsl.analysis.access import Access, Count
from gemmdsl.analysis.compiled import Binary, Compiled, build, compiled
from gemmdsl.analysis.lines import source_map
from gemmdsl.analysis.shape import Shape, tight
from gemmdsl.analysis.written import written
from gemmdsl.cuda_source import CudaSource
from gemmdsl.emit import emit
from gemmdsl.ir import Kernel
from gemmdsl.passes import steps
from gemmdsl.toolchain import ToolError, find_tool
from tests import examples

Key = tuple[str, str, str | None, int, bool]


@cache
def kernel(file: str, schedule: str, target: str | None = None) -> tuple[Kernel, CudaSource]:
    last = steps(examples.program(file).spec(schedule, target))[-1]
    return last.kernel, emit(last.kernel, last.proofs)


@cache
def binary(file: str, schedule: str, target: str | None = None) -> Binary:
    return build(kernel(file, schedule, target)[1])


def shape_of(found: Kernel, sizes: tuple[int, int, int]) -> Shape:
    return tight(found.spec.problem, *sizes)


@cache
def as_written(file: str, schedule: str, sizes: tuple[int, int, int]) -> tuple[Access, ...]:
    found, source = kernel(file, schedule)
    return written(found, shape_of(found, sizes), source_map(source.text))


@cache
def as_compiled(file: str, schedule: str, sizes: tuple[int, int, int], target: str | None = None) -> Compiled:
    found, source = kernel(file, schedule, target)
    return compiled(found, source, binary(file, schedule, target), shape_of(found, sizes))


def counts(accesses: tuple[Access, ...]) -> dict[Key, Count]:
    return {
        (access.space, access.kind, access.operand, access.width, access.asynchronous): access.total
        for access in accesses
    }


@cache
def has_disassembler() -> bool:
    try:
        find_tool("nvdisasm")
        find_tool("nvcc")
    except ToolError:
        return False
    return True


needs_toolkit = pytest.mark.skipif(not has_disassembler(), reason="needs nvcc and nvdisasm")
