"""Truth tables, comparisons and votes; what moves between registers and predicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.analysis.sass.decode import (
    Step,
    split,
)
from gemmdsl.analysis.sass.listing import Instruction
from gemmdsl.analysis.sass.registers import (
    CannotEvaluate,
    Registers,
    bits_reader,
    is_predicate,
    predicate_reader,
    reader,
    register_name,
)
from gemmdsl.target import WARP_SIZE

if TYPE_CHECKING:
    from gemmdsl.analysis.sass.registers import Mask, Value


def logic(instruction: Instruction) -> Step:
    """LOP3: a truth table over three words; its predicate says whether the result is not zero.

    Bits of the result are known where those of the sources are, or where the table needs them not.
    """
    destination, outs, texts, ins = split(instruction)
    table = int(texts[3], 0)
    sources = [bits_reader(text) for text in texts[:3]]
    extra = [predicate_reader(text) for text in ins]

    def run(registers: Registers, active: Mask | None) -> None:
        words = [source(registers, active) for source in sources]
        # For each result, the bits that can have it.
        can = [np.zeros_like(registers.zero), np.zeros_like(registers.zero)]
        for row in range(8):
            (a, b, c) = (
                (value if row >> place & 1 else ~value) | unknown
                for place, (value, unknown) in zip((2, 1, 0), words, strict=True)
            )
            can[table >> row & 1] |= a & b & c
        value, unknown = can[1] & ~can[0], can[1] & can[0]
        registers.write(destination, value, active, unknown if unknown.any() else None)
        open_ = (value == 0) & (unknown != 0)
        for name in outs:
            flag = None if (open_ if active is None else open_ & active).any() else value != 0
            for read in extra:
                other = read(registers, active)
                flag = None if flag is None or other is None else flag | other
            registers.set_predicate(name, flag, active)

    return run


def predicate_logic(instruction: Instruction) -> Step:
    """PLOP3: truth tables over three predicates."""
    words = instruction.operands
    outs, ins = words[:2], [predicate_reader(word) for word in words[2:5]]
    tables = [int(word, 0) for word in words[5:7]]

    def run(registers: Registers, active: Mask | None) -> None:
        values = [read(registers, active) for read in ins]
        known = [value for value in values if value is not None]
        for name, table in zip(outs, tables, strict=False):
            if len(known) < 3:
                # A constant table does not need its inputs.
                flat = {0: False, 255: True}.get(table)
                value = None if flat is None else np.full(registers.threads, flat)
            else:
                row = known[0].astype(np.int64) * 4 + known[1] * 2 + known[2]
                value = (table >> row & 1).astype(np.bool_)
            registers.set_predicate(name, value, active)

    return run


_COMPARISONS = {
    "LT": lambda x, y: x < y,
    "LE": lambda x, y: x <= y,
    "GT": lambda x, y: x > y,
    "GE": lambda x, y: x >= y,
    "EQ": lambda x, y: x == y,
    "NE": lambda x, y: x != y,
}
_STRICT = {"LE": "LT", "GE": "GT"}


def compare(instruction: Instruction) -> Step:
    """ISETP and FSETP: a comparison joined with a predicate; EX continues that of the lower halves."""
    modifiers, words = instruction.modifiers, list(instruction.operands)
    floating = "FSETP" in instruction.mnemonic
    unordered = floating and modifiers[0].endswith("U")
    relation = modifiers[0].removesuffix("U")
    if relation not in _COMPARISONS or {"64", "U64", "S64"} & set(modifiers):
        raise CannotEvaluate(f"instruction {instruction.opcode}")
    outs, left, right = words[:2], *(reader(word, 0, floating) for word in words[2:4])
    joined = [predicate_reader(word) for word in words[4:]]
    view = np.float32 if floating else np.uint32 if "U32" in modifiers else np.int32

    def run(registers: Registers, active: Mask | None) -> None:
        a, b = left(registers, active), right(registers, active)
        others = [read(registers, active) for read in joined]
        known = [other for other in others if other is not None]
        if a is None or b is None or len(known) < len(others):
            for name in outs:
                registers.set_predicate(name, None, active)
            return
        x, y = a.view(view), b.view(view)
        result = np.asarray(_COMPARISONS[relation](x, y), dtype=np.bool_)
        if unordered:
            result = result | np.isnan(x) | np.isnan(y)
        if "EX" in modifiers:
            strict = np.asarray(_COMPARISONS[_STRICT.get(relation, relation)](x, y), dtype=np.bool_)
            # Equal upper halves leave the decision to the lower ones.
            result = np.where(x == y, known[1], strict)
        for name, value in zip(outs, (result, ~result), strict=True):
            registers.set_predicate(name, _joined(value, known[0], modifiers) if known else value, active)

    return run


def _joined(value: Mask, other: Mask, modifiers: tuple[str, ...]) -> Mask:
    if "XOR" in modifiers:
        return value ^ other
    return value & other if "AND" in modifiers else value | other


def select(instruction: Instruction) -> Step:
    """SEL and FSEL: the first source where the predicate holds, else the second."""
    words = instruction.operands
    floating = "FSEL" in instruction.mnemonic
    destination, choice = register_name(words[0]), predicate_reader(words[3])
    first, second = reader(words[1], 0, floating), reader(words[2], 0, floating)

    def run(registers: Registers, active: Mask | None) -> None:
        flag = choice(registers, active)
        a, b = first(registers, active), second(registers, active)
        if flag is None or a is None or b is None:
            return registers.write(destination, None, active)
        registers.write(destination, np.where(flag, a, b), active)

    return run


def vote(instruction: Instruction) -> Step:
    """VOTE.ANY and VOTE.ALL into a predicate."""
    outs = [word for word in instruction.operands if is_predicate(word)]
    destination, source = outs[0], predicate_reader(outs[-1])
    if len(outs) < 2 or len(outs) != len(instruction.operands):
        raise CannotEvaluate(f"instruction {instruction.opcode} into a register")
    any_lane = "ANY" in instruction.modifiers

    def run(registers: Registers, active: Mask | None) -> None:
        value = source(registers, active)
        if value is not None:
            mask = np.ones_like(value) if active is None else active
            lanes = (value & mask if any_lane else value | ~mask).reshape(-1, WARP_SIZE)
            value = np.repeat(lanes.any(axis=1) if any_lane else lanes.all(axis=1), WARP_SIZE)
        registers.set_predicate(destination, value, active)

    return run


def predicates_to_register(instruction: Instruction) -> Step:
    """P2R R, PR, a, mask: the predicates of `mask` as bits, the others of a."""
    words = instruction.operands
    destination, base, mask = register_name(words[0]), reader(words[2]), int(words[3], 0)

    def run(registers: Registers, active: Mask | None) -> None:
        value = base(registers, active)
        bits: Value | None = None if value is None else value & np.uint32(~mask & 0xFFFFFFFF)
        for number in range(7):
            if mask >> number & 1 and bits is not None:
                flag = registers.predicate(f"P{number}", active)
                bits = None if flag is None else bits | (flag.astype(np.uint32) << np.uint32(number))
        registers.write(destination, bits, active)

    return run


def register_to_predicates(instruction: Instruction) -> Step:
    """R2P PR, a, mask."""
    words = instruction.operands
    source, mask = reader(words[1]), int(words[2], 0)

    def run(registers: Registers, active: Mask | None) -> None:
        value = source(registers, active)
        for number in range(7):
            if mask >> number & 1:
                flag = None if value is None else (value >> np.uint32(number) & np.uint32(1)).astype(np.bool_)
                registers.set_predicate(f"P{number}", flag, active)

    return run
