"""Exact models of what a kernel does to the memories of a GPU, and what that costs.

`wavefronts(kind, width_bytes, word_addresses)` is the rule of shared memory, `sectors(...)` that of global
memory.  `gemmdsl.analysis.written` applies both to the accesses a schedule asks for, evaluated on the index
expressions that the emitter prints; `gemmdsl.analysis.compiled` to the machine code that ptxas made of them.
"""

from gemmdsl.analysis.banks import Passes, wavefronts
from gemmdsl.analysis.sectors import sectors

__all__ = ["Passes", "sectors", "wavefronts"]
