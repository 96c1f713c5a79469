"""`gemmdsl explain`: what a kernel costs, exactly, and what to change."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gemmdsl.cli.options import FileName, ShapeType, is_terminal, keep_inputs

if TYPE_CHECKING:
    from gemmdsl.analysis.shape import Shape

_STDOUT = "-"
_INT_MAX = 2**31 - 1


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
@click.option("--lda", type=int, metavar="LD", help="Leading dimension of A; the least legal one by default.")
@click.option("--ldb", type=int, metavar="LD", help="Of B.")
@click.option("--ldc", type=int, metavar="LD", help="Of C.")
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
    lda: int | None,
    ldb: int | None,
    ldc: int | None,
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
    wanted = _spaced(tight(spec.problem, *shape), {"lda": lda, "ldb": ldb, "ldc": ldc})
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


def _spaced(least: Shape, given: Mapping[str, int | None]) -> Shape:
    """The shape with the leading dimensions that are given; BadParameter for one that cannot be."""
    for name, ld in given.items():
        if ld is not None and not getattr(least, name) <= ld <= _INT_MAX:
            told = f"{ld} is no leading dimension here: it is at least {getattr(least, name)} and an int"
            raise click.BadParameter(told, param_hint=f"'--{name}'")
    return replace(least, **{name: ld for name, ld in given.items() if ld is not None})
