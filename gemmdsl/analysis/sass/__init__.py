"""Machine code: reads what nvdisasm prints and runs the integer half of it.

`read_listing(text)` gives the instructions of every kernel with their source lines, and the constants that
they read; `run_block(...)` executes one block of a kernel for given arguments, with real addresses and
predicates but without data, and counts every access to memory.
"""

from gemmdsl.analysis.sass.listing import Function, Instruction, read_listing
from gemmdsl.analysis.sass.machine import AccessTotal, CannotEvaluate, Execution, run_block

__all__ = [
    "AccessTotal",
    "CannotEvaluate",
    "Execution",
    "Function",
    "Instruction",
    "read_listing",
    "run_block",
]
