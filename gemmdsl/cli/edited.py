"""Hand-edited kernels: `--source edited.cu` in place of the text that was emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmdsl.cli.options import read_text
from gemmdsl.diagnostics import Diagnostic, GemmError

if TYPE_CHECKING:
    from gemmdsl.api import CompiledKernel

# Some hundred times what is emitted.
_MAX_BYTES = 1 << 22


def with_edits(kernel: CompiledKernel, source: str | None) -> CompiledKernel:
    """The kernel with the text of the file `source`, or as it is when there is none.

    GemmError G930 when the file cannot be read, G931 when it lacks a function that the launch plan names.
    """
    if source is None:
        return kernel
    text = read_text(source, "G930", _MAX_BYTES)
    plan = kernel.launch_plan
    missing = [name for name in (*(entry.name for entry in plan.entries), plan.launcher) if name not in text]
    if missing:
        message = f"{source} is not the text of {plan.launcher}: it lacks {', '.join(missing)}"
        raise GemmError([Diagnostic("G931", message)])
    return kernel.with_source(text)
