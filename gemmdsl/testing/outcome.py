"""What came of one run of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from gemmdsl.emulator.checker import Sanitizer

# What the checker's messages say, and what a person asked to be watched.
_MARKS: tuple[tuple[str, Sanitizer], ...] = (
    ("race on", "race"),
    ("no wait between", "race"),
    ("which no thread has written", "init"),
    ("though its factor is 0", "init"),
    ("misaligned", "align"),
    ("outside", "memory"),
    ("of padding", "memory"),
    ("write to", "memory"),
    ("before it is scaled", "init"),
    ("a second time", "memory"),
    ("was not written", "memory"),
    ("was not added to", "memory"),
    ("after parts were added to it", "memory"),
    (", of part ", "memory"),
    ("no shared memory", "memory"),
    ("memory is freed that", "memory"),
    ("memory is not freed", "memory"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: `kind` is a stable word, `message` and `notes` are for people.

    Kinds are "result", "memory", "race", "init", "align", "status" (of a wrong call), "launch" (the launch
    did not come to its end for another reason) and "compile".
    """

    kind: str
    message: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run's path (`""`: nothing had to be launched), time in seconds, and everything that is wrong.

    `summary` is the verdict on the result in words, and `exact` that every element had to be equal; `drift`
    says that errors are within the worst case but larger than rounding errors that average out.
    """

    path: str
    seconds: float
    findings: tuple[Finding, ...]
    summary: str = ""
    exact: bool = False
    drift: bool = False

    @property
    def ok(self) -> bool:
        return not self.findings


def kind_of(message: str) -> str:
    """The sanitizer that a message of a failed launch is about, or "launch" for anything else."""
    return next((kind for mark, kind in _MARKS if mark in message), "launch")
