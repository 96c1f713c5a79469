"""What slots hold, and what was copied lately, as far as it decides what comes next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gemmdsl.verifier.trace import Access


@dataclass(slots=True)
class Held:
    """What a slot holds: the copies that wrote its tile, one for each batch so far."""

    copies: list[Access]

    @property
    def tile(self) -> int:
        return self.copies[0].tile

    @property
    def missing(self) -> int:
        """Batches of the tile that were not copied yet."""
        return self.copies[0].batches - len(self.copies)


def seen(accesses: Iterable[Access], tile: int, position: int) -> frozenset[object]:
    """Accesses with K tiles counted from `tile`, and whether they have landed at a position.

    A copy in batches that are all there is like one in a single batch.  Which access began first decides
    nothing: what comes later is ordered after all of them by the same barrier, or after none.
    """
    found: dict[tuple[object, ...], set[tuple[int, int]]] = {}
    for access in accesses:
        key = (access.operand, access.slot, access.write, access.tile - tile, access.end <= position)
        found.setdefault(key, set()).add((access.batch, access.batches))
    return frozenset((*key, _open(batches)) for key, batches in found.items())


def _open(batches: set[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """Batches of a copy, each with how many there are; none where all of them are there."""
    (*_, of) = next(iter(batches))
    return frozenset() if batches == {(batch, of) for batch in range(of)} else frozenset(batches)
