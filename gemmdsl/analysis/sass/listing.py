"""Parses the text of `nvdisasm -gi`: instructions, labels, the source lines they come from, and constants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gemmdsl.analysis.sass.constants import Words, banks_of, read_sections

_FUNCTION = re.compile(r"^\s*\.text\.(?P<name>\w+):\s*$")
_LABEL = re.compile(r"^\s*\.?(?P<name>L_x_\d+):\s*$")
_LINE = re.compile(r'//## File "[^"]*", line (?P<line>\d+)(?: inlined at "[^"]*", line (?P<caller>\d+))?')
_INSTRUCTION = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+"
    r"(?:@(?P<negated>!?)(?P<predicate>U?P(?:T|\d+))\s+)?"
    r"(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>[^;]*);"
)
_VECTOR = re.compile(r"^F32x(?P<count>[24])$")
_TARGET = re.compile(r"`\(\.(?P<label>L_x_\d+)\)")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One SASS instruction.

    `predicate` guards it (None: always executed), `negated` says with the opposite sign.  `target` is the
    index that a branch goes to.  `lines` are source lines, the innermost inlined function first.
    """

    address: int
    opcode: str
    operands: tuple[str, ...]
    predicate: str | None
    negated: bool
    target: int | None
    lines: tuple[int, ...]

    @property
    def mnemonic(self) -> str:
        """The opcode without its modifiers: LDS of LDS.U.128."""
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        return tuple(self.opcode.split(".")[1:])

    @property
    def width(self) -> int:
        """Bytes per lane of a memory access."""
        for modifier in self.modifiers:
            if modifier in ("64", "128"):
                return int(modifier) // 8
            # What is added is named by its kind: F32x4.
            if match := _VECTOR.match(modifier):
                return 4 * int(match["count"])
        return 4


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel's instructions in the order of their addresses, and its constant banks but for bank 0."""

    name: str
    code: tuple[Instruction, ...]
    banks: Mapping[int, Words] = field(default_factory=dict)


def read_listing(text: str) -> dict[str, Function]:
    """Every function of a listing by name; lines that are no instructions are passed over."""
    functions: dict[str, Function] = {}
    name, fresh = "", False
    lines: list[int] = []
    drafts: list[tuple[re.Match[str], tuple[int, ...]]] = []
    labels: dict[str, int] = {}
    sections = read_sections(text)

    def close() -> None:
        if name and drafts:
            code = tuple(_instruction(match, at, labels) for match, at in drafts)
            functions[name] = Function(name, code, banks_of(sections, name))

    for line in text.splitlines():
        if match := _INSTRUCTION.match(line):
            drafts.append((match, tuple(lines)))
            fresh = False
        elif match := _LINE.search(line):
            # Annotations come in runs, one per inlined level; the first after an instruction starts anew.
            lines = [*lines, int(match["line"])] if fresh else [int(match["line"])]
            fresh = True
        elif match := _FUNCTION.match(line):
            close()
            name, lines, drafts, labels = match["name"], [], [], {}
        elif match := _LABEL.match(line):
            labels[match["name"]] = len(drafts)
    close()
    return functions


def _instruction(match: re.Match[str], lines: tuple[int, ...], labels: dict[str, int]) -> Instruction:
    text = match["operands"].strip()
    target = None
    if branch := _TARGET.search(text):
        target = labels.get(branch["label"])
        text = text.replace(branch[0], "").strip().rstrip(",")
    return Instruction(
        address=int(match["address"], 16),
        opcode=match["opcode"],
        operands=tuple(part.strip() for part in text.split(",")) if text else (),
        predicate=match["predicate"],
        negated=match["negated"] == "!",
        target=target,
        lines=lines,
    )
