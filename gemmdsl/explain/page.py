"""The report as one HTML page that needs nothing from the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gemmdsl.analysis.access import KINDS, Access, Count, Space, summed
from gemmdsl.analysis.bankmap import bank_map
from gemmdsl.analysis.roofline import bandwidths
from gemmdsl.checker import Program
from gemmdsl.emit.environment import environment
from gemmdsl.explain import svg
from gemmdsl.explain.advice import as_diff
from gemmdsl.explain.model import Model
from gemmdsl.explain.pictures import ownership, timeline
from gemmdsl.explain.text import dealt, first_wave, mix, raster, step, sweep_title
from gemmdsl.version import __version__
from gemmdsl.wording import amount, duration, measure, several


@dataclass(frozen=True, slots=True)
class BankPicture:
    """One shared access: what it is, whether lanes collide in it, and the picture."""

    title: str
    clashes: bool
    picture: str


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of CUDA with its counts over the launch; empty where there is none."""

    number: int
    text: str
    issued: str
    wavefronts: str
    sectors: str
    clashes: bool


@dataclass(frozen=True, slots=True)
class Figure:
    """One number at the top of the page."""

    label: str
    value: str


def page(report: Model, program: Program) -> str:
    """The HTML text."""
    owned = ownership(report.kernel)
    template = environment().get_template("explain/page.html.j2")
    return template.render(
        version=__version__,
        several=several,
        amount=amount,
        duration=duration,
        measure=measure,
        raster=raster(report.spec.schedule),
        dealt=dealt(report.roofline.waves),
        first_wave=first_wave(report.roofline.waves),
        report=report,
        step=step(report),
        mix=list(mix(report.machine)) if report.machine is not None else (),
        figures=_figures(report),
        views=_views(report),
        warp_picture=svg.warp_tile(owned.of_warp(0)),
        block_picture=svg.block_tile(owned),
        piece=owned.piece,
        banks=[_bank_picture(access) for access in report.accesses if access.space == "shared"],
        timeline=svg.timeline(timeline(report.kernel)),
        roofline=svg.roofline(report.roofline, bandwidths(report.kernel)),
        code=_code(report),
        diffs=[(suggestion, as_diff(program, suggestion)) for suggestion in report.suggested or ()],
    )


def _figures(report: Model) -> list[Figure]:
    loads = summed(report.counted, "shared", "load")
    stores = summed(report.counted, "shared", "store", None)
    occupancy, machine = report.occupancy, report.machine
    figures = []
    if loads.requests:
        figures.append(Figure("wavefronts per shared load", f"{loads.per_request:.3f}"))
        conflicts = loads + stores
        figures.append(Figure("bank conflicts", f"{conflicts.share:.2%}"))
    if machine is not None:
        figures.append(Figure("FFMA in the main loop", f"{machine.loop_ffma_share:.1%}"))
    kind = "registers" if machine is not None else "registers, estimated"
    figures.append(Figure(kind, str(report.registers)))
    figures.append(Figure("warps per SM", f"{occupancy.warps} of {occupancy.max_warps}"))
    figures.append(Figure("binding ceiling", report.roofline.binding))
    figures.append(Figure("waves", f"{report.roofline.waves.waves:.2f}"))
    return figures


def _views(report: Model) -> list[tuple[str, str, Sequence[tuple[Access | str, Count]]]]:
    """(title, unit of cost, rows) of each table of accesses."""
    views = [("as written", report.accesses)]
    if report.machine is not None:
        views.append((f"as compiled by {report.machine.compiler}", report.machine.accesses))
    spaces: tuple[tuple[Space, str], ...] = (("shared", "wavefronts"), ("global", "sectors"))
    found: list[tuple[str, str, Sequence[tuple[Access | str, Count]]]] = []
    for space, unit in spaces:
        for name, accesses in views:
            rows: list[tuple[Access | str, Count]] = [
                (access, access.total) for access in accesses if access.space == space
            ]
            if rows:
                found.append((f"{space.capitalize()} memory {name}", unit, [*rows, *_sums(accesses, space)]))
    for sweep in report.sweeps:
        rows = [(access, access.total) for access in sweep.accesses]
        found.append((f"{sweep_title(sweep)} as written", "sectors", rows))
    return found


def _sums(accesses: Sequence[Access], space: Space) -> Iterator[tuple[str, Count]]:
    """Of accesses to one memory, those of each kind together."""
    for kind in KINDS[space]:
        total = summed(accesses, space, kind, None)
        if total.requests:
            yield f"all {kind}s", total


def _bank_picture(access: Access) -> BankPicture:
    passes = bank_map(access.rule, access.width, access.example, access.sources) if access.example else ()
    cost = sum(one.wavefronts for one in passes)
    title = (
        f"{access.name}, {8 * access.width} bits, line {access.line}:"
        f" {several(cost, 'wavefront')} in {several(len(passes), 'pass', 'passes')}"
    )
    return BankPicture(title, cost > len(passes), svg.banks(passes))


def _code(report: Model) -> list[CodeLine]:
    issued = report.machine.issued if report.machine is not None else {}
    lines = []
    for number, text in enumerate(report.source.text.splitlines(), start=1):
        here = [access for access in report.counted if access.line == number]
        shared = sum(access.total.cost for access in here if access.space == "shared")
        sectors = sum(access.total.cost for access in here if access.space == "global")
        clashes = any(access.total.excess for access in here if access.space == "shared")
        count = issued.get(number, 0)
        lines.append(CodeLine(number, text, _short(count), _short(shared), _short(sectors), clashes))
    return lines


def _short(number: int) -> str:
    """1.2M for 1,234,567; empty for 0."""
    if number == 0:
        return ""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if 1000 * 10**12 > number >= size:
            return f"{number / size:.3g}{unit}"
    return amount(number)
