"""`gemmdsl profile`: the model's prediction beside what Nsight Compute counts on a GPU."""

from __future__ import annotations

import json
import shlex
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gemmdsl.cli.options import ShapeType, read_text

if TYPE_CHECKING:
    from gemmdsl.analysis.ncu import Comparison
    from gemmdsl.analysis.ncu_report import Measured
    from gemmdsl.explain.model import Model

_FAILED = 1
# Of a report; one launch takes some thousands.
_MAX_BYTES = 1 << 24
_TIMEOUT = 600.0
SCHEMA = "gemmdsl.profile/2"


@click.command()
@click.argument("file")
@click.option("--schedule", "-s", metavar="NAME", help="The schedule to profile.")
@click.option("--target", "-t", metavar="SM", help="Profile for this target, the GPU's, such as sm_90.")
@click.option(
    "--shape",
    type=ShapeType(),
    default="2048",
    show_default=True,
    help="Sizes of the product, or one number for all three.",
)
@click.option(
    "--report",
    metavar="CSV",
    multiple=True,
    help="Compare with what ncu printed elsewhere instead of running it here; give it once for each file.",
)
@click.option("--script", is_flag=True, help="Print the commands that profile by hand, and run nothing.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    schedule: str | None,
    target: str | None,
    shape: tuple[int, int, int],
    report: tuple[str, ...],
    script: bool,
    output_format: str,
) -> None:
    """Show prediction beside measurement, counter by counter.

    Needs a GPU, nvcc and ncu; with --report, none of them.  The exit status is 1 if a counter differs.
    """
    from gemmdsl.analysis.ncu import compare
    from gemmdsl.analysis.shape import tight
    from gemmdsl.checker import load
    from gemmdsl.diagnostics import GemmError, error
    from gemmdsl.explain.model import model

    program = load(file)
    spec = program.spec(schedule, target)
    found = model(program, spec, tight(spec.problem, *shape))
    if 0 in (found.shape.m, found.shape.n):
        raise GemmError(
            [error("G734", f"there is nothing to profile: no kernel is launched for {found.shape}")]
        )
    if script and report:
        raise click.UsageError("--script runs nothing and compares nothing: leave --report out")
    if script:
        click.echo(_script(file, found), nl=False)
        return
    if found.machine is None:
        click.echo(f"note: predicted from the text alone: {found.no_machine}", err=True)
    measured = _measured(found, report)
    rows = compare(found.machine, found.counted, found.occupancy, measured)
    if all(row.equal is None for row in rows):
        named = ", ".join(report) or "what ncu printed"
        raise GemmError([error("G732", f"{named} has none of the counters that are compared")])
    shown = _document(found, rows, measured) if output_format == "json" else _text(found, rows, measured)
    click.echo(shown, nl=False)
    if any(row.equal is False for row in rows):
        ctx.exit(_FAILED)


def _entry(report: Model) -> str:
    """The entry that the launcher takes."""
    entry = report.source.plan.select(report.shape.sizes)
    assert entry is not None, "the model has looked at the preconditions"
    return entry.name


def _words(report: Model, tool: str, file: str, program: str) -> tuple[str, ...]:
    """The command that profiles into a report file."""
    from gemmdsl.analysis.ncu import collect

    sizes = (str(report.shape.m), str(report.shape.n), str(report.shape.k), "1")
    return collect(tool, _entry(report), report.counted, file, (program, *sizes))


def _script(file: str, report: Model) -> str:
    from gemmdsl.analysis.ncu import exports

    symbol, target = report.spec.symbol, report.spec.target.name
    schedule = ("-s", report.spec.schedule.name, "-t", target)
    texts = ("--emit", "cu,header,main", "-d", ".")
    sources = (f"{symbol}.cu", f"{symbol}_main.cu")
    kept = f"{symbol}.ncu-rep"
    raw, source = (shlex.join(words) for words in exports("ncu", kept))
    return "\n".join(
        (
            shlex.join(("gemmdsl", "compile", file, *schedule, *texts)),
            shlex.join(("nvcc", "-std=c++17", "-O3", f"-arch={target}", *sources, "-o", symbol)),
            shlex.join(_words(report, "ncu", kept, f"./{symbol}")),
            f"{raw} > {symbol}.csv",
            f"{source} >> {symbol}.csv",
            shlex.join(
                (
                    "gemmdsl",
                    "profile",
                    file,
                    *schedule,
                    "--shape",
                    str(report.shape),
                    "--report",
                    f"{symbol}.csv",
                )
            ),
            "",
        )
    )


def _measured(report: Model, paths: tuple[str, ...]) -> Measured:
    """The counters, from files or from a run of ncu."""
    from gemmdsl.analysis.ncu_report import read_report
    from gemmdsl.diagnostics import GemmError, error

    if not paths:
        return _run(report)
    named = ", ".join(paths)
    text = "\n".join(read_text(path, "G732", _MAX_BYTES) for path in paths)
    try:
        return read_report(text, _entry(report))
    except ValueError as problem:
        raise GemmError([error("G732", f"{named} is no report of `ncu --csv`: {problem}")]) from problem


def _run(report: Model) -> Measured:
    from gemmdsl.analysis.ncu import exports
    from gemmdsl.analysis.ncu_report import read_report
    from gemmdsl.toolchain import find_tool
    from gemmdsl.toolchain.errors import refused
    from gemmdsl.toolchain.process import run_tool
    from gemmdsl.toolchain.program import compile_program

    tool = str(find_tool("ncu").path)
    symbol, source = report.spec.symbol, report.source
    files = {f"{symbol}.cu": source.text, f"{symbol}.h": source.header, f"{symbol}_main.cu": source.main}
    with tempfile.TemporaryDirectory(prefix="gemmdsl-") as name:
        folder = Path(name)
        built, kept = compile_program(folder, files, source.target, symbol), folder / f"{symbol}.ncu-rep"
        outcome = run_tool(_words(report, tool, str(kept), str(built)), folder, _TIMEOUT)
        pages = [
            run_tool(words, folder, _TIMEOUT).text for words in exports(tool, str(kept)) if kept.exists()
        ]
    try:
        return read_report("\n".join(pages), _entry(report))
    except ValueError as problem:
        said = (outcome.messages + outcome.text).strip() or str(problem)
        raise refused("ncu", f"{symbol} at {report.shape}", outcome.status, said) from problem


def _text(report: Model, rows: tuple[Comparison, ...], measured: Measured) -> str:
    from gemmdsl.analysis.ncu import SPEEDS, arbitration, by_instruction, stalls

    counters = measured.counters
    lines = [
        f"{report.spec.schedule.name} for {report.spec.problem.name} on {report.spec.target.name},"
        f" {report.shape}, path {report.path.name}",
        f"  {'':<36} {'predicted':>17} {'measured':>17} {'difference':>11}",
    ]
    for row in rows:
        if row.measured is None:
            lines.append(f"  {row.name:<36} {row.predicted:17,.0f} {'not measured':>17}")
            continue
        mark = "" if row.equal else "  <- differs"
        lines.append(
            f"  {row.name:<36} {row.predicted:17,.0f} {row.measured:17,.0f} {row.difference:11.3%}{mark}"
        )
    added = arbitration(measured)
    if added:
        lines.append(
            "\n  Wavefronts that the pipe counted beyond those of its instructions, as conflicts: arbitration"
        )
        lines += [
            f"    {f'shared {one.kind}s':<34} {'':17} {one.wavefronts:17,.0f} {one.share:11.3%}"
            for one in added
        ]
    elif all(by_instruction(kind, measured) is None for kind in ("load", "store")):
        lines.append("\n  No counts by instruction: shared wavefronts and conflicts include arbitration")
    lines.append("")
    for metric, words in SPEEDS.items():
        if metric in counters:
            shown = f"{counters[metric] / 1e3:.1f} us" if words == "time" else f"{counters[metric]:.1f}"
            lines.append(f"  {words:<40} {shown:>12}")
    waiting = stalls(measured)
    if waiting:
        lines.append("\n  Of the warps resident per issued instruction, so many wait for")
        lines += [f"    {words:<40} {ratio:8.2f}" for words, ratio in waiting]
    return "\n".join(lines) + "\n"


def _document(report: Model, rows: tuple[Comparison, ...], measured: Measured) -> str:
    from gemmdsl.analysis.ncu import arbitration, stalls

    shared = measured.shared
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "schedule": report.spec.schedule.name,
        "target": report.spec.target.name,
        "shape": str(report.shape),
        "path": report.path.name,
        "counters": [
            {
                "name": row.name,
                "predicted": row.predicted,
                "measured": row.measured,
                "difference": row.difference,
                "tolerance": row.tolerance,
                "equal": row.equal,
            }
            for row in rows
        ],
        "arbitration": [
            {"kind": one.kind, "wavefronts": one.wavefronts, "share": one.share}
            for one in arbitration(measured)
        ],
        "by_instruction": None if shared is None else {kind: asdict(count) for kind, count in shared.items()},
        "stalls": dict(stalls(measured)),
        "metrics": dict(measured.counters),
    }
    return json.dumps(found, indent=2) + "\n"
