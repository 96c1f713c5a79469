"""What a GPU generation has: one row of the table per target.

Figures: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" and "Arithmetic
Instructions" (CUDA 13); allocation units: CUDA occupancy calculator; GPUs: their makers' data sheets.
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
# Along the first axis of a grid, and along its second one.
MAX_BLOCKS = 2**31 - 1
MAX_BLOCKS_DOWN = 65535

# Registers are given out to warps in units of this many, from four equal parts of the register file.
REGISTER_UNIT = 256
SM_PARTITIONS = 4
# Shared memory serves one wavefront, 32 banks of a word each, per cycle.
WAVEFRONTS_PER_CYCLE = 1


@dataclass(frozen=True, slots=True)
class Gpu:
    """A product that stands for its compute capability: SMs, boost clock, DRAM bandwidth in 1e9 bytes/s."""

    name: str
    sms: int
    clock_mhz: int
    dram_gb_s: int


@dataclass(frozen=True, slots=True)
class Target:
    """Limits of one compute capability; sizes in bytes.

    `vector_atomics` says whether vectors of floats can be added to global memory by one instruction.
    `fp32_lanes` is how many FMAs an SM does per cycle.  A block takes its shared memory plus
    `shared_reserved`, rounded up to `shared_unit`.  `gpu` is the example for waves and times.
    """

    name: str
    max_threads_per_sm: int
    max_blocks_per_sm: int
    shared_per_sm: int
    shared_per_block: int
    async_copy: bool
    vector_atomics: bool
    fp32_lanes: int
    shared_reserved: int
    shared_unit: int
    gpu: Gpu

    @property
    def number(self) -> int:
        return int(self.name.removeprefix("sm_"))

    def shared_taken(self, shared_bytes: int) -> int:
        """What a block with `shared_bytes` of its own takes of an SM's shared memory."""
        return -(-(shared_bytes + self.shared_reserved) // self.shared_unit) * self.shared_unit


def _row(
    number: int, warps: int, blocks: int, shared_kib: int, block_kib: int, lanes: int, gpu: Gpu
) -> Target:
    # From compute capability 8.0 on, the system keeps 1 KiB of every block's shared memory.
    modern = number >= 80
    return Target(
        name=f"sm_{number}",
        max_threads_per_sm=warps * WARP_SIZE,
        max_blocks_per_sm=blocks,
        shared_per_sm=shared_kib * KIB,
        shared_per_block=block_kib * KIB,
        async_copy=modern,
        vector_atomics=number >= 90,
        fp32_lanes=lanes,
        shared_reserved=KIB if modern else 0,
        shared_unit=128 if modern else 256,
        gpu=gpu,
    )


# Example GPUs: SMs, boost clock in MHz, DRAM bandwidth in 1e9 bytes/s.
_T4 = Gpu("T4", 40, 1590, 320)
_A100 = Gpu("A100 SXM 80 GB", 108, 1410, 2039)
_A10 = Gpu("A10", 72, 1695, 600)
_ORIN = Gpu("Jetson AGX Orin 64 GB", 16, 1300, 205)
_L40S = Gpu("L40S", 142, 2520, 864)
_H200 = Gpu("H200 SXM", 132, 1980, 4800)
_B200 = Gpu("B200", 148, 1965, 8000)
_B300 = Gpu("B300", 148, 2032, 8000)
_T5000 = Gpu("Jetson T5000", 20, 1575, 273)
_5090 = Gpu("RTX 5090", 170, 2407, 1792)
_GB10 = Gpu("GB10", 48, 2418, 273)

TARGETS: dict[str, Target] = {
    row.name: row
    for row in (
        _row(75, warps=32, blocks=16, shared_kib=64, block_kib=64, lanes=64, gpu=_T4),
        _row(80, warps=64, blocks=32, shared_kib=164, block_kib=163, lanes=64, gpu=_A100),
        _row(86, warps=48, blocks=16, shared_kib=100, block_kib=99, lanes=128, gpu=_A10),
        _row(87, warps=48, blocks=16, shared_kib=164, block_kib=163, lanes=128, gpu=_ORIN),
        _row(89, warps=48, blocks=24, shared_kib=100, block_kib=99, lanes=128, gpu=_L40S),
        _row(90, warps=64, blocks=32, shared_kib=228, block_kib=227, lanes=128, gpu=_H200),
        _row(100, warps=64, blocks=32, shared_kib=228, block_kib=227, lanes=128, gpu=_B200),
        _row(103, warps=64, blocks=32, shared_kib=228, block_kib=227, lanes=128, gpu=_B300),
        _row(110, warps=48, blocks=24, shared_kib=228, block_kib=227, lanes=128, gpu=_T5000),
        _row(120, warps=48, blocks=24, shared_kib=100, block_kib=99, lanes=128, gpu=_5090),
        _row(121, warps=48, blocks=24, shared_kib=100, block_kib=99, lanes=128, gpu=_GB10),
    )
}
