"""Disassembles cubins with nvdisasm."""

from __future__ import annotations

from gemmdsl.toolchain.errors import refused
from gemmdsl.toolchain.locate import find_tool
from gemmdsl.toolchain.nvcc import workspace
from gemmdsl.toolchain.process import run_tool

_TIMEOUT = 120.0


def disassemble(cubin: bytes) -> str:
    """Sections of a cubin, SASS of every kernel among them, with source lines (if compiled with `line_info`).

    ToolError when there is no nvdisasm or it refuses the cubin.
    """
    tool = find_tool("nvdisasm")
    with workspace() as folder:
        (folder / "kernel.cubin").write_bytes(cubin)
        outcome = run_tool((tool.path, "-gi", "kernel.cubin"), folder, _TIMEOUT)
    if outcome.status != 0:
        raise refused("nvdisasm", "the cubin", outcome.status, outcome.messages)
    return outcome.text
