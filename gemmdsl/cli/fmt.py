"""`gemmdsl fmt`: the canonical layout of files."""

from __future__ import annotations

from pathlib import Path

import click

from gemmdsl.diagnostics import GemmError, printable, render_all
from gemmdsl.files import OutputError, write_text
from gemmdsl.formatter import format_source
from gemmdsl.reader import read, read_bytes, source_of


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit with 1 if one would change.")
def command(files: tuple[str, ...], only_check: bool) -> None:
    """Lay out files in the standard form.

    Comments, groups of lines and the meaning are kept.  `-` reads standard input and writes to standard
    output.  A file with syntax errors is left as it is, and the exit status is 1.
    """
    wrong = False
    for name in files:
        try:
            wrong |= _format(name, only_check)
        except OutputError:
            raise
        except GemmError as problem:
            click.echo(render_all(problem.diagnostics), nl=False, err=True)
            wrong = True
    if wrong:
        raise click.exceptions.Exit(1)


def _format(name: str, only_check: bool) -> bool:
    """Formats one file; whether it failed the check."""
    if name == "-":
        source = read(name)
        text = format_source(source)
        if not only_check:
            click.echo(text, nl=False)
        return only_check and text != source.text
    data = read_bytes(name)
    text = format_source(source_of(data, name))
    # Bytes are compared: a byte order mark or other line ends are a change too.
    if text.encode() == data:
        return False
    if only_check:
        click.echo(f"{printable(name)} would be changed")
        return True
    write_text(Path(name), text)
    click.echo(f"{printable(name)} changed")
    return False
