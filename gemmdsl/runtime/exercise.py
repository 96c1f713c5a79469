"""Runs every entry point of some kernels, in memory without any slack, for a tool that watches.

Each operand has an allocation of exactly its size.  What a kernel must not read is never written: padding, C
when beta is 0.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np

from gemmdsl.conditions import Aligned, Multiple
from gemmdsl.cuda_source import CudaSource, EntryPoint
from gemmdsl.launch_errors import extent
from gemmdsl.reference import compare, integers
from gemmdsl.runtime.device import Gpu
from gemmdsl.runtime.kernel import Kernel, load
from gemmdsl.spec import Axis, OperandName, Order

_NAMES: tuple[OperandName, ...] = ("A", "B", "C")


@dataclass(frozen=True, slots=True)
class Exercise:
    """One launch: sizes and leading dimensions by name, and the scalars."""

    entry: EntryPoint
    sizes: dict[str, int]
    alpha: float
    beta: float


def exercises(source: CudaSource) -> Iterator[Exercise]:
    """For each entry point: whole tiles, a little more, and less than a tile, if it is made for them."""
    plan, problem = source.plan, source.problem
    alpha, beta = (2.0 if problem.alpha else 1.0), (-1.0 if problem.beta else 0.0)
    whole = {"M": plan.block_m, "N": 2 * plan.block_n, "K": 5 * _deep(source)}
    more = {"M": plan.block_m + 1, "N": plan.block_n + 3, "K": 2 * _deep(source) + 1}
    less = {"M": min(plan.block_m, 5), "N": min(plan.block_n, 7), "K": 3}
    for entry in plan.entries:
        conditions = (*plan.preconditions, *entry.requires)
        seen: list[dict[str, int]] = []
        for base in (whole, more, less):
            sizes: dict[str, int] = {}
            for axis, size in base.items():
                unit = lcm(*(c.of for c in conditions if isinstance(c, Multiple) and c.axis == axis))
                sizes[axis] = -(-size // unit) * unit
            for name in _NAMES:
                operand = problem.operand(name)
                unit = lcm(*(c.elements for c in conditions if isinstance(c, Aligned) and c.operand == name))
                sizes[operand.ld] = -(-(sizes[operand.contiguous] + 1) // unit) * unit
            if sizes in seen:
                continue
            seen.append(sizes)
            yield Exercise(entry, sizes, alpha, 0.0)
            if beta:
                yield Exercise(entry, sizes, alpha, beta)


def perform(kernel: Kernel, exercise: Exercise) -> bool:
    """Whether the result is right."""
    gpu, problem, sizes = kernel.gpu, kernel.source.problem, exercise.sizes
    rng = np.random.default_rng(1)
    values = {
        name: integers(rng, sizes[problem.operand(name).rows], sizes[problem.operand(name).cols])
        for name in _NAMES
    }
    memory: dict[OperandName, Any] = {}
    arguments = dict(sizes)
    for name in _NAMES:
        operand = problem.operand(name)
        memory[name] = gpu.allocate(4 * extent(operand, sizes), name)
        arguments[name] = int(memory[name])
        if name != "C" or exercise.beta != 0:
            lines = np.ascontiguousarray(values[name] if operand.order is Order.ROW else values[name].T)
            gpu.upload_lines(arguments[name], 4 * sizes[operand.ld], lines)
    kernel.launch(arguments, exercise.alpha, exercise.beta, entry=exercise.entry.path)
    kernel.wait()
    by_row = problem.c.order is Order.ROW
    result = np.empty(values["C"].shape if by_row else values["C"].shape[::-1], np.float32)
    gpu.download_lines(result, arguments["C"], 4 * sizes["ldc"])
    return compare(
        problem,
        result if by_row else result.T,
        values["A"],
        values["B"],
        values["C"],
        exercise.alpha,
        exercise.beta,
        exact=True,
    ).ok


def main(jobs: str) -> None:
    """Run the pickled sources of a file; exit status 1 when a result is wrong."""
    # Written by the parent process alone, into a folder that only it can write to.
    sources: tuple[CudaSource, ...] = pickle.loads(Path(jobs).read_bytes())
    with Gpu() as gpu:
        for source in sources:
            kernel = load(gpu, source)
            for exercise in exercises(source):
                if not perform(kernel, exercise):
                    sys.exit(f"{exercise.entry.name} is wrong for {exercise.sizes}")


def _deep(source: CudaSource) -> int:
    """What K has to be a multiple of for the fast path: the depth of a K tile."""
    axis: Axis = "K"
    found = [
        c.of
        for entry in source.plan.entries
        for c in entry.requires
        if isinstance(c, Multiple) and c.axis == axis
    ]
    return max(found, default=4)
