"""How many blocks of a kernel an SM holds at once.

Rules: CUDA C++ Programming Guide, "Occupancy"; registers are handed out to warps in units of 256, shared
memory in units of 128 bytes, of which each block takes 1 KiB for the system from sm_80 on.
"""

from __future__ import annotations

from gemmdsl.runtime.device import Limits
from gemmdsl.target import KIB, TARGETS, WARP_SIZE

_REGISTER_UNIT = 256
_SHARED_UNIT = 128
_SYSTEM_SHARED = KIB
_MOST_BLOCKS = 16


def blocks_per_sm(limits: Limits, threads: int, registers: int, shared: int) -> int:
    """Resident blocks of `threads` threads with so many registers each and bytes of shared memory."""
    warps = -(-threads // WARP_SIZE)
    target = TARGETS.get(limits.target)
    found = [
        target.max_blocks_per_sm if target else _MOST_BLOCKS,
        limits.threads_per_sm // (WARP_SIZE * warps),
    ]
    per_warp = -(-registers * WARP_SIZE // _REGISTER_UNIT) * _REGISTER_UNIT
    found.append(limits.registers_per_sm // per_warp // warps if per_warp else found[0])
    taken = -(-shared // _SHARED_UNIT) * _SHARED_UNIT + (_SYSTEM_SHARED if limits.number >= 80 else 0)
    found.append(limits.shared_per_sm // taken if taken else found[0])
    return min(found)
