"""Which threads of a warp go together.

A warp whose threads take different ways goes on in groups, one instruction for each group.  Groups that come
to the same place stay apart; only a convergence barrier joins them: BSSY names the threads that are to meet,
and BSYNC lets none of them pass before all of them are there (or have ended, or left by BREAK).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.target import WARP_SIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gemmdsl.analysis.sass.registers import Mask

    Numbers = NDArray[np.int64]

_NONE = 0


class Convergence:
    """The groups of all warps of a block, and the threads that wait for others of their warp.

    Threads of a warp with equal `group` go together.  A convergence barrier is a register of each thread: the
    number of the meeting that it is to attend, _NONE for none.
    """

    def __init__(self, threads: int) -> None:
        self.group: Numbers = np.zeros(threads, dtype=np.int64)
        self.blocked: Mask = np.zeros(threads, dtype=np.bool_)
        self._awaited: Numbers = np.full(threads, _NONE)
        self._barriers: dict[str, Numbers] = {}
        self._last = _NONE

    def leaders(self, ready: Mask) -> Mask:
        """Of the threads that could go on, those of one group of each warp."""
        if not self.group.any():
            return ready
        groups = np.where(ready, self.group, np.iinfo(np.int64).max).reshape(-1, WARP_SIZE)
        first = np.repeat(groups.min(axis=1), WARP_SIZE)
        chosen: Mask = ready & (self.group == first)
        return chosen

    def part(self, active: Mask, taken: Mask) -> None:
        """Threads of a group that branch away from the others become a group of their own."""
        stay = _any(active & ~taken)
        self.group[taken & stay] = self._fresh()

    def enter(self, barrier: str, threads: Mask) -> None:
        """BSSY: these threads are to meet at the barrier."""
        self._register(barrier)[threads] = self._fresh()

    def leave(self, barrier: str, threads: Mask) -> None:
        """BREAK: these threads will not come."""
        self._register(barrier)[threads] = _NONE

    def move(self, to: str, source: str, threads: Mask) -> None:
        """BMOV: a barrier is put aside in a register, or comes back from there."""
        self._register(to)[threads] = self._register(source)[threads]

    def arrive(self, barrier: str, threads: Mask) -> None:
        """BSYNC: these threads wait for all others of their meeting."""
        meeting = self._register(barrier)
        awaiting = threads & (meeting != _NONE)
        self._awaited[awaiting] = meeting[awaiting]
        self.blocked |= awaiting

    def release(self, done: Mask) -> bool:
        """Lets meetings that are complete go on, as one group each; whether there was one."""
        freed = False
        for meeting in np.unique(self._awaited[self.blocked]).tolist():
            there = self.blocked & (self._awaited == meeting)
            members = np.zeros_like(there)
            for barrier in self._barriers.values():
                members |= barrier == meeting
            complete = there & ~_any(members & ~done & ~there)
            if complete.any():
                groups = np.where(complete, self.group, np.iinfo(np.int64).max).reshape(-1, WARP_SIZE)
                self.group = np.where(complete, np.repeat(groups.min(axis=1), WARP_SIZE), self.group)
                self.blocked &= ~complete
                freed = True
        return freed

    def join(self, threads: Mask) -> None:
        """Threads that met at a barrier of the block go on together."""
        self.group[threads] = 0

    def _register(self, name: str) -> Numbers:
        return self._barriers.setdefault(name, np.full(len(self.group), _NONE))

    def _fresh(self) -> int:
        self._last += 1
        return self._last


def _any(threads: Mask) -> Mask:
    """For each thread, whether its warp has one of `threads`."""
    found: Mask = np.repeat(threads.reshape(-1, WARP_SIZE).any(axis=1), WARP_SIZE)
    return found
