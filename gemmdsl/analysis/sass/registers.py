"""Registers of all threads of a block at once, and the operands that read and write them.

A value is a uint32 array with one element per thread.  A value that depends on data in memory is not known;
None stands for it, and `_unknown` remembers which bits of which threads' copies of a register are in that
state: the compiler keeps predicates as bits of a register that held data before.
Uniform registers are kept per thread too: all threads of a warp hold the same value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.target import WARP_SIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Value = NDArray[np.uint32]
    Mask = NDArray[np.bool_]

_REGISTER = re.compile(r"^(?P<sign>[-~!]?)(?P<bars>\|?)(?P<name>U?R(?:Z|\d+))\|?(?P<rest>(?:\.\w+)*)$")
_CONSTANT = re.compile(r"^(?P<sign>[-~]?)c\[0x(?P<bank>[0-9a-f]+)\]\[0x(?P<offset>[0-9a-f]+)\]$")
_INTEGER = re.compile(r"^(?P<sign>[-~]?)(?P<value>0x[0-9a-f]+|\d+)$")
_PREDICATE = re.compile(r"^(?P<sign>!?)(?P<name>U?P(?:T|\d+))$")
_FLOAT = re.compile(r"^[-+]?(\d+\.?\d*(e[-+]?\d+)?|INF|QNAN)$", re.IGNORECASE)


class CannotEvaluate(Exception):
    """The machine code does something that this model does not know; the message says what."""


class Registers:
    """The registers and predicates of `threads` threads, and the words of constant banks by their offsets."""

    def __init__(
        self, threads: int, banks: Mapping[int, Mapping[int, int]], block: int, block_y: int = 0
    ) -> None:
        self.threads = threads
        thread = np.arange(threads, dtype=np.uint32)
        self._special = {
            "SR_TID.X": thread,
            "SR_LANEID": thread % np.uint32(WARP_SIZE),
            "SR_CTAID.X": np.full(threads, block, dtype=np.uint32),
            "SR_CTAID.Y": np.full(threads, block_y, dtype=np.uint32),
        }
        self.banks = banks
        self.zero: Value = np.zeros(threads, dtype=np.uint32)
        self._values: dict[str, Value] = {}
        self._unknown: dict[str, Value] = {}
        self._every: Value = ~self.zero
        self._predicates: dict[str, Mask] = {}
        self._unknown_predicates: dict[str, Mask] = {}
        self._all: Mask = np.ones(threads, dtype=np.bool_)
        self._none: Mask = np.zeros(threads, dtype=np.bool_)

    def read(self, name: str, active: Mask | None) -> Value | None:
        """The value, or None if some bit of it is not known for some active thread."""
        if name.endswith("Z"):
            return self.zero
        unknown = self._unknown.get(name)
        if unknown is not None and (unknown if active is None else unknown[active]).any():
            return None
        return self._values.get(name, self.zero)

    def bits(self, name: str) -> tuple[Value, Value]:
        """The value, and the bits of it that are not known."""
        return self._values.get(name, self.zero), self._unknown.get(name, self.zero)

    def write(
        self, name: str, value: Value | None, active: Mask | None, unknown: Value | None = None
    ) -> None:
        """Sets the register of the active threads (None: of all), but for the bits that are `unknown`."""
        if name.endswith("Z"):
            return
        if name.startswith("U") and active is not None:
            active = _whole_warps(active)
        if value is None:
            value, unknown = self.zero, self._every
        if active is not None:
            value = np.where(active, value, self._values.get(name, self.zero))
            if unknown is not None or name in self._unknown:
                left = self._unknown.get(name, self.zero)
                unknown = np.where(active, self.zero if unknown is None else unknown, left)
        self._values[name] = value
        if unknown is None:
            self._unknown.pop(name, None)
        else:
            self._unknown[name] = unknown

    def predicate(self, name: str, active: Mask | None) -> Mask | None:
        """A predicate, or None if it is not known for some active thread."""
        if name.endswith("T"):
            return self._all
        unknown = self._unknown_predicates.get(name)
        if unknown is not None and (unknown if active is None else unknown & active).any():
            return None
        return self._predicates.get(name, self._none)

    def set_predicate(self, name: str, value: Mask | None, active: Mask | None) -> None:
        if name.endswith("T"):
            return
        if name.startswith("U") and active is not None:
            active = _whole_warps(active)
        if value is None:
            before = self._unknown_predicates.get(name, self._none)
            self._unknown_predicates[name] = self._all if active is None else before | active
            return
        if active is None:
            self._unknown_predicates.pop(name, None)
            self._predicates[name] = value
            return
        if name in self._unknown_predicates:
            self._unknown_predicates[name] = self._unknown_predicates[name] & ~active
        self._predicates[name] = np.where(active, value, self._predicates.get(name, self._none))

    def special(self, name: str) -> Value:
        """A special register; those of axes and clusters that are not used are zero."""
        zeros = ("SR_TID.Y", "SR_TID.Z", "SR_CTAID.Z", "SR_CgaCtaId")
        if name in zeros:
            return self.zero
        if name not in self._special:
            raise CannotEvaluate(f"special register {name}")
        return self._special[name]

    def constant(self, bank: int, offset: int) -> Value:
        word = self.banks.get(bank, {}).get(offset)
        if word is None:
            why = "no argument of the kernel" if bank == 0 else "not known from the cubin"
            raise CannotEvaluate(f"constant c[{bank:#x}][{offset:#x}] is {why}")
        return np.full(self.threads, word, dtype=np.uint32)


def _whole_warps(active: Mask) -> Mask:
    return np.repeat(active.reshape(-1, WARP_SIZE).any(axis=1), WARP_SIZE)


Reader = Callable[[Registers, "Mask | None"], "Value | None"]
PredicateReader = Callable[[Registers, "Mask | None"], "Mask | None"]


def next_register(name: str, step: int = 1) -> str:
    """R5 after R4; RZ stays RZ."""
    if name.endswith("Z"):
        return name
    prefix = "UR" if name.startswith("U") else "R"
    return f"{prefix}{int(name[len(prefix) :]) + step}"


def register_name(text: str) -> str:
    """The register of a destination operand; CannotEvaluate for anything else."""
    match = _REGISTER.match(text)
    if match is None:
        raise CannotEvaluate(f"{text} is no register")
    return match["name"]


def is_predicate(text: str) -> bool:
    return _PREDICATE.match(text) is not None


def predicate_reader(text: str) -> PredicateReader:
    match = _PREDICATE.match(text)
    if match is None:
        raise CannotEvaluate(f"{text} is no predicate")
    name, negated = match["name"], match["sign"] == "!"

    def read(registers: Registers, active: Mask | None) -> Mask | None:
        value = registers.predicate(name, active)
        return value if value is None or not negated else ~value

    return read


def reader(text: str, word: int = 0, floating: bool = False) -> Reader:
    """Reads a source operand; `word` 1 is the upper half of a 64-bit operand.

    The sign applies to the lower half alone: operands of 64 bits are not negated.
    """
    if match := _REGISTER.match(text):
        return _register_reader(match, word, floating)
    if match := _CONSTANT.match(text):
        bank, offset, sign = int(match["bank"], 16), int(match["offset"], 16) + 4 * word, match["sign"]
        return lambda registers, active: _signed(registers.constant(bank, offset), sign, floating)
    if (match := _INTEGER.match(text)) and not floating:
        number = int(match["value"], 0)
        number = -number if match["sign"] == "-" else ~number if match["sign"] == "~" else number
        bits = (number >> (32 * word)) & 0xFFFFFFFF
        return lambda registers, active: np.full(registers.threads, bits, dtype=np.uint32)
    if _FLOAT.match(text):
        value = np.float32(text.replace("QNAN", "nan"))
        return lambda registers, active: np.full(registers.threads, value).view(np.uint32)
    raise CannotEvaluate(f"operand {text}")


def bits_reader(text: str) -> Callable[[Registers, Mask | None], tuple[Value, Value]]:
    """Reads a source operand as its value and the bits of it that are not known."""
    whole, match = reader(text), _REGISTER.match(text)

    def read(registers: Registers, active: Mask | None) -> tuple[Value, Value]:
        value = whole(registers, active)
        if value is not None:
            return value, registers.zero
        if match is None or match["bars"] or match["sign"] not in ("", "~"):
            return registers.zero, ~registers.zero
        found, unknown = registers.bits(match["name"])
        return (~found if match["sign"] else found), unknown

    return read


def _register_reader(match: re.Match[str], word: int, floating: bool) -> Reader:
    if set(match["rest"].split(".")) - {"", "reuse", "64", "U32"}:
        raise CannotEvaluate(f"operand {match[0]}")
    name, sign, bars = next_register(match["name"], word), match["sign"], match["bars"]

    def read(registers: Registers, active: Mask | None) -> Value | None:
        value = registers.read(name, active)
        if value is None:
            return None
        if bars:
            value = (
                value & np.uint32(0x7FFFFFFF) if floating else np.abs(value.view(np.int32)).view(np.uint32)
            )
        return _signed(value, sign, floating)

    return read


def _signed(value: Value, sign: str, floating: bool) -> Value:
    if sign == "-":
        return value ^ np.uint32(0x80000000) if floating else np.uint32(0) - value
    return ~value if sign == "~" else value
