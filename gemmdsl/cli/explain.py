"""`gemmdsl explain`: what a kernel costs, exactly, and what to change."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gemmdsl.cli.options import FileName, ShapeType, is_terminal, keep_inputs

_STDOUT = "-"


@click.command()
@click.argument("file")
@click.option("--schedule", "-s", metavar="NAME", help="The schedule to explain.")
@click.option("--target", "-t", metavar="SM", help="Explain for this target instead, such as sm_90.")
@click.option(
    "--shape",
    type=ShapeType(),
    default="2048",
    show_default=True,
    help="Sizes of the product, or one number for all three.",
)
@click.option(
    "--suggest",
    is_flag=True,
    help="Look for schedules with fewer wavefronts; compiles each of them, where there is a toolkit, which"
    " takes up to a minute.",
)
@click.option("--no-compile", is_flag=True, help="Leave the machine code out.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
    help="For people, for programs, or a page with pictures.",
)
@click.option("--output", "-o", type=FileName(), metavar="FILE", help="Write there instead of to stdout.")
def command(
    file: str,
    schedule: str | None,
    target: str | None,
    shape: tuple[int, int, int],
    suggest: bool,
    no_compile: bool,
    output_format: str,
    output: str | None,
) -> None:
    """Say what a schedule costs, and what to change.

    Counts wavefronts, bank conflicts and sectors exactly, as written and (with a CUDA toolkit) as compiled;
    no GPU is needed.
    """
    from gemmdsl.analysis.shape import tight
    from gemmdsl.checker import load
    from gemmdsl.explain.model import model
    from gemmdsl.files import write_text

    if output is not None and output != _STDOUT:
        keep_inputs([Path(output)], [file])
    program = load(file)
    spec = program.spec(schedule, target)
    for sentence in spec.fallbacks:
        click.echo(f"note: {sentence}", err=True)
    wanted = tight(spec.problem, *shape)
    with click.progressbar(
        length=1, label="changes tried", file=sys.stderr, hidden=not (suggest and is_terminal(sys.stderr))
    ) as bar:

        def tried(done: int, of: int) -> None:
            bar.length = of
            bar.update(done - bar.pos)

        report = model(program, spec, wanted, compile=not no_compile, suggest=suggest, progress=tried)
    match output_format:
        case "json":
            from gemmdsl.explain.document import document

            shown = document(report, program)
        case "html":
            from gemmdsl.explain.page import page

            shown = page(report, program)
        case _:
            from gemmdsl.explain.text import text

            shown = text(report, program)
    if output is None or output == _STDOUT:
        click.echo(shown, nl=False)
    else:
        write_text(Path(output), shown)
