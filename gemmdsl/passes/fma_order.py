"""FMA order: how a thread walks its outputs in one step, and whose fragment it reads first."""

from __future__ import annotations

from dataclasses import replace

from gemmdsl.ir import FmaOrder, Kernel


def fma_order(kernel: Kernel) -> Kernel:
    """Sets the order of FMAs and of fragment reads.

    Before: row by row from left to right, A's fragment before B's.  After: as the schedule says.  The result
    is bitwise the same, for each output has one FMA per k; what changes is which operands neighbouring FMAs
    share, and so how often the register file has to be read.
    """
    schedule = kernel.spec.schedule
    fma = FmaOrder(schedule.fma_along, schedule.fma_snake)
    if fma == kernel.fma and schedule.read_first == kernel.read_first:
        return kernel
    return replace(kernel, fma=fma, read_first=schedule.read_first)
