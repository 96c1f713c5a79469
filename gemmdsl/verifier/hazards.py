"""Hazards: conflicting accesses of two threads that no edge orders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from gemmdsl.printer import headline
from gemmdsl.spec import StagedName
from gemmdsl.verifier.failure import HAZARD, Refuted
from gemmdsl.verifier.tiles import Conflict
from gemmdsl.verifier.trace import Access, Order, Trace


def prove_ordered(trace: Trace, conflicts: Mapping[StagedName, Conflict | None]) -> None:
    """Every conflicting pair of the trace is ordered.

    `conflicts` has, per operand, a word that one thread copies and another reads.  Two copies into a slot
    write each word from the same thread, which orders them unless the first is asynchronous and in flight.
    """
    order = Order(trace.edges)
    open_accesses: defaultdict[tuple[StagedName, int], list[Access]] = defaultdict(list)
    for access in trace.accesses:
        place = (access.operand, access.slot)
        earlier = [other for other in open_accesses[place] if order.visible_after(other) >= access.begin]
        for other in earlier:
            if not (other.write or access.write):
                continue
            if other.write and access.write:
                if other.end >= access.begin and not other.apart(access):
                    raise _in_flight(trace, other, access)
            else:
                found = conflicts[access.operand]
                if found is not None:
                    raise _unordered(trace, other, access, found)
        open_accesses[place] = [*earlier, access]


def _in_flight(trace: Trace, first: Access, second: Access) -> Refuted:
    earlier, later = headline(first.statement), headline(second.statement)
    return Refuted(
        HAZARD,
        f"`{earlier}` is still in flight when `{later}` writes the same words",
        k_tiles=trace.k_tiles,
        slot=second.slot,
        first_tile=first.tile,
        second_tile=second.tile,
    )


def _unordered(trace: Trace, first: Access, second: Access, found: Conflict) -> Refuted:
    writer_first = first.write
    earlier, later = headline(first.statement), headline(second.statement)
    return Refuted(
        HAZARD,
        f"no barrier orders `{earlier}` of one thread before `{later}` of another",
        k_tiles=trace.k_tiles,
        operand=second.operand,
        slot=second.slot,
        word=found.word,
        first_thread=found.writer if writer_first else found.reader,
        first_tile=first.tile,
        second_thread=found.reader if writer_first else found.writer,
        second_tile=second.tile,
    )
