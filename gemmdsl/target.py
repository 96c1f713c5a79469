"""What a GPU generation has: one row of the table per target.

Figures: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (CUDA 13).
"""

from __future__ import annotations

from dataclasses import dataclass

WARP_SIZE = 32
KIB = 1024
# Shared memory a block may use without the opt-in of cudaFuncAttributeMaxDynamicSharedMemorySize.
STATIC_SHARED_LIMIT = 48 * KIB
MAX_THREADS_PER_BLOCK = 1024
MAX_REGISTERS_PER_THREAD = 255
REGISTERS_PER_SM = 64 * KIB


@dataclass(frozen=True, slots=True)
class Target:
    """Limits of one compute capability; sizes in bytes."""

    name: str
    max_threads_per_sm: int
    max_blocks_per_sm: int
    shared_per_sm: int
    shared_per_block: int
    async_copy: bool

    @property
    def number(self) -> int:
        return int(self.name.removeprefix("sm_"))


def _row(number: int, warps: int, blocks: int, shared_kib: int, block_kib: int) -> Target:
    return Target(f"sm_{number}", warps * WARP_SIZE, blocks, shared_kib * KIB, block_kib * KIB, number >= 80)


TARGETS: dict[str, Target] = {
    row.name: row
    for row in (
        _row(75, warps=32, blocks=16, shared_kib=64, block_kib=64),
        _row(80, warps=64, blocks=32, shared_kib=164, block_kib=163),
        _row(86, warps=48, blocks=16, shared_kib=100, block_kib=99),
        _row(87, warps=48, blocks=16, shared_kib=164, block_kib=163),
        _row(89, warps=48, blocks=24, shared_kib=100, block_kib=99),
        _row(90, warps=64, blocks=32, shared_kib=228, block_kib=227),
        _row(100, warps=64, blocks=32, shared_kib=228, block_kib=227),
        _row(103, warps=64, blocks=32, shared_kib=228, block_kib=227),
        _row(110, warps=48, blocks=24, shared_kib=228, block_kib=227),
        _row(120, warps=48, blocks=24, shared_kib=100, block_kib=99),
        _row(121, warps=48, blocks=24, shared_kib=100, block_kib=99),
    )
}
