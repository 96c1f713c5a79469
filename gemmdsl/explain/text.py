"""The report as text, for a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gemmdsl.analysis.access import KINDS, Access, Count, Space, summed
from gemmdsl.analysis.bankmap import bank_map
from gemmdsl.analysis.banks import BANKS
from gemmdsl.analysis.compiled import Compiled
from gemmdsl.analysis.roofline import Waves
from gemmdsl.analysis.sweeps import Swept
from gemmdsl.checker import Program
from gemmdsl.explain.advice import Suggestion, as_diff
from gemmdsl.explain.findings import Finding
from gemmdsl.explain.model import Model
from gemmdsl.explain.pictures import Ownership, ownership
from gemmdsl.spec import Schedule
from gemmdsl.target import WARP_SIZE
from gemmdsl.wording import amount, duration, measure, several

_MOST_CELLS = 16


def text(report: Model, program: Program) -> str:
    """The whole report; ends in a newline."""
    compiler = report.machine.compiler if report.machine is not None else ""
    spaces: tuple[tuple[str, Space], ...] = (
        ("Shared memory", "shared"),
        ("Global memory", "global"),
    )
    parts = [_head(report), _picture(report)]
    for title, space in spaces:
        unit = "wavefronts" if space == "shared" else "32-byte sectors"
        asked = _table(f"{title} as written ({unit})", report.accesses, space)
        parts.append(asked)
        if report.machine is not None and asked:
            made = _table(f"{title} as compiled by {compiler} ({unit})", report.machine.accesses, space)
            parts.append(
                made if _differs(report, space) else f"{title} as compiled by {compiler}: the same\n"
            )
        if space == "shared":
            parts.append(_banks(report.accesses))
    parts += [
        _table(f"{sweep_title(sweep)} as written (32-byte sectors)", sweep.accesses, "global")
        for sweep in report.sweeps
    ]
    parts += [_instructions(report), _resources(report), _roofline(report), _findings(report.findings)]
    if report.suggested is not None:
        parts.append(_suggestions(report, program, report.suggested))
    return "\n".join(part for part in parts if part)


def sweep_title(sweep: Swept) -> str:
    """What a table of a kernel around the main one is about."""
    size = f"{several(sweep.blocks, 'block')} of {several(sweep.threads, 'thread')}"
    return f"{sweep.name}, {size}: global memory"


def _differs(report: Model, space: Space) -> bool:
    """Whether the machine code makes other accesses than the schedule asks for."""
    assert report.machine is not None
    views = (report.accesses, report.machine.accesses)
    asked, made = (
        {(a.operand, a.kind, a.width, a.asynchronous): a.total for a in view if a.space == space}
        for view in views
    )
    return asked != made


def _head(report: Model) -> str:
    schedule, plan = report.spec.schedule, report.source.plan
    across, along, _ = plan.grid(report.shape.m, report.shape.n)
    tile = f"{schedule.block_m} x {schedule.block_n}" + (f" x {schedule.block_k}" if schedule.staged else "")
    rows = [
        f"{schedule.name} for {report.spec.problem.name} on {report.spec.target.name}, {report.shape}"
        f" (lda {report.shape.lda}, ldb {report.shape.ldb}, ldc {report.shape.ldc}), path {report.path.name}",
        f"  {several(across * along, 'block')} of {several(plan.threads, 'thread')}, block tile {tile},"
        f" thread tile {schedule.thread_m} x {schedule.thread_n},"
        f" {several(report.kernel.shared_bytes, 'byte')} of shared memory",
    ]
    if plan.parts is not None:
        busy = several(plan.parts.busy(report.shape.k), "part")
        ends = "added to C atomically" if plan.parts.atomic else "stored in parts"
        rows.append(
            f"  {several(along, 'block')} for each tile of C, {busy} of K not empty; products are {ends}"
        )
    for sweep in report.sweeps:
        when = "before" if sweep.before else "afterwards"
        rows.append(f"  {sweep.name} goes through C {when}: counted apart")
    if report.machine is None:
        rows.append(f"  machine code was not looked at: {report.no_machine}")
    return "\n".join(rows) + "\n"


def _picture(report: Model) -> str:
    """Lanes of the first warp over its pieces of the block tile."""
    owned = ownership(report.kernel).of_warp(0)
    cells = [row[:_MOST_CELLS] for row in owned.owners[:_MOST_CELLS]]
    lines = [f"Warp 0: each number is the lane that owns a piece of {owned.piece[0]} x {owned.piece[1]}"]
    lines.append("     n " + "".join(f"{n:4}" for n in owned.cols[:_MOST_CELLS]) + _more(owned.cols))
    for m, row in zip(owned.rows, cells, strict=False):
        marks = "".join(f"{owner % WARP_SIZE:4}" if owner >= 0 else "   ." for owner in row)
        lines.append(f" m {m:4}{marks}{_more(owned.cols)}")
    if len(owned.rows) > _MOST_CELLS:
        lines.append("    ...")
    lines += _warps(report, ownership(report.kernel))
    return "\n".join(lines) + "\n"


def _more(cells: Sequence[int]) -> str:
    return " .." if len(cells) > _MOST_CELLS else ""


def _warps(report: Model, owned: Ownership) -> Iterator[str]:
    """Where each warp starts."""
    count = -(-report.source.plan.threads // WARP_SIZE)
    places = []
    for warp in range(min(count, 8)):
        mine = owned.of_warp(warp)
        places.append(f"{warp}: ({mine.rows[0]}, {mine.cols[0]})")
    yield f"Warps start at (m, n) {', '.join(places)}{', ...' if count > 8 else ''}"


def _table(title: str, accesses: Sequence[Access], space: Space) -> str:
    """Accesses of one memory, and their sums by direction."""
    rows = [access for access in accesses if access.space == space]
    if not rows:
        return ""
    cost, excess = ("wavefronts", "conflicts") if space == "shared" else ("sectors", "excess")
    lines = [
        title,
        f"  {'line':>5} {'access':<8} {'bits':>4} {'requests':>15} {cost:>15} {'ideal':>15} {excess:>15}"
        f" {'share':>7} {'per req':>7}",
    ]
    for access in rows:
        line = f"{access.line:5}" if access.line else "     "
        lines.append(f"  {line} {access.name:<8} {8 * access.width:4} {_numbers(access.total)}")
    for kind in KINDS[space]:
        total = summed(rows, space, kind, None)
        if total.requests:
            lines.append(f"  {'':5} {f'all {kind}s':<13} {_numbers(total)}")
    per_tile = [access for access in rows if access.per_tile is not None]
    if per_tile and space == "shared":
        shown = ", ".join(
            f"{access.name} {access.per_tile.cost}" for access in per_tile if access.per_tile is not None
        )
        lines.append(f"  wavefronts per block and K tile: {shown}")
    return "\n".join(lines) + "\n"


def _numbers(count: Count) -> str:
    return (
        f"{amount(count.requests):>15} {amount(count.cost):>15} {amount(count.ideal):>15}"
        f" {amount(count.excess):>15}"
        f" {count.share:7.2%} {count.per_request:7.3f}"
    )


def _banks(accesses: Sequence[Access]) -> str:
    """For each access with conflicts, the lanes that meet in its fullest bank."""
    lines = ["Where lanes meet, in the dearest instruction of each access"]
    for access in accesses:
        if access.space != "shared" or not access.total.excess or not access.example:
            continue
        passes = bank_map(access.rule, access.width, access.example, access.sources)
        if access.passes_by:
            moved = [(word, at) for word, at in zip(access.example, access.sources, strict=True) if word >= 0]
            rows, sources = {word // BANKS for word, _ in moved}, {at // BANKS for _, at in moved if at >= 0}
            lines.append(
                f"  {access.name}: {len(passes)} wavefronts,"
                f" from {several(len(sources), 'line')} of 128 bytes to {several(len(rows), 'row')} of banks"
            )
            continue
        worst = max(passes, key=lambda one: one.wavefronts)
        if worst.sources:
            lines.append(
                f"  {access.name}: {worst.wavefronts} wavefronts; lanes {_lanes(worst.meeting)} share banks,"
                f" {max(map(len, worst.sources))}-way where they read and {max(map(len, worst.banks))}-way"
                " where they write"
            )
            continue
        words = worst.banks[worst.worst]
        full = sum(len(bank) == worst.wavefronts for bank in worst.banks)
        meet = ", ".join(f"lane {_lanes(lanes)} word {word}" for word, lanes in words[:6])
        more = ", ..." if len(words) > 6 else ""
        lines.append(
            f"  {access.name}: {worst.wavefronts}-way in {full} of {BANKS} banks;"
            f" bank {worst.worst}: {meet}{more}"
        )
    return "\n".join(lines) + "\n" if len(lines) > 1 else ""


def _lanes(lanes: tuple[int, ...]) -> str:
    if len(lanes) > 2 and lanes == tuple(range(lanes[0], lanes[-1] + 1)):
        return f"{lanes[0]}-{lanes[-1]}"
    return "/".join(map(str, lanes[:4])) + ("/.." if len(lanes) > 4 else "")


def _instructions(report: Model) -> str:
    machine = report.machine
    if machine is None:
        return ""
    lines = [
        f"Instructions as compiled: {amount(machine.instructions)} issued by warps,"
        f" {machine.ffma_share:.1%} FFMA; main loop {machine.loop_ffma_share:.1%}",
    ]
    lines.append(f"  {'':<22} {f'per warp and {step(report)}':>20} {'launch':>15} {'share':>7}")
    for kind, once, issued, share in mix(machine):
        lines.append(f"  {kind:<22} {once:20.1f} {amount(issued):>15} {share:7.2%}")
    return "\n".join(lines) + "\n"


def step(report: Model) -> str:
    """What the main loop goes through."""
    return "K tile" if report.kernel.staging is not None else "k"


def mix(machine: Compiled) -> Iterator[tuple[str, float, int, float]]:
    """(kind, instructions that one more step costs a warp, those of the launch, their share of all)."""
    total = machine.instructions
    for kind in dict.fromkeys((*machine.loop_mix, *machine.mix)):
        issued = machine.mix.get(kind, 0)
        yield kind, machine.loop_mix.get(kind, 0.0), issued, issued / total if total else 0.0


def _resources(report: Model) -> str:
    usage = report.machine.usage if report.machine is not None else None
    if usage is not None:
        registers = (
            f"{usage.registers} registers by ptxas (estimate {report.estimated}),"
            f" stack {several(usage.stack, 'byte')},"
            f" spills {usage.spill_stores} stored and {usage.spill_loads} loaded"
        )
    else:
        registers = f"{report.estimated} registers, an estimate"
    lines = ["Resources", f"  {registers}"]
    lines.append(f"  {'target':<8} {'blocks/SM':>9} {'warps':>9} {'occupancy':>9}  limited by")
    for occupancy in report.occupancies:
        warps = f"{occupancy.warps}/{occupancy.max_warps}"
        mark = "*" if occupancy is report.occupancy else " "
        lines.append(
            f" {mark}{occupancy.target:<8} {occupancy.blocks:9} {warps:>9}"
            f" {occupancy.share:9.0%}  {', '.join(occupancy.limiters)}"
        )
    return "\n".join(lines) + "\n"


def _roofline(report: Model) -> str:
    roof = report.roofline
    lines = [f"Intensity and ceilings on {roof.gpu}, {roof.peak_tflops:.1f} TFLOP/s peak"]
    for tier in roof.intensities:
        lines.append(
            f"  {tier.tier:<30} {tier.floats_per_fma:10.5f} floats per FMA"
            f" {measure(tier.flop_per_byte, 2):>10} FLOP per byte"
        )
    for name, seconds in roof.ceilings:
        mark = "  <- binds" if name == roof.binding and seconds else ""
        lines.append(f"  {name:<30} {duration(seconds):>13} alone{mark}")
    waves = roof.waves
    lines.append(
        f"  {several(waves.blocks, 'block')}, {waves.resident:,} at a time: {measure(waves.waves, 2)} waves;"
        f" {dealt(waves)}"
    )
    lines.append(f"  {raster(report.spec.schedule)}: {first_wave(waves)}")
    best, worst = roof.fastest, roof.slowest
    if best > 0:
        speed = report.shape.flops / best / 1e12
        lines.append(
            f"  time between {duration(best)} ({speed:.1f} TFLOP/s, everything else hidden)"
            f" and {duration(worst)} (nothing hidden)"
        )
    lines.append("  assumes boost clock, matrices moved once between DRAM and cache, no launch overhead")
    return "\n".join(lines) + "\n"


def dealt(waves: Waves) -> str:
    """How blocks fall to the SMs, and what of the GPU's time is lost by it."""
    most = several(waves.most, "block")
    return f"at most {most} for an SM, {waves.lost:.1%} of all SMs' time unused"


def first_wave(waves: Waves) -> str:
    """What the blocks that run first read, in words."""
    parts = "" if waves.parts == 1 else f", in {waves.parts} parts of K"
    rows, cols = several(waves.rows, "row"), several(waves.cols, "column")
    return f"the first wave reads {rows} of A's tiles and {cols} of B's{parts}"


def raster(schedule: Schedule) -> str:
    """In which order blocks go through the tiles of C, in words."""
    lines = "rows" if schedule.raster_along == "M" else "columns"
    if schedule.raster == 1:
        return f"blocks go through one {lines.removesuffix('s')} of tiles after the other"
    return f"blocks go through {schedule.raster} {lines} of tiles at a time"


def _findings(found: Sequence[Finding]) -> str:
    if not found:
        return "Findings: none\n"
    lines = ["Findings"]
    for finding in found:
        place = f", line {finding.line}" if finding.line else ""
        lines.append(f"  {finding.weight}[{finding.code}]{place}: {finding.message}")
        if finding.advice:
            lines.append(f"    {finding.advice}")
    return "\n".join(lines) + "\n"


def _suggestions(report: Model, program: Program, found: Sequence[Suggestion]) -> str:
    if not found:
        views = "as written and as compiled, " if report.machine is not None else ""
        return f"Suggestions: no neighbour takes fewer wavefronts, {views}at equal resources\n"
    proved = "; as compiled, they are better too" if report.machine is not None else ""
    parts = [f"Suggestions: the best neighbours with few changes, as written, per block and K tile{proved}"]
    for suggestion in found:
        cost = suggestion.cost
        parts.append(
            f"  {several(cost.wavefronts, 'wavefront')} ({several(cost.conflicts, 'conflict')}),"
            f" {several(cost.sectors, 'sector')}, {several(cost.requests, 'request')},"
            f" {several(suggestion.shared_bytes, 'byte')} of shared memory"
            f" ({report.kernel.shared_bytes:,} now)\n"
        )
        parts.append(as_diff(program, suggestion))
    return "\n".join(parts)
