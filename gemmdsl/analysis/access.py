"""One access of a kernel, and what it costs over a whole launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from gemmdsl.analysis.banks import BYPASS, AccessKind
from gemmdsl.spec import OperandName

Space = Literal["shared", "global"]
# Atomic additions to global memory are neither loads nor stores to those who count them.
Kind = Literal["load", "store", "add"]
KINDS: Mapping[Space, tuple[Kind, ...]] = {"shared": ("load", "store"), "global": ("load", "store", "add")}


@dataclass(frozen=True, slots=True)
class Count:
    """Requests of warps, and their cost in wavefronts (shared memory) or sectors (global memory)."""

    requests: int = 0
    cost: int = 0
    ideal: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.requests + other.requests, self.cost + other.cost, self.ideal + other.ideal)

    def __mul__(self, times: int) -> Count:
        return Count(self.requests * times, self.cost * times, self.ideal * times)

    @property
    def excess(self) -> int:
        """Bank conflicts, or sectors beyond the ideal."""
        return self.cost - self.ideal

    @property
    def share(self) -> float:
        """Part of the cost that is excess, in [0, 1]."""
        return self.excess / self.cost if self.cost else 0.0

    @property
    def efficiency(self) -> float:
        """Ideal over actual cost, in [0, 1]; 1 where there is none."""
        return self.ideal / self.cost if self.cost else 1.0

    @property
    def per_request(self) -> float:
        return self.cost / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Access:
    """What one place of a kernel does to one memory.

    `line` and `function` are of the emitted CUDA text; `width` is bytes per lane.  `total` is for a launch,
    `per_tile` for one block and K tile (None for what happens once per block).  `example` holds the lanes'
    addresses of its dearest instruction, in words (shared) or bytes (global) from a round number, -1 for an
    idle lane.  `asynchronous`: a copy that passes the registers by; in shared memory, `sources` are then the
    words that the example's lanes read, from a round number as well.
    """

    space: Space
    kind: Kind
    operand: OperandName | None
    function: str
    line: int
    width: int
    total: Count
    per_tile: Count | None
    example: tuple[int, ...]
    asynchronous: bool = False
    sources: tuple[int, ...] = ()

    @property
    def rule(self) -> AccessKind:
        """By which rule an access to shared memory is counted."""
        assert self.kind != "add", "shared memory is not added to"
        return "copy" if self.asynchronous else self.kind

    @property
    def passes_by(self) -> bool:
        """Whether it is a copy that does not go through the L1 cache, which has no bank conflicts."""
        return self.asynchronous and self.space == "shared" and self.width == BYPASS

    @property
    def name(self) -> str:
        verb = "copy" if self.asynchronous else self.kind
        return f"{self.operand or '?'} {verb}"


def summed(accesses: Iterable[Access], space: Space, kind: Kind, asynchronous: bool | None = False) -> Count:
    """Total over accesses of one memory and direction; `asynchronous` None takes both kinds of copies."""
    total = Count()
    for access in accesses:
        if access.space == space and access.kind == kind and asynchronous in (None, access.asynchronous):
            total += access.total
    return total
