"""What a command's exception means to the person in front of the terminal: a message and an exit status."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from contextlib import suppress

import click

from gemmdsl.diagnostics import Diagnostic, GemmError, error, render, render_all
from gemmdsl.files import stream_refused, working_folder_gone
from gemmdsl.version import __version__

WRONG_INPUT = 1
MISUSE = 2
INTERRUPTED = 130
# As when the signal that other programs get ends them.
READER_LEFT = 141
# Findings that no change of the input mends: output files, tools and GPUs that are missing or fail, refuted
# proofs.
_NOT_THE_INPUT = ("G70", "G90", "G91", "G94", "P")
# What the system answers to a write when there is no room, the device fails, or nothing is open there.
_OF_A_STREAM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
_DEBUG = "GEMMDSL_DEBUG"


def report(problem: Exception | KeyboardInterrupt) -> int:
    """Say on stderr what went wrong, and return the exit status that goes with it."""
    match problem:
        case KeyboardInterrupt():
            click.echo("interrupted", err=True)
            return INTERRUPTED
        case BrokenPipeError():
            _forget_output()
            return READER_LEFT
        case OSError(filename=None) if problem.errno in _OF_A_STREAM:
            # Files that cannot be written are told of with their names.
            _forget_output()
            return report(stream_refused("standard output", problem))
        case FileNotFoundError(filename=None) if not _has_working_folder():
            return report(working_folder_gone())
        case MemoryError():
            help = "take a smaller shape"
            return report(GemmError([error("G712", f"there is not enough memory: {problem}", help=help)]))
        case GemmError():
            click.echo(render_all(problem.diagnostics), nl=False, err=True)
            return WRONG_INPUT if of_the_input(problem) else MISUSE
        case _:
            if os.environ.get(_DEBUG) == "1":
                traceback.print_exception(problem)
            click.echo(render(_internal(problem)), err=True)
            return MISUSE


def of_the_input(problem: GemmError) -> bool:
    """Whether a change of the input can mend it."""
    return not any(finding.code.startswith(_NOT_THE_INPUT) for finding in problem.diagnostics)


def _forget_output() -> None:
    """Drop what was not written yet: Python would try once more at its end, and complain."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _has_working_folder() -> bool:
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _internal(problem: BaseException) -> Diagnostic:
    kind = type(problem).__name__
    return error(
        "G999",
        f"internal error: {kind}: {problem}" if str(problem) else f"internal error: {kind}",
        version=f"gemmdsl {__version__}, Python {sys.version.split()[0]}",
        help=f"this is a mistake in gemmdsl: please report it with the input and what {_DEBUG}=1 shows",
    )
