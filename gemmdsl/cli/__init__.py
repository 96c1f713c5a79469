"""The `gemmdsl` command: a group whose commands are imported only when they are called.

A command NAME lives in gemmdsl/cli/NAME.py as a click command called `command`; the first line of its
docstring is repeated in COMMANDS, so that `gemmdsl --help` imports none of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from gemmdsl.version import __version__

# In the order of work, which is the order of `--help`.
COMMANDS: dict[str, str] = {
    "check": "Report every violated rule of a file.",
    "fmt": "Lay out files in the standard form.",
    "compile": "Turn schedules into CUDA.",
    "run": "Compile a schedule, run it and compare the result with numpy.",
    "test": "Test schedules on hundreds of sizes, and shrink what fails.",
    "explain": "Say what a schedule costs, and what to change.",
    "bench": "Verify kernels on a GPU, then time them.",
    "profile": "Show prediction beside measurement, counter by counter.",
    "ir": "Show the tile IR before and after each pass.",
    "rules": "List the rules a schedule has to keep.",
    "doctor": "Say which tools and devices are there, and how to get what is missing.",
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"gemmdsl.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as unknown:
            from gemmdsl.suggest import nearest

            if args[0] not in COMMANDS and (guess := nearest(args[0], COMMANDS)):
                raise click.UsageError(f"{unknown.message} Did you mean {guess!r}?", ctx) from unknown
            raise

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """As `invoke` does, for what the options of the group itself print."""
        with _told():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what it raises becomes a message on stderr and an exit status, never a traceback."""
        with _told():
            return super().invoke(ctx)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except (Exception, KeyboardInterrupt) as error:
        from gemmdsl.cli.errors import report

        raise click.exceptions.Exit(report(error)) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gemmdsl")
def group() -> None:
    """Compile matrix-product schedules to fast, readable, proven CUDA."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the `gemmdsl` script; `arguments` are the words after the program's name.

    Exits with 0 when all is well, 1 when the input is wrong, 2 when the tool was misused or lacks another
    tool, 130 when interrupted, 141 when the reader of its output left.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Names of files need not be text, and no encoding of a terminal has every character.
            stream.reconfigure(errors="backslashreplace")
    group.main(args=arguments, prog_name="gemmdsl")
