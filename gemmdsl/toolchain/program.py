"""Compiles stand-alone CUDA programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gemmdsl.toolchain.errors import refused
from gemmdsl.toolchain.nvcc import compiler_for
from gemmdsl.toolchain.process import run_tool

_TIMEOUT = 300.0


def compile_program(folder: Path, files: Mapping[str, str], target: str, name: str) -> Path:
    """Write `files` (plain name to text) into `folder`, compile and link its `.cu` files to a program `name`.

    ToolError when there is no nvcc, or it does not know the target or refuses a text.
    """
    compiler = compiler_for(target)
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8", newline="")
    sources = sorted(file for file in files if file.endswith(".cu"))
    words = ("-std=c++17", "-O3", f"-arch={target}", *sources, "-o", name)
    outcome = run_tool((compiler.path, *words), folder, _TIMEOUT)
    if outcome.status != 0:
        raise refused("nvcc", f"the program for {target}", outcome.status, outcome.messages + outcome.text)
    return folder / name
