"""Parses what nvdisasm prints of constant banks: the words that instructions read as c[BANK][OFFSET].

In bank 2 ptxas keeps literals that no instruction can hold, such as those of 64 bits, and tables of branches;
bank 3 has the program's constant variables, bank 4 addresses.  Sections are named `.nv.constantBANK.ENTRY`,
or `.nv.constantBANK` if all entries share it.  Bank 0 is left out: a launch brings it, with the arguments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECTION = re.compile(r"^\s*\.section\s")
_BANK = re.compile(r"^\s*\.nv\.constant(?P<bank>[1-9]\d*)(?:\.(?P<entry>\w+))?:\s*$")
_DATA = re.compile(
    r"^\s*(?:/\*(?P<offset>[0-9a-f]+)\*/\s+)?\.(?P<kind>byte|short|word|dword|zero)\s+(?P<values>\S.*?)\s*$"
)
_NUMBER = re.compile(r"^(?:0x[0-9a-f]+|0|[1-9]\d*)$")
_WIDTHS = {"byte": 1, "short": 2, "word": 4, "dword": 8}
_WORD = 4

# Offset in bytes -> word.
Words = Mapping[int, int]
Sections = Mapping[tuple[int, str], Words]


def read_sections(text: str) -> Sections:
    """The words of every bank but 0 by (bank, entry), the entry empty for a bank of all entries.

    Words that only the loader knows, such as addresses of variables, are left out.
    """
    found: dict[tuple[int, str], dict[int, int]] = {}
    content: dict[int, int] | None = None
    end = 0
    for line in text.splitlines():
        if _SECTION.match(line):
            content = None
        elif match := _BANK.match(line):
            content, end = found.setdefault((int(match["bank"]), match["entry"] or ""), {}), 0
        elif content is not None and (match := _DATA.match(line)):
            start = end if match["offset"] is None else int(match["offset"], 16)
            end = _put(content, start, match["kind"], match["values"])
    return {key: _words(content) for key, content in found.items()}


def banks_of(sections: Sections, entry: str) -> dict[int, Words]:
    """The banks that an entry reads: its own, and those of all entries that it has none of its own for."""
    shared = {bank: words for (bank, owner), words in sections.items() if not owner}
    return shared | {bank: words for (bank, owner), words in sections.items() if owner == entry}


def _put(content: dict[int, int], start: int, kind: str, values: str) -> int:
    """Adds the bytes that one line has, by their offsets, and gives the offset after them."""
    if kind == "zero":
        end = start + int(values, 0)
        content.update(dict.fromkeys(range(start, end), 0))
        return end
    width = _WIDTHS[kind]
    for value in values.split(","):
        if _NUMBER.match(number := value.strip()):
            content.update(enumerate(int(number, 0).to_bytes(width, "little"), start))
        start += width
    return start


def _words(content: Mapping[int, int]) -> dict[int, int]:
    """Whole words, little endian, of bytes by their offsets."""
    places = (range(start, start + _WORD) for start in content if start % _WORD == 0)
    return {
        place.start: int.from_bytes((content[at] for at in place), "little")
        for place in places
        if all(at in content for at in place)
    }
