"""A source text and places in it.

Offsets count characters from 0; lines and columns count from 1, a column being one character.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import PurePath


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Characters `start` up to, not including, `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Source:
    """A text and the name it is reported under (a path as the user gave it, or `<string>`).

    Lines of the text end in newlines, those of the file in `newline`.
    """

    name: str
    text: str = field(repr=False)
    newline: str = field(default="\n", repr=False, compare=False)
    _line_starts: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = [0, *(i + 1 for i, char in enumerate(self.text) if char == "\n")]
        object.__setattr__(self, "_line_starts", starts)

    @property
    def file(self) -> str:
        """The name without its folders: what generated files print, the same on every machine."""
        return PurePath(self.name).name

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line, counted from 1, without its end."""
        start = self._line_starts[number - 1]
        end = self._line_starts[number] - 1 if number < len(self._line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r")
