"""Spec -> the naive kernel: one thread per output, operands read straight from global memory.

Right for every size from the start: all guards stand, nothing is assumed but what the schedule assumes.
The passes of `gemmdsl.passes` make it fast without changing what it means.
"""

from __future__ import annotations

from gemmdsl.conditions import Aligned, Condition, Multiple, implied
from gemmdsl.index import Int, Named
from gemmdsl.ir import Kernel, MultiplyGlobal, Path, StoreOutput
from gemmdsl.layout import ThreadTile, block_size, grid_map, row_grid
from gemmdsl.spec import Axis, OperandName, Order, Schedule, Spec


def lower(spec: Spec) -> Kernel:
    """The naive kernel of a checked Spec."""
    schedule = spec.schedule
    block_m, block_n = block_size("M", schedule.block_m), block_size("N", schedule.block_n)
    return Kernel(
        spec=spec,
        block_m=block_m,
        block_n=block_n,
        block_k=None,
        grid=row_grid(),
        threads=grid_map(block_m, block_n, ThreadTile((1, 1), (1, 1)), rows_first(spec)),
        staging=None,
        c_vector=Named("C_VECTOR", Int(1), "floats per store of C"),
        body=(MultiplyGlobal(), StoreOutput()),
        paths=(general_path(spec),),
    )


def rows_first(spec: Spec) -> bool:
    """Whether neighbouring threads follow each other along M: where C's neighbours in memory are."""
    return spec.problem.c.order is Order.COLUMN


def vector_width(schedule: Schedule, operand: OperandName) -> int:
    """Floats of the widest global access that the schedule asks for on an operand."""
    return schedule.c_vector if operand == "C" else schedule.stage(operand).load


def whole_vectors(spec: Spec, operand: OperandName) -> tuple[Multiple, ...]:
    """What an operand's extent must be for its vectors to lie inside the matrix wholly or not at all.

    Asked where one instruction copies a vector without a look at its elements.  `cp.async` could be told to
    read less than a whole one, but tools that watch memory count what it may read.
    """
    width = vector_width(spec.schedule, operand)
    if operand == "C" or not spec.schedule.asynchronous or width == 1:
        return ()
    return (Multiple(spec.problem.operand(operand).contiguous, width),)


def general_path(spec: Spec) -> Path:
    """The path of last resort: nothing holds but the schedule's assumptions."""
    schedule = spec.schedule
    blocks: dict[Axis, int] = {"M": schedule.block_m, "N": schedule.block_n, "K": schedule.block_k}
    requires: list[Condition] = []
    full: set[Axis] = set()
    aligned: set[OperandName] = set()
    for assumption in schedule.assumptions:
        if assumption.axis is not None:
            requires.append(Multiple(assumption.axis, assumption.multiple))
            block = blocks[assumption.axis]
            if block and assumption.multiple % block == 0:
                full.add(assumption.axis)
        if assumption.operand is not None:
            requires.append(Aligned(assumption.operand, vector_width(schedule, assumption.operand)))
            aligned.add(assumption.operand)
    vectors = {
        name for name in aligned if all(implied(whole, requires) for whole in whole_vectors(spec, name))
    }
    return Path("general", frozenset(full), frozenset(vectors), tuple(requires))
