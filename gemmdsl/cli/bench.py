"""`gemmdsl bench`: how fast are the kernels of a file, once they are right?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gemmdsl.cli.options import ShapesType, is_terminal, keep_inputs

if TYPE_CHECKING:
    from gemmdsl.bench.baseline import Baseline
    from gemmdsl.bench.session import Report, Subject

_FAILED = 1
_FORMS = (".svg", ".png")


def _plot(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    if value is not None and Path(value).suffix not in _FORMS:
        raise click.BadParameter(f"{value!r} ends in neither {' nor '.join(_FORMS)}")
    return Path(value) if value is not None else None


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--schedule", "-s", "names", metavar="NAME", multiple=True, help="Only this one; repeatable.")
@click.option(
    "--shapes",
    type=ShapesType(),
    default="1024,2048,4096",
    show_default=True,
    help="Sizes of the product, separated by commas; each may be one number for all three.",
)
@click.option(
    "--against",
    type=click.Choice(["auto", "cublas", "none"]),
    default="auto",
    show_default=True,
    help="What to compare with; 'auto' takes cuBLAS if torch or cupy is installed.",
)
@click.option("--batches", type=click.IntRange(5, 1000), default=7, show_default=True)
@click.option("--allow-spills", is_flag=True, help="Time kernels that spill registers, too.")
@click.option("--verify-only", is_flag=True, help="Verify at each shape and time nothing.")
@click.option("--gpu", "index", type=click.IntRange(0), default=0, show_default=True, metavar="N")
@click.option("--plot", callback=_plot, metavar="FILE", help="Draw ladder and sweep into this .svg or .png.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    names: tuple[str, ...],
    shapes: tuple[tuple[int, int, int], ...],
    against: str,
    batches: int,
    allow_spills: bool,
    verify_only: bool,
    index: int,
    plot: Path | None,
    output_format: str,
) -> None:
    """Verify kernels on a GPU, then time them.

    At each shape every element of the result is compared with a reference, and a kernel that is wrong, or
    whose registers spill, is not timed.  Kernels take turns with cuBLAS in FP32 (TF32 off), batch by batch;
    shown are the median, the spread of the batches, the ratio to cuBLAS, and the share of what the device's
    FMAs can do, measured in the same run.  Exits with 1 when a kernel is wrong, spills, or shows a figure
    that no device could reach.
    """
    from gemmdsl.bench import Settings, measure, report
    from gemmdsl.runtime import Gpu

    if plot is not None:
        keep_inputs([plot], files)
    subjects = _subjects(files, names)
    chosen = Settings(batches=batches, allow_spills=allow_spills, time=not verify_only)
    with Gpu(index) as gpu:
        baseline = None if verify_only else _baseline(against)
        steps = len(subjects) * len(shapes)
        with click.progressbar(
            length=steps,
            label="measuring",
            file=sys.stderr,
            hidden=not is_terminal(sys.stderr),
            item_show_func=lambda title: title,
        ) as bar:
            found = measure(
                gpu, subjects, shapes, baseline, chosen, lambda title: bar.update(1, current_item=title)
            )
    if plot is not None:
        _draw(found, plot)
    if output_format == "json":
        click.echo(report.to_json(found))
    else:
        click.echo(report.table(found), nl=False)
        click.echo(report.summary(found.rows))
    if report.failed(found.rows):
        ctx.exit(_FAILED)


def _subjects(files: tuple[str, ...], names: tuple[str, ...]) -> list[Subject]:
    """The schedules, compiled; GemmError for a name that no file has."""
    from gemmdsl.api import load
    from gemmdsl.bench.session import Subject

    programs = [(file, load(file)) for file in files]
    wanted = set(names)
    known = {name for _, program in programs for name in program.schedules}
    for name in names:
        if name not in known:
            # Its own message tells what is there.
            programs[0][1].compile(name)
    return [
        Subject(file, program.compile(name))
        for file, program in programs
        for name in program.schedules
        if not wanted or name in wanted
    ]


def _baseline(against: str) -> Baseline | None:
    from gemmdsl.bench.baseline import cublas
    from gemmdsl.diagnostics import GemmError, render_all

    if against == "none":
        return None
    try:
        return cublas()
    except GemmError as missing:
        if against == "cublas":
            raise
        click.echo(render_all(missing.diagnostics).replace("error", "note", 1), nl=False, err=True)
        return None


def _draw(found: Report, path: Path) -> None:
    from gemmdsl.bench.plot import drawn
    from gemmdsl.files import write_bytes

    write_bytes(path, drawn(found, path.suffix.removeprefix(".")))
