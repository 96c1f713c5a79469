"""Coded messages about an input, and how a person reads them.

Codes never change their meaning: `G0xx` reading and syntax, `G1xx` names and structure, `G2xx` to `G6xx` the
rules of `gemmdsl.rules`, `G7xx` output files and options, `G8xx` warnings and notes of the checker,
`G9xx` tools and GPUs.
Machine-readable forms are in `gemmdsl.reports`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from unicodedata import east_asian_width

from gemmdsl.source import Source, Span

_TAB = 4
_LAID_OUT = "\n\t"


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Note:
    """A line below the excerpt: `= label: text`."""

    label: str
    text: str

    def __str__(self) -> str:
        return f"{self.label}: {self.text}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: a stable code, a message, at most one place, and notes.

    `source` without `span` names a whole file; neither is given when no input file is concerned.
    """

    code: str
    message: str
    source: Source | None = None
    span: Span | None = None
    notes: tuple[Note, ...] = ()
    severity: Severity = Severity.ERROR

    @property
    def position(self) -> tuple[int, int] | None:
        """Line and column where the finding starts, both from 1."""
        if self.source is None or self.span is None:
            return None
        return self.source.position(self.span.start)

    @property
    def order(self) -> tuple[int, str, str]:
        """Sort key: by place, then code."""
        return (self.span.start if self.span else -1, self.code, self.message)


class GemmError(Exception):
    """The input is wrong: carries every finding, at least one of them an error."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(map(render, self.diagnostics)))


def error(
    code: str,
    message: str,
    source: Source | None = None,
    span: Span | None = None,
    **notes: str,
) -> Diagnostic:
    """An error; keyword arguments become notes, an underscore in the label a space."""
    labelled = tuple(Note(label.replace("_", " "), text) for label, text in notes.items())
    return Diagnostic(code, message, source, span, labelled)


def printable(text: str, keep: str = "") -> str:
    """The text on one line, with what a terminal or a comment would not show spelled out, as in `\\x1b`.

    Characters of `keep` stay as they are.  Bytes of a name that the locale does not understand are taken for
    UTF-8, so that a file has the same name everywhere.
    """
    with suppress(UnicodeError):
        text = text.encode(errors="surrogateescape").decode(errors="surrogateescape")
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def render(diagnostic: Diagnostic) -> str:
    """The diagnostic as text: headline, place, line with carets, notes; no newline at the end."""
    lines = [f"{diagnostic.severity.value}[{diagnostic.code}]: {printable(diagnostic.message)}"]
    gutter = "  "
    match diagnostic:
        case Diagnostic(source=Source() as source, span=Span() as span):
            line, column = source.position(span.start)
            gutter = " " * (len(str(line)) + 2)
            text = source.line(line)
            lines.append(f"{gutter[1:]}--> {printable(source.name)}:{line}:{column}")
            lines.append(f"{gutter}|")
            lines.append(f" {line} | {_visible(text)}".rstrip())
            before = _width(text[: column - 1])
            marked = _width(text[column - 1 : column - 1 + span.end - span.start])
            lines.append(f"{gutter}| {' ' * before}{'^' * max(1, marked)}")
        case Diagnostic(source=Source() as source):
            lines.append(f" --> {printable(source.name)}")
        case _:
            pass
    # What a tool said has lines of its own.
    lines += [f"{gutter}= {printable(str(note), keep=_LAID_OUT)}" for note in diagnostic.notes]
    return "\n".join(lines)


def render_all(diagnostics: Iterable[Diagnostic]) -> str:
    """Every diagnostic as text, a blank line between two; empty for none, else ends in a newline."""
    return "\n\n".join(map(render, diagnostics)) + "\n" if (diagnostics := tuple(diagnostics)) else ""


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """How many findings of each severity: `2 errors, 1 warning`; empty for none."""
    found = [diagnostic.severity for diagnostic in diagnostics]
    counts = [(found.count(severity), severity.value) for severity in Severity]
    return ", ".join(f"{count} {name}{'s' * (count > 1)}" for count, name in counts if count)


def _visible(text: str) -> str:
    """The line as it is shown: tabs as spaces, control characters as a replacement mark."""
    shown = "".join(
        " " * _TAB if char == "\t" else char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )
    return shown if len(shown) <= 400 else shown[:400] + " ..."


def _width(text: str) -> int:
    """Columns of a terminal that `_visible(text)` takes."""
    return sum(_TAB if char == "\t" else 2 if east_asian_width(char) in "WF" else 1 for char in text)
