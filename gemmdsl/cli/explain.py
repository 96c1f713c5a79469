"""`gemmdsl explain`: what a kernel costs, exactly, and what to change."""

from __future__ import annotations

import re
from pathlib import Path

import click

_SHAPE = re.compile(r"^(\d+)(?:x(\d+)x(\d+))?$")
_LARGEST = (1 << 31) - 1


class ShapeType(click.ParamType[tuple[int, int, int]]):
    """`2048x1024x512`, or one number for all three."""

    name = "MxNxK"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int, int]:
        match = _SHAPE.match(str(value))
        if match is None:
            self.fail(f"{value!r} is no shape: write MxNxK, such as 2048x2048x2048", param, ctx)
        m, n, k = (int(part) for part in (match[1], match[2] or match[1], match[3] or match[1]))
        if max(m, n, k) > _LARGEST:
            self.fail(f"{max(m, n, k)} is more than {_LARGEST}", param, ctx)
        return m, n, k


@click.command()
@click.argument("file")
@click.option("--schedule", "-s", metavar="NAME", help="The schedule to explain.")
@click.option("--target", "-t", metavar="SM", help="Explain for this target instead, such as sm_90.")
@click.option(
    "--shape", type=ShapeType(), default="2048", show_default=True, help="M, N and K, or one for all."
)
@click.option("--suggest", is_flag=True, help="Look for schedules with fewer wavefronts.")
@click.option("--no-compile", is_flag=True, help="Leave the machine code out.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
    help="For people, for programs, or a page with pictures.",
)
@click.option("--output", "-o", metavar="FILE", help="Write there instead of to stdout.")
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

    program = load(file)
    spec = program.spec(schedule, target)
    for sentence in spec.fallbacks:
        click.echo(f"note: {sentence}", err=True)
    report = model(program, spec, tight(spec.problem, *shape), compile=not no_compile, suggest=suggest)
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
    if output is None or output == "-":
        click.echo(shown, nl=False)
    else:
        write_text(Path(output), shown)
