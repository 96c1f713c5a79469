"""Helper of the passes that change shared tiles one operand at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gemmdsl.index import Named
from gemmdsl.ir import Kernel, Staging, Stmt
from gemmdsl.spec import StagedName


def map_staging(kernel: Kernel, change: Callable[[StagedName, Staging], Staging]) -> Kernel:
    """`kernel` with `change` applied to each operand and its staging; the same object if nothing changed."""
    if kernel.staging is None:
        return kernel
    a, b = kernel.staging
    changed = (change("A", a), change("B", b))
    if changed[0] is a and changed[1] is b:
        return kernel
    return replace(kernel, staging=changed)


def with_buffers(kernel: Kernel, buffers: Named, body: tuple[Stmt, ...]) -> Kernel:
    """`kernel` with `buffers` slots for each operand's tile and the program that uses them."""
    assert kernel.staging is not None, "the checker asks for a K tile"
    a, b = (replace(stage, tile=replace(stage.tile, stages=buffers)) for stage in kernel.staging)
    return replace(kernel, staging=(a, b), body=body)
