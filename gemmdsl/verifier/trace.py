"""What a program does to shared memory for one number of K tiles: accesses, and edges that order them.

All threads of a block run the same uniform program, so one trace stands for every thread: an access is what
each thread does at a position of its own program.  Whether two threads' accesses are ordered is said by
edges: whatever any thread has completed before position `release` happens before whatever any thread begins
after position `acquire`.  A barrier is the edge from its own position to itself; other hand-overs between
threads are edges with two ends.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from gemmdsl.ir import Stmt
from gemmdsl.spec import StagedName

# Position at which something that never happens would happen.
NEVER = 1 << 60


@dataclass(slots=True)
class Access:
    """An access of every thread to its share of one slot.

    It happens between positions `begin` and `end` of the thread's program; these differ for an asynchronous
    copy, which ends where the thread waits for it.  `tile` is the K tile written, or the one being read.  A
    copy of one of `batches` batches writes the words of that batch alone.
    """

    operand: StagedName
    slot: int
    write: bool
    tile: int
    statement: Stmt
    begin: int
    end: int
    batch: int = 0
    batches: int = 1

    def apart(self, other: Access) -> bool:
        """Whether the two are copies of different batches of one tile, which have no word in common."""
        return (self.tile, self.batches) == (other.tile, other.batches) and self.batch != other.batch


@dataclass(frozen=True, slots=True)
class Edge:
    """Completed before `release` in any thread: visible to what any thread begins after `acquire`."""

    release: int
    acquire: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Accesses in the order in which they begin, and the edges among them."""

    k_tiles: int
    accesses: tuple[Access, ...]
    edges: tuple[Edge, ...]


class Order:
    """Answers when an access of one thread is ordered before what other threads do."""

    def __init__(self, edges: tuple[Edge, ...]) -> None:
        by_release = sorted(edges, key=lambda edge: edge.release)
        self._releases = [edge.release for edge in by_release]
        # Earliest acquire among an edge and all later ones: a thread may go through any of them.
        earliest = accumulate((edge.acquire for edge in reversed(by_release)), min)
        self._acquires = list(earliest)[::-1]

    def visible_after(self, access: Access) -> int:
        """Position after which every thread's accesses come after this one in all threads."""
        at = bisect_right(self._releases, access.end)
        return self._acquires[at] if at < len(self._acquires) else NEVER
