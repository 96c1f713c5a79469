"""What one instruction does to registers.

Arithmetic on data (FFMA and the like) only marks its result as not known.  Meanings follow from NVIDIA's
instruction lists (CUDA Binary Utilities) and from what ptxas makes of known sources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.analysis.sass import arithmetic, predicates
from gemmdsl.analysis.sass.decode import (
    Step,
    unknown,
)
from gemmdsl.analysis.sass.listing import Instruction
from gemmdsl.analysis.sass.registers import (
    CannotEvaluate,
    Reader,
    Registers,
    is_predicate,
    next_register,
    reader,
    register_name,
)
from gemmdsl.target import WARP_SIZE

if TYPE_CHECKING:
    from gemmdsl.analysis.sass.registers import Mask

# Waiting and ordering: no effect on values.
_NO_EFFECT = ("NOP", "DEPBAR", "LDGDEPBAR", "WARPSYNC", "YIELD", "MEMBAR", "ERRBAR", "CCTL", "FENCE", "STL")
# What they compute depends on data; results of 64 bits in the second row.
_DATA = ("FFMA", "FMUL", "FADD", "FMNMX", "HFMA2", "HADD2", "HMUL2", "F2F", "F2FP", "LDL")
_PAIRED_DATA = ("FFMA2", "FMUL2", "FADD2")
# Constants narrower than a register.
_PART_OF_WORD = frozenset(("U8", "S8", "U16", "S16"))


def step(instruction: Instruction) -> Step | None:
    """The effect of an instruction on registers; CannotEvaluate for one that this model does not know."""
    mnemonic = instruction.mnemonic
    if mnemonic in _NO_EFFECT:
        return None
    constant = _half_constant(instruction)
    if constant is not None:
        return constant
    if mnemonic in _DATA or mnemonic in _PAIRED_DATA:
        words = 2 if mnemonic in _PAIRED_DATA else max(1, instruction.width // 4)
        return unknown(instruction, words)
    # The uniform datapath has the same operations: UIADD3 is IADD3 on uniform registers.
    base = mnemonic[1:] if mnemonic.startswith("U") else mnemonic
    make = _MAKERS.get(base)
    if make is None:
        raise CannotEvaluate(f"instruction {instruction.opcode}")
    return make(instruction)


def _half_constant(instruction: Instruction) -> Step | None:
    """HFMA2 R, -RZ, RZ, hi, lo is how ptxas writes a 32-bit constant on the half-precision pipe."""
    words = instruction.operands
    if instruction.mnemonic != "HFMA2" or len(words) != 5 or words[1:3] != ("-RZ", "RZ"):
        return None
    high, low = (int(np.float16(float(word)).view(np.uint16)) for word in words[3:])
    name, number = register_name(words[0]), np.uint32(high << 16 | low)

    def run(registers: Registers, active: Mask | None) -> None:
        registers.write(name, np.full(registers.threads, number), active)

    return run


def _move(instruction: Instruction) -> Step:
    """MOV, LDC, R2UR, S2R and CS2R: a word or a pair from one place to another."""
    if not _PART_OF_WORD.isdisjoint(instruction.modifiers):
        raise CannotEvaluate(f"instruction {instruction.opcode}")
    words = instruction.operands
    destination, text = register_name(words[0]), words[1]
    count = 2 if "64" in instruction.modifiers else 4 if "128" in instruction.modifiers else 1
    if instruction.mnemonic == "CS2R":
        count, text = (1 if "32" in instruction.modifiers else 2), "RZ" if text == "SRZ" else text
    moves = [(next_register(destination, word), _source(text, word)) for word in range(count)]

    def run(registers: Registers, active: Mask | None) -> None:
        for name, value in moves:
            registers.write(name, value(registers, active), active)

    return run


def _source(text: str, word: int) -> Reader:
    if text.startswith("SR_"):
        return lambda registers, active: registers.special(text)
    return reader(text, word)


def _from_first_lane(instruction: Instruction) -> Step:
    """R2UR: the value of a warp's first active lane."""
    words = [word for word in instruction.operands if not is_predicate(word)]
    destination, source = register_name(words[0]), reader(words[1])

    def run(registers: Registers, active: Mask | None) -> None:
        value = source(registers, active)
        if value is not None and active is not None:
            lanes = active.reshape(-1, WARP_SIZE)
            leaders = np.arange(len(lanes)) * WARP_SIZE + lanes.argmax(axis=1)
            value = np.repeat(value[leaders], WARP_SIZE)
        registers.write(destination, value, active)

    return run


_MAKERS: dict[str, Callable[[Instruction], Step]] = {
    "IADD3": arithmetic.add,
    "IADD": arithmetic.add,
    "VIADD": arithmetic.add,
    "IMAD": arithmetic.multiply_add,
    "LEA": arithmetic.shift_add,
    "SHF": arithmetic.shift,
    "LOP3": predicates.logic,
    "PLOP3": predicates.predicate_logic,
    "ISETP": predicates.compare,
    "FSETP": predicates.compare,
    "SEL": predicates.select,
    "FSEL": predicates.select,
    "IMNMX": arithmetic.extremum,
    "VIMNMX": arithmetic.extremum,
    "VIADDMNMX": arithmetic.extremum,
    "MOV": _move,
    "LDC": _move,
    "LDCU": _move,
    "S2R": _move,
    "S2UR": _move,
    "CS2R": _move,
    "R2UR": _from_first_lane,
    "VOTE": predicates.vote,
    "VOTEU": predicates.vote,
    "P2R": predicates.predicates_to_register,
    "R2P": predicates.register_to_predicates,
    "IABS": arithmetic.absolute,
    "I2F": arithmetic.to_float,
    "I2FP": arithmetic.to_float,
    "F2I": arithmetic.to_integer,
    "MUFU": arithmetic.reciprocal,
}
