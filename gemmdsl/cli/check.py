"""`gemmdsl check`: everything there is to say about files, in one run."""

from __future__ import annotations

import click

from gemmdsl.checker import check, known_target
from gemmdsl.diagnostics import Diagnostic, GemmError, Severity
from gemmdsl.reader import read
from gemmdsl.reports import FORMATS, report
from gemmdsl.version import __version__


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--target", metavar="SM", help="Check for this target instead of those in the files.")
@click.option("--output-format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
def command(files: tuple[str, ...], target: str | None, form: str) -> None:
    """Report every violated rule of a file.

    Reports to standard output; `-` reads standard input.  Exits with 1 when there is an error, 0 when there
    are at most warnings and notes.
    """
    if target is not None:
        known_target(target)
    found: list[Diagnostic] = []
    for name in files:
        try:
            found += check(read(name), target)
        except GemmError as wrong:
            found += wrong.diagnostics
    click.echo(report(found, form, __version__), nl=False)
    if any(diagnostic.severity is Severity.ERROR for diagnostic in found):
        raise click.exceptions.Exit(1)
    if form == "text" and not found:
        click.echo(f"{len(files)} file{'s' * (len(files) > 1)} checked, nothing to report")
