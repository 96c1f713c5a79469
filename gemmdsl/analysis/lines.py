"""Places in emitted CUDA text: which function a line belongs to, and where each access stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gemmdsl.analysis.access import Kind, Space
from gemmdsl.spec import OperandName

_DEFINITION = re.compile(r"^(?:__device__|__global__|extern \"C\").*?\b(?P<name>\w+)\(")
_CONTINUED = re.compile(r"^(?P<name>\w+)\(int M")
# What the functions of the copy, compute and store families are called; helpers are inlined into these.
_FAMILY = re.compile(r"^(load|store|copy|read)_[abc](_async)?$|^multiply(_\w+)?$|^(add_c|store_part)$")


@dataclass(frozen=True, slots=True)
class Site:
    """A line of a function; line 0 of no function where an access has no place of its own."""

    function: str
    line: int


@dataclass(frozen=True, slots=True)
class SourceMap:
    """The functions of a text: `owner[line]` is the one that a line (from 1) belongs to."""

    owner: Mapping[int, str]
    lines: tuple[str, ...]

    def find(self, function: str, marker: str, last: bool = False) -> int:
        """The first line of a function that contains `marker`, or the last one; 0 if there is none."""
        found = [
            number
            for number, text in enumerate(self.lines, start=1)
            if self.owner.get(number) == function and marker in text
        ]
        return found[-1 if last else 0] if found else 0

    def line(self, chain: tuple[int, ...]) -> int:
        """The line that an instruction stands for, given its lines from the innermost function outwards.

        Helpers are inlined into the functions of the families; the line within one of these tells more.
        """
        for line in chain:
            if _FAMILY.match(self.owner.get(line, "")):
                return line
        return chain[-2] if len(chain) > 1 else chain[0] if chain else 0

    def access(self, operand: OperandName, space: Space, kind: Kind, words: bool) -> Site:
        """Where an operand is accessed in this way; with `words`, on a path that copies it word by word.

        A copy function has its loop over words after the one over vectors.
        """
        lower = operand.lower()
        direct = f" {lower}[{'j' if operand == 'B' else 'i'}] ="
        choices: dict[tuple[Space, Kind], tuple[tuple[str, str], ...]] = {
            ("shared", "load"): ((f"read_{lower}", "move<"),),
            ("shared", "store"): ((f"copy_{lower}_async", "copy_global_async<"), (f"store_{lower}", "move<")),
            ("global", "load"): (
                (f"copy_{lower}_async", "copy_global_async<"),
                (f"load_{lower}", "load_global<"),
                ("store_c", "load_global<") if operand == "C" else ("multiply_global", direct),
            ),
            ("global", "store"): (("store_c", "store_global<"), ("store_part", "store_global<")),
            ("global", "add"): (("add_c", "add_global<"),),
        }
        for function, marker in choices[space, kind]:
            if line := self.find(function, marker, words):
                return Site(function, line)
        return Site("", 0)


def source_map(text: str) -> SourceMap:
    """The map of an emitted `.cu` text."""
    lines = tuple(text.splitlines())
    owner: dict[int, str] = {}
    current = ""
    for number, line in enumerate(lines, start=1):
        if match := _DEFINITION.match(line) or _CONTINUED.match(line):
            current = match["name"]
        if current:
            owner[number] = current
        if line.startswith("}"):
            current = ""
    return SourceMap(owner, lines)
