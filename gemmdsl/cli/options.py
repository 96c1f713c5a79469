"""Values of options that several commands have."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from gemmdsl.diagnostics import Diagnostic, GemmError, printable

if TYPE_CHECKING:
    from gemmdsl.emulator.checker import Sanitizer

Shape = tuple[int, int, int]

LARGEST = 2**31 - 1
# No longer than a number that fits: int() refuses thousands of digits.
_NUMBER = r"0*([0-9]{1,10})"
_SHAPE = re.compile(rf"{_NUMBER}(?:x{_NUMBER}x{_NUMBER})?", re.IGNORECASE)
_THREE = re.compile(rf"{_NUMBER},{_NUMBER},{_NUMBER}")
_LONGEST_SHOWN = 40


class ShapeType(click.ParamType[Shape]):
    """M, N and K: `2048x1024x512`, or one number for all three."""

    name = "MxNxK"

    def __init__(self, least: int = 0) -> None:
        """`least` is what an extent has at least."""
        self.least = least

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Shape:
        match = _SHAPE.fullmatch(str(value).strip())
        if match is None:
            forms = "of the form MxNxK, such as 130x127x129, or one number"
            self.fail(f"{shortened(str(value))} is not {forms}", param, ctx)
        m, n, k = (int(digits) for digits in (match[1], match[2] or match[1], match[3] or match[1]))
        if not self.least <= min(m, n, k) <= max(m, n, k) <= LARGEST:
            self.fail(f"an extent is from {self.least} to {LARGEST}", param, ctx)
        return m, n, k


class ShapesType(click.ParamType[tuple[Shape, ...]]):
    """Several shapes of extents that are not 0, separated by commas; each is kept once."""

    name = "MxNxK,..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Shape, ...]:
        one = ShapeType(least=1)
        return tuple(dict.fromkeys(one.convert(word, param, ctx) for word in str(value).split(",")))


class FileName(click.ParamType[str]):
    """The name of a file or folder: anything but nothing."""

    name = "file"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not str(value):
            self.fail("a name cannot be empty", param, ctx)
        return str(value)


def three(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, int, int]:
    """Three numbers of elements; BadParameter if `value` is not of the form A,B,C."""
    match = _THREE.fullmatch(value.strip())
    if match is None:
        raise click.BadParameter(f"{shortened(value)} is not of the form A,B,C, such as 1,0,3")
    a, b, c = (int(digits) for digits in match.groups())
    if max(a, b, c) > LARGEST:
        raise click.BadParameter(f"an offset is at most {LARGEST}")
    return a, b, c


def sanitizers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[Sanitizer, ...]:
    """What is watched: a list with commas, or nothing for `none`; BadParameter for other words."""
    from gemmdsl.emulator.checker import SANITIZERS

    words = [word.strip() for word in value.split(",")]
    if words == ["none"]:
        return ()
    for word in words:
        if word not in SANITIZERS:
            raise click.BadParameter(f"{shortened(word)} is none of {', '.join(SANITIZERS)}, or 'none'")
    return tuple(known for known in SANITIZERS if known in words)


def read_text(path: str, code: str, most: int) -> str:
    """The text of a file that an option names; GemmError `code` when that cannot be had.

    A file may have `most` bytes: some, such as devices, have no end.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise GemmError([Diagnostic(code, f"cannot read {path}: {reason}")]) from problem
    if len(data) > most:
        raise GemmError([Diagnostic(code, f"cannot read {path}: it has more than {most:,} bytes")])
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise GemmError([Diagnostic(code, f"cannot read {path}: it is not UTF-8")]) from problem


def keep_inputs(outputs: Iterable[Path], inputs: Iterable[str]) -> None:
    """UsageError when a file that is to be written is one of those that are read."""
    read = [name for name in inputs if os.path.isfile(name)]
    for path in outputs:
        if os.path.isfile(path) and any(os.path.samefile(path, name) for name in read):
            raise click.UsageError(f"the output {printable(str(path))} is the file to read")


def shortened(text: str) -> str:
    """A user's word in quotes, not longer than a message can bear."""
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at the stream; it is None when the process was started without."""
    return stream is not None and stream.isatty()
