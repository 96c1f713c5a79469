"""What the meanings of SASS instructions are built from: their operands, and results of 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.analysis.sass.listing import Instruction
from gemmdsl.analysis.sass.registers import (
    Reader,
    Registers,
    is_predicate,
    next_register,
    reader,
    register_name,
)

if TYPE_CHECKING:
    from gemmdsl.analysis.sass.registers import Mask, Value

    Wide = np.ndarray[tuple[int], np.dtype[np.uint64]]

Step = Callable[[Registers, "Mask | None"], None]


def split(instruction: Instruction) -> tuple[str, list[str], list[str], list[str]]:
    """(destination, predicates it sets, sources, predicates it reads) of an arithmetic instruction."""
    words = list(instruction.operands)
    leading: list[str] = []
    # LOP3 names its predicate before the destination, IADD3 after it.
    while is_predicate(words[0]):
        leading.append(words.pop(0))
    destination = register_name(words.pop(0))
    while words and is_predicate(words[0]):
        leading.append(words.pop(0))
    trailing: list[str] = []
    while words and is_predicate(words[-1]):
        trailing.insert(0, words.pop())
    return destination, leading, words, trailing


def sources_of(texts: list[str], word: int = 0) -> list[Reader]:
    return [reader(text, word) for text in texts]


def wide_reader(text: str) -> Callable[[Registers, Mask | None], tuple[Value, Value] | None]:
    """Reads a 64-bit source as (low, high)."""
    low, high = reader(text, 0), reader(text, 1)

    def read(registers: Registers, active: Mask | None) -> tuple[Value, Value] | None:
        parts = low(registers, active), high(registers, active)
        return None if parts[0] is None or parts[1] is None else (parts[0], parts[1])

    return read


def computed(texts: list[str], destination: str, compute: Callable[..., Value]) -> Step:
    """destination = compute(sources), not known if one of them is not."""
    sources = sources_of(texts)

    def run(registers: Registers, active: Mask | None) -> None:
        values = [source(registers, active) for source in sources]
        known = all(value is not None for value in values)
        registers.write(destination, compute(*values) if known else None, active)

    return run


def unknown(instruction: Instruction, words: int) -> Step:
    names = [next_register(register_name(instruction.operands[0]), word) for word in range(words)]

    def run(registers: Registers, active: Mask | None) -> None:
        for name in names:
            registers.write(name, None, active)

    return run


def join(low: Value, high: Value) -> Wide:
    return high.astype(np.uint64) << np.uint64(32) | low


def write_wide(
    registers: Registers,
    destination: str,
    value: Wide | None,
    active: Mask | None,
) -> None:
    upper = next_register(destination)
    registers.write(destination, None if value is None else value.astype(np.uint32), active)
    registers.write(upper, None if value is None else (value >> np.uint64(32)).astype(np.uint32), active)
