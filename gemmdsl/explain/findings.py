"""What a report points at: each finding says where, how much, what mends it, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from gemmdsl.analysis.access import KINDS, Access, Count, Kind, Space, summed
from gemmdsl.analysis.compiled import Compiled
from gemmdsl.analysis.roofline import Roofline
from gemmdsl.explain.advice import SMALL, Want
from gemmdsl.explain.compiling import Mend
from gemmdsl.ir import Kernel
from gemmdsl.occupancy import Occupancy
from gemmdsl.spec import OperandName, Schedule, StagedName
from gemmdsl.wording import several

Weight = Literal["warning", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; `line` is of the emitted CUDA (0: none), `advice` is empty where none is known."""

    code: str
    weight: Weight
    message: str
    advice: str = ""
    line: int = 0


def findings(
    kernel: Kernel,
    accesses: Sequence[Access],
    compiled: Compiled | None,
    occupancy: Occupancy,
    roofline: Roofline,
    mends: Mapping[Want, Mend],
) -> tuple[Finding, ...]:
    """Every finding, the dearest kind first: what is wrong, then what differs, then what to know."""
    found = [*_conflicts(kernel, accesses, compiled, mends), *_sectors(kernel, accesses, compiled, mends)]
    if compiled is not None:
        found += [*_spills(compiled, kernel), *_differences(accesses, compiled)]
    found += [*_occupancy(occupancy), *_tail(roofline)]
    return tuple(sorted(found, key=lambda finding: finding.weight != "warning"))


def _conflicts(
    kernel: Kernel,
    accesses: Sequence[Access],
    compiled: Compiled | None,
    mends: Mapping[Want, Mend],
) -> Iterator[Finding]:
    for access in accesses:
        if access.space != "shared" or not access.total.excess or access.operand is None:
            continue
        ideal = access.total.ideal / access.total.requests
        verbs = "copies" if access.rule == "copy" else f"{access.kind}s"
        why = f"{access.total.share:.2%} are bank conflicts"
        if access.passes_by:
            why = "each takes what lies in one line of 128 bytes to one row of banks"
        message = (
            f"{verbs} of {access.operand} ({access.width} bytes) take {access.total.per_request:.4g}"
            f" wavefronts where {ideal:.4g} would do: {why}"
        )
        mend = mends.get((access.space, access.operand, access.kind))
        advice = _advice(kernel, mend, "removes the conflicts", "removes all of them")
        weight: Weight = "warning"
        if compiled is not None and not _total(compiled, access).excess:
            weight, advice = "note", "as compiled there are none: the compiler merges these accesses"
        yield Finding("bank-conflict", weight, message, advice, access.line)


def _total(compiled: Compiled, access: Access) -> Count:
    """What the machine code does of the same kind."""
    assert access.operand is not None
    return summed(_of(compiled.accesses, access.operand), access.space, access.kind, None)


def _advice(kernel: Kernel, mend: Mend | None, does: str, would: str) -> str:
    """A change that `does` something, with what speaks against it as compiled; or that none `would`."""
    if mend is None:
        return f"no single change {would} without more wavefronts, more registers or fewer blocks on an SM"
    words = " ".join(move.text for move in mend.suggestion.changes)
    if mend.but:
        return f"as written, `{words}` {does}; {mend.but}"
    extra = mend.suggestion.shared_bytes - kernel.shared_bytes
    price = f"costs {several(extra, 'byte')} of shared memory" if extra > 0 else "costs no memory"
    told = [f"`{words}` {does}, {'as compiled, too' if mend.tried else 'as written'}", price]
    return "; ".join([*told, *_narrowed(kernel.spec.schedule, mend.suggestion.spec.schedule)])


def _narrowed(before: Schedule, after: Schedule) -> Iterator[str]:
    """Accesses that a change makes narrower, as its padding may do with reads."""
    widths = [
        (f"{access}s of {name}", getattr(before.stage(name), access), getattr(after.stage(name), access))
        for name in get_args(StagedName)
        for access in ("load", "store", "read")
    ]
    for what, old, new in (*widths, ("stores of C", before.c_vector, after.c_vector)):
        if new < old:
            yield f"{what} become {32 * new} bits wide"


def _sectors(
    kernel: Kernel,
    accesses: Sequence[Access],
    compiled: Compiled | None,
    mends: Mapping[Want, Mend],
) -> Iterator[Finding]:
    for access in accesses:
        if access.space != "global" or access.total.share <= SMALL or access.operand is None:
            continue
        mend = mends.get((access.space, access.operand, access.kind))
        advice = _advice(kernel, mend, "takes fewer sectors", "takes fewer sectors")
        weight: Weight = "warning"
        if compiled is not None and _total(compiled, access).share <= SMALL:
            weight, advice = (
                "note",
                "as compiled they use what they touch: the compiler merges these accesses",
            )
        yield Finding(
            "sectors",
            weight,
            f"{access.kind}s of {access.operand} touch {access.total.per_request:.3g} sectors per request"
            f" and use {access.total.efficiency:.0%} of them",
            advice,
            access.line,
        )


def _spills(compiled: Compiled, kernel: Kernel) -> Iterator[Finding]:
    usage = compiled.usage
    if usage.spills or usage.stack:
        outputs = kernel.threads.rows.count.value * kernel.threads.cols.count.value
        causes = [f"{outputs} accumulators of a thread"]
        if kernel.min_blocks:
            causes.append(f"`min_blocks {kernel.min_blocks}`, which caps registers at {usage.registers}")
        yield Finding(
            "local-memory",
            "warning",
            f"{usage.entry} keeps {several(usage.stack, 'byte')} of stack in local memory:"
            f" {several(usage.spill_stores, 'byte')} stored, {usage.spill_loads:,} loaded",
            f"likely causes: {', '.join(causes)}; use a smaller thread tile or drop min_blocks",
        )


def _differences(accesses: Sequence[Access], compiled: Compiled) -> Iterator[Finding]:
    """Where the machine code makes other accesses than the schedule asks for."""
    pairs = [(space, kind) for space, kinds in KINDS.items() for kind in kinds]
    operands: tuple[OperandName, ...] = ("A", "B", "C")
    for space, kind in pairs:
        for operand in operands:
            asked = _widths(accesses, space, kind, operand)
            made = _widths(compiled.accesses, space, kind, operand)
            if asked == made:
                continue
            before, after = (
                summed(_of(found, operand), space, kind, None) for found in (accesses, compiled.accesses)
            )
            narrower = max(made, default=0) < max(asked, default=0)
            line = next((a.line for a in _of(accesses, operand) if (a.space, a.kind) == (space, kind)), 0)
            yield Finding(
                "compiled-differently",
                "warning" if narrower else "note",
                f"{space} {kind}s of {operand}: asked for {_shown(asked)}, compiled to {_shown(made)};"
                f" {before.cost:,} {_unit(space)} as written, {after.cost:,} as compiled",
                _meaning(before, after, narrower),
                line,
            )


def _of(accesses: Sequence[Access], operand: OperandName) -> list[Access]:
    return [access for access in accesses if access.operand == operand]


def _widths(accesses: Sequence[Access], space: Space, kind: Kind, operand: OperandName) -> dict[int, int]:
    """Requests by width, where there are any."""
    found: dict[int, int] = {}
    for access in _of(accesses, operand):
        if (access.space, access.kind) == (space, kind) and access.total.requests:
            found[access.width] = found.get(access.width, 0) + access.total.requests
    return found


def _shown(widths: Mapping[int, int]) -> str:
    parts = [f"{requests:,} of {8 * width} bits" for width, requests in sorted(widths.items())]
    return " + ".join(parts) or "none"


def _unit(space: Space) -> str:
    return "wavefronts" if space == "shared" else "sectors"


def _meaning(before: Count, after: Count, narrower: bool) -> str:
    if narrower:
        return "the compiler could not prove alignment, or split the access: look at its line"
    if after.excess < before.excess:
        if after.excess:
            return "merged accesses have fewer conflicts than the schedule would have"
        return "merged accesses have no conflicts where the schedule would; padding would buy nothing here"
    if after.cost < before.cost:
        return "merging neighbours saves requests"
    return "the counters of a profiler follow the compiled code"


def _occupancy(occupancy: Occupancy) -> Iterator[Finding]:
    if occupancy.blocks == 0:
        yield Finding(
            "no-block-fits",
            "warning",
            f"no block fits on an SM of {occupancy.target}: limited by {' and '.join(occupancy.limiters)}",
            "use a smaller block or thread tile, or fewer buffers",
        )


def _tail(roofline: Roofline) -> Iterator[Finding]:
    waves = roofline.waves
    if waves.lost > SMALL:
        yield Finding(
            "tail",
            "note",
            f"{several(waves.blocks, 'block')} for the {waves.sms} SMs of {roofline.gpu}, at most"
            f" {waves.most} for one: {waves.lost:.0%} of all SMs' time is unused",
            "smaller block tiles, or a number of them just below a multiple of the SMs, lose less",
        )
