"""Where blocks keep their products of parts of K, as C text: for launcher, blocks and what adds them up."""

from __future__ import annotations

from dataclasses import dataclass

from gemmdsl.emit.operands import Binding
from gemmdsl.emit.printing import Printer, wide
from gemmdsl.extents import coordinate, swept
from gemmdsl.ir import Kernel


@dataclass(frozen=True, slots=True)
class WorkspaceView:
    """The kernel's `WorkspaceMap`; distances count floats and take 64 bits.

    `sizes` are the named ones, to be computed in this order, `ld` the name of that from line to line,
    `floats` the number of all.  `start` leads to the block's tile in its part, `element` from there to an
    element of the tile; `swept` leads to an element of the first part, `step` from there to that of another.
    """

    sizes: tuple[Binding, ...]
    ld: str
    floats: str
    start: str
    element: str
    swept: str
    step: str


def workspace_view(kernel: Kernel, text: Printer) -> WorkspaceView | None:
    """The view of a kernel's workspace; None where it needs none."""
    workspace = kernel.workspace
    if workspace is None:
        return None
    first, step = workspace.walk(*swept(kernel.spec.problem.c))
    return WorkspaceView(
        # What one is computed from has 64 bits already.
        sizes=(
            Binding(workspace.ld.name, wide(workspace.ld.value, text)),
            Binding(workspace.floats.name, text(workspace.floats.value)),
        ),
        ld=workspace.ld.name,
        floats=text(workspace.size),
        start=text(workspace.origin),
        element=text(workspace.within(coordinate("M"), coordinate("N"))),
        swept=text(first),
        step=text(step),
    )
