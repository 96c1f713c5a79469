"""`gemmdsl test`: can the kernels of a file be trusted?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from gemmdsl.cli.options import FileName, is_terminal, sanitizers
from gemmdsl.testing.failures import FAILURES

if TYPE_CHECKING:
    from gemmdsl.api import CompiledKernel
    from gemmdsl.emulator.checker import Sanitizer
    from gemmdsl.testing.engine import KernelReport, Settings
    from gemmdsl.testing.report import Entry
    from gemmdsl.testing.trial import Device

_WRONG_RESULT = 1


@click.command()
@click.argument("file")
@click.option("--schedule", "-s", metavar="NAME", help="Test this schedule; all of the file by default.")
@click.option("--target", "-t", metavar="SM", help="Compile for this target instead, such as sm_90.")
@click.option(
    "--examples",
    type=click.IntRange(0),
    default=200,
    show_default=True,
    help="Cases drawn at random for each schedule, beside some eighty fixed ones.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the drawn cases.")
@click.option(
    "--sanitize",
    callback=sanitizers,
    default="race,memory,init,align",
    show_default=True,
    metavar="LIST",
    help="Watch every access for these, of race, memory, init and align; or 'none'.",
)
@click.option("--source", metavar="CU", help="Test this hand-edited text of the kernel.")
@click.option(
    "--failures",
    type=FileName(),
    metavar="FOLDER",
    default=FAILURES,
    show_default=True,
    help="Where failing cases are kept; those of earlier runs are tried first.",
)
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "junit"]),
    default="text",
    show_default=True,
)
@click.option("--device", type=click.Choice(["cpu", "gpu"]), default="cpu", show_default=True)
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    schedule: str | None,
    target: str | None,
    examples: int,
    seed: int,
    sanitize: tuple[Sanitizer, ...],
    source: str | None,
    failures: str,
    output_format: str,
    device: Device,
) -> None:
    """Test schedules on hundreds of sizes, and shrink what fails.

    Each schedule is compiled and run on the CPU emulator: at every edge of its tiles and on cases drawn at
    random, with odd leading dimensions and addresses, NaN wherever a kernel must not look, guard words around
    the operands, and every access watched; then called with wrong arguments, which it has to refuse.  A
    failure is shrunk, kept as a file, and shown with the command that repeats it.  Exits with 1 when a
    schedule is wrong.

    With --device gpu the same cases run on the machine's first GPU, and --sanitize, if given, has the tools
    of compute-sanitizer watch runs of every entry point.
    """
    on_gpu = device == "gpu"
    # A sanitizer of the toolkit takes many seconds a schedule: it has to be asked for.
    asked = ctx.get_parameter_source("sanitize") is ParameterSource.COMMANDLINE
    watched = sanitize if asked else ()
    from gemmdsl.api import load
    from gemmdsl.cli.edited import with_edits
    from gemmdsl.testing import report
    from gemmdsl.testing.engine import Interrupted, Settings
    from gemmdsl.testing.failures import saved_cases

    program = load(file)
    names = program.schedules if schedule is None else (schedule,)
    if source is not None and len(names) > 1:
        raise click.UsageError("--source is the text of one kernel: name its schedule with --schedule")
    entries: list[Entry] = []
    interrupted: Interrupted | None = None
    for name in names:
        kernel = with_edits(program.compile(name, target), source)
        kept = tuple(saved_cases(Path(failures), kernel.spec))
        chosen = Settings(
            examples=examples, seed=seed, sanitize=() if on_gpu else sanitize, replay=kept, device=device
        )
        try:
            done = _test(kernel, chosen)
        except Interrupted as ended:
            done, interrupted = ended.report, ended
        if on_gpu and watched and done.failure is None:
            done = _watched(done, watched)
        entry = _kept(done, device, Path(failures), file, target or "", source or "")
        entries.append(entry)
        if output_format == "text":
            click.echo(report.text(entry))
        if interrupted:
            break
    match output_format:
        case "json":
            click.echo(report.to_json(entries))
        case "junit":
            click.echo(report.to_junit(entries, file))
        case _:
            click.echo(report.summary(entries))
    if interrupted:
        raise interrupted
    if any(entry.report.failure is not None for entry in entries):
        ctx.exit(_WRONG_RESULT)


def _watched(report: KernelReport, sanitize: tuple[Sanitizer, ...]) -> KernelReport:
    """The report, with what compute-sanitizer finds."""
    from dataclasses import replace

    from gemmdsl.runtime.sanitize import TOOLS_OF, sanitized
    from gemmdsl.testing.engine import Failure
    from gemmdsl.testing.outcome import Finding

    for kind in sanitize:
        for tool in TOOLS_OF[kind]:
            found = sanitized([report.kernel.cuda], tool)
            if not found.clean:
                message = f"compute-sanitizer's {tool}: {found.title}"
                finding = Finding(kind, message, tuple(found.text.splitlines()))
                return replace(report, failure=Failure((finding,)))
    return report


def _test(kernel: CompiledKernel, chosen: Settings) -> KernelReport:
    """Test one kernel, a bar showing how far it is."""
    from gemmdsl.testing.engine import check_kernel, steps

    with click.progressbar(
        length=steps(kernel, chosen),
        label=kernel.spec.schedule.name,
        file=sys.stderr,
        hidden=not is_terminal(sys.stderr),
    ) as bar:
        return check_kernel(kernel, chosen, bar.update)


def _kept(report: KernelReport, device: Device, folder: Path, file: str, target: str, source: str) -> Entry:
    """The report, with the command that repeats a failure, and the file that keeps it."""
    from gemmdsl.diagnostics import GemmError, render_all
    from gemmdsl.testing import case as cases
    from gemmdsl.testing.failures import save
    from gemmdsl.testing.report import Entry

    kernel, spec, failure = report.kernel, report.kernel.spec, report.failure
    if failure is None or failure.case is None:
        return Entry(report)
    again = cases.command(
        spec.problem,
        failure.case,
        file,
        spec.schedule.name,
        target=target,
        source=source,
        sanitize=failure.sanitize,
    )
    if device == "gpu":
        again += " --device gpu"
    try:
        edited = kernel.source if source else ""
        return Entry(report, again, str(save(folder, spec, failure.case, failure.findings, edited).path))
    except GemmError as unwritable:
        # The command above repeats the failure all the same.
        click.echo(render_all(unwritable.diagnostics), nl=False, err=True)
        return Entry(report, again)
