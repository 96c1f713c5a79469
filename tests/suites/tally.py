"""What a suite counted, and the line that says so."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """Counts by name, in the order in which they were first counted, and failures in words."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.counts.update(other.counts)
        self.failures += other.failures

    def __str__(self) -> str:
        told = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        return f"{told}, {len(self.failures)} failures"
