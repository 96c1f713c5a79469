"""`gemmdsl profile`: the model's prediction beside what Nsight Compute counts on a GPU."""

from __future__ import annotations

import json
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gemmdsl.cli.explain import ShapeType

if TYPE_CHECKING:
    from gemmdsl.analysis.ncu import Comparison, Report
    from gemmdsl.explain.model import Model

_FAILED = 1
_TIMEOUT = 600.0
SCHEMA = "gemmdsl.profile/1"


@click.command()
@click.argument("file")
@click.option("--schedule", "-s", metavar="NAME", help="The schedule to profile.")
@click.option("--target", "-t", metavar="SM", help="Profile for this target, the GPU's, such as sm_90.")
@click.option(
    "--shape", type=ShapeType(), default="2048", show_default=True, help="M, N and K, or one for all."
)
@click.option(
    "--report", metavar="CSV", help="Compare with what ncu printed elsewhere instead of running it here."
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
    report: str | None,
    script: bool,
    output_format: str,
) -> None:
    """Show prediction beside measurement, counter by counter.

    Needs a GPU, nvcc and ncu; with --report, none of them.  The exit status is 1 if a counter differs.
    """
    from gemmdsl.analysis.ncu import compare
    from gemmdsl.analysis.shape import tight
    from gemmdsl.checker import load
    from gemmdsl.explain.model import model

    program = load(file)
    spec = program.spec(schedule, target)
    found = model(program, spec, tight(spec.problem, *shape))
    if script:
        click.echo(_script(file, found), nl=False)
        return
    if found.machine is None:
        click.echo(f"note: predicted from the text alone: {found.no_machine}", err=True)
    measured = _measured(found, report)
    rows = compare(found.machine, found.counted, found.occupancy, measured)
    shown = _document(found, rows, measured) if output_format == "json" else _text(found, rows, measured)
    click.echo(shown, nl=False)
    if any(row.equal is False for row in rows):
        ctx.exit(_FAILED)


def _words(report: Model, tool: str, program: str) -> tuple[str, ...]:
    """The command that profiles the entry that the launcher takes."""
    from gemmdsl.analysis.ncu import command as profile

    entry = report.source.plan.select(report.shape.sizes)
    assert entry is not None, "the model has looked at the preconditions"
    asynchronous = any(access.asynchronous for access in report.counted)
    sizes = (str(report.shape.m), str(report.shape.n), str(report.shape.k), "1")
    return profile(tool, entry.name, asynchronous, (program, *sizes))


def _script(file: str, report: Model) -> str:
    symbol, target = report.spec.symbol, report.spec.target.name
    name = report.spec.schedule.name
    compile_words = (
        "gemmdsl",
        "compile",
        file,
        "-s",
        name,
        "-t",
        target,
        "--emit",
        "cu,header,main",
        "-d",
        ".",
    )
    build = (
        "nvcc",
        "-std=c++17",
        "-O3",
        f"-arch={target}",
        f"{symbol}.cu",
        f"{symbol}_main.cu",
        "-o",
        symbol,
    )
    compare = ("gemmdsl", "profile", file, "-s", name, "-t", target, "--shape", str(report.shape))
    return "\n".join(
        (
            shlex.join(compile_words),
            shlex.join(build),
            f"{shlex.join(_words(report, 'ncu', f'./{symbol}'))} > {symbol}.csv",
            f"{shlex.join(compare)} --report {symbol}.csv",
            "",
        )
    )


def _measured(report: Model, path: str | None) -> Report:
    """The counters, from a file or from a run of ncu."""
    from gemmdsl.analysis.ncu import read_report
    from gemmdsl.diagnostics import GemmError, error
    from gemmdsl.toolchain import find_tool
    from gemmdsl.toolchain.errors import refused
    from gemmdsl.toolchain.process import run_tool
    from gemmdsl.toolchain.program import compile_program

    if path is not None:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise GemmError([error("G732", f"cannot read the report {path}: {problem}")]) from problem
        try:
            return read_report(text)[0]
        except ValueError as problem:
            raise GemmError([error("G732", f"{path} is no report of `ncu --csv`: {problem}")]) from problem
    tool = find_tool("ncu")
    symbol, source = report.spec.symbol, report.source
    files = {f"{symbol}.cu": source.text, f"{symbol}.h": source.header, f"{symbol}_main.cu": source.main}
    with tempfile.TemporaryDirectory(prefix="gemmdsl-") as name:
        built = compile_program(Path(name), files, source.target, symbol)
        outcome = run_tool(_words(report, str(tool.path), str(built)), Path(name), _TIMEOUT)
    try:
        return read_report(outcome.text)[0]
    except ValueError as problem:
        said = (outcome.messages + outcome.text).strip() or str(problem)
        raise refused("ncu", f"{symbol} at {report.shape}", outcome.status, said) from problem


def _text(report: Model, rows: tuple[Comparison, ...], measured: Report) -> str:
    from gemmdsl.analysis.ncu import SPEEDS, stalls

    lines = [
        f"{report.spec.schedule.name} for {report.spec.problem.name} on {report.spec.target.name},"
        f" {report.shape}, path {report.path.name}",
        f"  {'':<28} {'predicted':>17} {'measured':>17} {'difference':>11}",
    ]
    for row in rows:
        if row.measured is None:
            lines.append(f"  {row.name:<28} {row.predicted:17,.0f} {'not measured':>17}")
            continue
        mark = "" if row.equal else "  <- differs"
        lines.append(
            f"  {row.name:<28} {row.predicted:17,.0f} {row.measured:17,.0f} {row.difference:11.3%}{mark}"
        )
    lines.append("")
    for metric, words in SPEEDS.items():
        if metric in measured:
            shown = f"{measured[metric] / 1e3:.1f} us" if words == "time" else f"{measured[metric]:.1f}"
            lines.append(f"  {words:<40} {shown:>12}")
    waiting = stalls(measured)
    if waiting:
        lines.append("\n  Of the warps resident per issued instruction, so many wait for")
        lines += [f"    {words:<40} {ratio:8.2f}" for words, ratio in waiting]
    return "\n".join(lines) + "\n"


def _document(report: Model, rows: tuple[Comparison, ...], measured: Report) -> str:
    from gemmdsl.analysis.ncu import stalls

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
        "stalls": dict(stalls(measured)),
        "metrics": dict(measured),
    }
    return json.dumps(found, indent=2) + "\n"
