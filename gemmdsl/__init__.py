"""gemmdsl: from matrix-product schedules to fast, readable, proven CUDA.

    program = gemmdsl.load("examples/ladder.gemm")
    kernel = program.compile(schedule="v3_2", target="sm_90")
    print(kernel.source)
    c = kernel.run(a, b, alpha=2.0)

Importing the package loads none of its dependencies; the names below do when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gemmdsl.version import __version__

if TYPE_CHECKING:
    from gemmdsl.api import CompiledKernel, Program, load, loads
    from gemmdsl.diagnostics import GemmError

__all__ = ["CompiledKernel", "GemmError", "Program", "__version__", "load", "loads"]

_HOMES = {
    "CompiledKernel": "gemmdsl.api",
    "Program": "gemmdsl.api",
    "load": "gemmdsl.api",
    "loads": "gemmdsl.api",
    "GemmError": "gemmdsl.diagnostics",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'gemmdsl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
