"""What came of one run of a kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: `kind` is a stable word, `message` one for people."""

    kind: str
    message: str

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
