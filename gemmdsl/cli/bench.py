"""`gemmdsl bench`: how fast are the kernels of a file, once they are right?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gemmdsl.cli.bench_suite import Asked, refuse_with_suite, run
from gemmdsl.cli.measuring import baseline_of, check_plot, plot_file, steps_shown
from gemmdsl.cli.options import ShapesType

if TYPE_CHECKING:
    from gemmdsl.bench.session import Report, Subject

_FAILED = 1


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1)
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
@click.option(
    "--suite",
    "table",
    is_flag=False,
    flag_value="",
    metavar="[TABLE]",
    help="Measure the products of a table instead, each by the schedule that the table names; without a name"
    " it is examples/suite.toml of the checkout that gemmdsl runs from (an installed gemmdsl has none).",
)
@click.option(
    "--only", metavar="PATTERN", multiple=True, help="With --suite: products of such names, as in '*NT'."
)
@click.option(
    "--candidates", is_flag=True, help="With --suite: every schedule for a product's layout, ranked."
)
@click.option("--batches", type=click.IntRange(5, 1000), default=7, show_default=True)
@click.option("--allow-spills", is_flag=True, help="Time kernels that spill registers, too.")
@click.option("--verify-only", is_flag=True, help="Verify at each shape and time nothing.")
@click.option("--gpu", "index", type=click.IntRange(0), default=0, show_default=True, metavar="N")
@click.option("--plot", callback=plot_file, metavar="FILE", help="Draw into this .svg or .png.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    names: tuple[str, ...],
    shapes: tuple[tuple[int, int, int], ...],
    against: str,
    table: str | None,
    only: tuple[str, ...],
    candidates: bool,
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

    With --suite, each product is shown with the ceiling that binds it (FMAs, memory, or a launch) and the
    share of it that is reached, and the geometric mean of all ratios to cuBLAS ends the table.
    """
    from gemmdsl.bench import Settings, measure, report
    from gemmdsl.runtime import Gpu

    if table is not None:
        refuse_with_suite(ctx)
        asked = Asked(table, only, candidates, against, batches, allow_spills, index, plot, output_format)
        ctx.exit(_FAILED if not run(asked) else 0)
    if only or candidates:
        raise click.UsageError("--only and --candidates are for --suite")
    if not files:
        raise click.MissingParameter(ctx=ctx, param=ctx.command.params[0])
    if plot is not None and verify_only:
        raise click.UsageError("--plot shows times, and --verify-only takes none")
    check_plot(plot, files)
    subjects = _subjects(files, names)
    chosen = Settings(batches=batches, allow_spills=allow_spills, time=not verify_only)
    with Gpu(index) as gpu:
        baseline = None if verify_only else baseline_of(against)
        with steps_shown(len(subjects) * len(shapes)) as step:
            found = measure(gpu, subjects, shapes, baseline, chosen, step)
    if output_format == "json":
        click.echo(report.to_json(found))
    else:
        click.echo(report.table(found), nl=False)
        click.echo(report.summary(found.rows))
    if plot is not None:
        _draw(found, plot)
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


def _draw(found: Report, path: Path) -> None:
    from gemmdsl.bench.plot import drawn
    from gemmdsl.files import write_bytes

    write_bytes(path, drawn(found, path.suffix.removeprefix(".")))
