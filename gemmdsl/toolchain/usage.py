"""Reads the report of `ptxas -v`: what each kernel takes of an SM."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ENTRY = re.compile(r"Compiling entry function '(?P<entry>[^']+)' for '(?P<target>[^']+)'")
_FUNCTION = re.compile(r"Function properties for (?P<function>\S+)")
_STACK = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill"
)
_REGISTERS = re.compile(r"Used (?P<registers>\d+) registers")
_CUMULATIVE = re.compile(r"(\d+) bytes cumulative stack size")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+)(?:\+(\d+))? bytes smem")
_CONSTANT = re.compile(r"(\d+) bytes cmem\[")


@dataclass(frozen=True, slots=True)
class Usage:
    """One `__global__` function as compiled for `target`; registers per thread, the rest in bytes.

    `shared` is static shared memory alone; `stack` includes the frames of functions it calls; `barriers` is
    None where an older ptxas does not tell.
    """

    entry: str
    target: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int
    barriers: int | None
    constant: int

    @property
    def spills(self) -> bool:
        return self.spill_stores > 0 or self.spill_loads > 0


def parse_usage(report: str) -> tuple[Usage, ...]:
    """Every entry function of a `ptxas -v` report, in its order; other lines are passed over."""
    found: list[Usage] = []
    entry = target = function = ""
    frames = (0, 0, 0)
    for line in report.splitlines():
        if match := _ENTRY.search(line):
            entry, target = match["entry"], match["target"]
            frames = (0, 0, 0)
        elif match := _FUNCTION.search(line):
            function = match["function"]
        elif (match := _STACK.search(line)) and function == entry:
            frames = (int(match["stack"]), int(match["stores"]), int(match["loads"]))
        elif entry and (match := _REGISTERS.search(line)):
            found.append(
                Usage(
                    entry=entry,
                    target=target,
                    registers=int(match["registers"]),
                    stack=max(frames[0], _total(_CUMULATIVE, line)),
                    spill_stores=frames[1],
                    spill_loads=frames[2],
                    shared=_total(_SHARED, line),
                    barriers=_total(_BARRIERS, line) if _BARRIERS.search(line) else None,
                    constant=_total(_CONSTANT, line),
                )
            )
            entry = ""
    return tuple(found)


def _total(pattern: re.Pattern[str], line: str) -> int:
    """Sum of every number the pattern finds: ptxas writes banks and parts side by side."""
    return sum(int(number) for match in pattern.finditer(line) for number in match.groups() if number)
