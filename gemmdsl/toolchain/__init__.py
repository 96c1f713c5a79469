"""The CUDA toolkit's programs: found, checked for age and called.

`find_tool(name)` finds nvcc, ptxas, cuobjdump or nvdisasm; `compile_cubin(text, target)` and
`compile_ptx(text, target)` compile; `disassemble(cubin)` reads machine code; `parse_usage(report)` reads
registers, spills and shared memory from `ptxas -v`.  Whatever goes wrong is a ToolError.
"""

from gemmdsl.toolchain.disassemble import disassemble
from gemmdsl.toolchain.errors import ToolError
from gemmdsl.toolchain.locate import Tool, find_tool
from gemmdsl.toolchain.nvcc import Cubin, compile_cubin, compile_ptx, supported_targets
from gemmdsl.toolchain.usage import Usage, parse_usage

__all__ = [
    "Cubin",
    "Tool",
    "ToolError",
    "Usage",
    "compile_cubin",
    "compile_ptx",
    "disassemble",
    "find_tool",
    "parse_usage",
    "supported_targets",
]
