"""How many blocks an SM holds, what limits them, and how much shared memory they take together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gemmdsl.target import (
    MAX_REGISTERS_PER_THREAD,
    REGISTER_UNIT,
    REGISTERS_PER_SM,
    SM_PARTITIONS,
    WARP_SIZE,
    Target,
)

Limiter = Literal["registers", "shared memory", "threads", "block slots"]


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks and warps of one kernel that an SM holds at a time.

    `limits` says for each resource how many blocks it allows, `limiters` names the tightest ones.  No block
    fits when `blocks` is 0.
    """

    target: str
    blocks: int
    warps: int
    max_warps: int
    limits: tuple[tuple[Limiter, int], ...]

    @property
    def limiters(self) -> tuple[Limiter, ...]:
        return tuple(name for name, limit in self.limits if limit == self.blocks)

    @property
    def share(self) -> float:
        """Resident warps over the most that an SM holds, in [0, 1]."""
        return self.warps / self.max_warps


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def occupancy(target: Target, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Occupancy of a block of `threads` threads, `registers` each, with `shared_bytes` in all.

    Assumes the largest share of the L1 cache that can be shared memory, which is what the driver picks when
    more blocks fit then.
    """
    warps = -(-threads // WARP_SIZE)
    per_warp = _up(max(registers, 1) * WARP_SIZE, REGISTER_UNIT)
    warps_by_registers = SM_PARTITIONS * (REGISTERS_PER_SM // SM_PARTITIONS // per_warp)
    # A launch is refused unless the block would fit with as many warps in each part of the register file.
    launches = _up(warps, SM_PARTITIONS) * per_warp <= REGISTERS_PER_SM
    shared = target.shared_taken(shared_bytes)
    room = target.shared_per_sm if shared_bytes <= target.shared_per_block else 0
    limits: tuple[tuple[Limiter, int], ...] = (
        ("registers", warps_by_registers // warps if launches else 0),
        ("shared memory", room // shared if shared else target.max_blocks_per_sm),
        ("threads", target.max_threads_per_sm // WARP_SIZE // warps),
        ("block slots", target.max_blocks_per_sm),
    )
    blocks = min(limit for _, limit in limits)
    return Occupancy(target.name, blocks, blocks * warps, target.max_threads_per_sm // WARP_SIZE, limits)


def registers_for(target: Target, threads: int, shared_bytes: int, blocks: int) -> int:
    """The most registers per thread with which `blocks` blocks fit on an SM; 0 if they never do."""
    for registers in range(MAX_REGISTERS_PER_THREAD, 0, -1):
        if occupancy(target, threads, registers, shared_bytes).blocks >= blocks:
            return registers
    return 0


def carveout(target: Target, threads: int, registers: int, shared_bytes: int) -> int:
    """The share of an SM's shared memory, in percent, that the blocks take which it can hold.

    What is not shared memory is L1 cache, through which copies of single words go.
    """
    blocks = occupancy(target, threads, registers, shared_bytes).blocks
    return min(100, -(-100 * blocks * target.shared_taken(shared_bytes) // target.shared_per_sm))
