"""Split K: several blocks share a tile of C, where tiles alone are too few for all SMs."""

from __future__ import annotations

from dataclasses import replace

from gemmdsl.extents import split_map, workspace_map
from gemmdsl.ir import AddOutput, Kernel, ReduceParts, ScaleOutput, StoreOutput, StorePart


def split_k(kernel: Kernel) -> Kernel:
    """Gives the K tiles of each tile of C to `split_k` blocks and adds their products up.

    Before: one block walks all of K and stores C.  After: it walks a part of K.  With `atomic`, a kernel of
    its own scales C by beta first, and each block adds its product to C, in any order.  Without it, each
    block stores its product beside C, and a kernel afterwards adds these in the order of K.
    Needs: staged tiles, and a program that ends with the store of C.  Establishes: the parts cover K and are
    disjoint; C is scaled once and each part added once.
    """
    schedule = kernel.spec.schedule
    if schedule.split_k == 1:
        return kernel
    assert kernel.block_k is not None
    assert kernel.body[-1] == StoreOutput()
    split = split_map(schedule.split_k, kernel.block_k)
    if schedule.split_atomic:
        return replace(kernel, split=split, before=(ScaleOutput(),), body=(*kernel.body[:-1], AddOutput()))
    return replace(
        kernel,
        split=split,
        workspace=workspace_map(split.parts, kernel.spec.problem.c, kernel.c_vector),
        after=(ReduceParts(),),
        body=(*kernel.body[:-1], StorePart()),
    )
