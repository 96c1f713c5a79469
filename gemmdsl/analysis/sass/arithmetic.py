"""Integer arithmetic: sums, products, shifts, extrema, and the conversions of an integer division."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.analysis.sass.decode import (
    Step,
    computed,
    join,
    sources_of,
    split,
    unknown,
    wide_reader,
    write_wide,
)
from gemmdsl.analysis.sass.listing import Instruction
from gemmdsl.analysis.sass.registers import (
    CannotEvaluate,
    Registers,
    is_predicate,
    predicate_reader,
    register_name,
)

if TYPE_CHECKING:
    from gemmdsl.analysis.sass.registers import Mask, Value


def add(instruction: Instruction) -> Step:
    """IADD3, VIADD, IADD: two or three summands, carries in (.X) and out."""
    if "64" in instruction.modifiers:
        return _add_wide(instruction)
    destination, outs, texts, ins = split(instruction)
    signs = [text.startswith("-") for text in texts]
    sources = sources_of([text.removeprefix("-") for text in texts])
    carries = [predicate_reader(text) for text in ins] if "X" in instruction.modifiers else []

    def run(registers: Registers, active: Mask | None) -> None:
        total = np.zeros(registers.threads, dtype=np.int64)
        known = True
        for source, negative in zip(sources, signs, strict=True):
            value = source(registers, active)
            if value is None:
                known = False
                break
            # As the adder sees it: the complement plus one, which for zero carries out.
            total = total + ((1 << 32) - value.astype(np.int64) if negative else value.astype(np.int64))
        for carry in carries:
            bit = carry(registers, active)
            known = known and bit is not None
            if bit is not None:
                total = total + bit
        registers.write(destination, total.astype(np.uint32) if known else None, active)
        for place, name in enumerate(outs):
            registers.set_predicate(name, total >= (place + 1) << 32 if known else None, active)

    return run


def _add_wide(instruction: Instruction) -> Step:
    destination, outs, texts, _ = split(instruction)
    if outs:
        raise CannotEvaluate(f"instruction {instruction.opcode} with a carry")
    signs = [text.startswith("-") for text in texts]
    sources = [wide_reader(text.removeprefix("-")) for text in texts]

    def run(registers: Registers, active: Mask | None) -> None:
        total = np.zeros(registers.threads, dtype=np.uint64)
        for source, negative in zip(sources, signs, strict=True):
            parts = source(registers, active)
            if parts is None:
                return write_wide(registers, destination, None, active)
            total = total - join(*parts) if negative else total + join(*parts)
        write_wide(registers, destination, total, active)

    return run


def multiply_add(instruction: Instruction) -> Step:
    """IMAD and its kin: a * b + c; WIDE has a 64-bit result and c, HI is the upper half of that."""
    modifiers = instruction.modifiers
    destination, outs, texts, ins = split(instruction)
    if "WIDE" in modifiers or "HI" in modifiers:
        return _multiply_add_wide(instruction, destination, outs, texts)
    carry = predicate_reader(ins[0]) if "X" in modifiers else None
    sources = sources_of(texts)

    def run(registers: Registers, active: Mask | None) -> None:
        # MOV and the like multiply by zero: what they multiply need not be known.
        a, b, c = (source(registers, active) for source in sources)
        bit = carry(registers, active) if carry else None
        if a is None or b is None or c is None or (carry and bit is None):
            return registers.write(destination, None, active)
        value = a * b + c
        registers.write(destination, value if bit is None else value + bit.astype(np.uint32), active)
        for name in outs:
            wide = a.astype(np.uint64) * b + c
            registers.set_predicate(name, wide >> np.uint64(32) > 0, active)

    return run


def _multiply_add_wide(instruction: Instruction, destination: str, outs: list[str], texts: list[str]) -> Step:
    unsigned, high = "U32" in instruction.modifiers, "HI" in instruction.modifiers
    first, second = sources_of(texts[:2])
    third = wide_reader(texts[2])

    def run(registers: Registers, active: Mask | None) -> None:
        a, b, c = first(registers, active), second(registers, active), third(registers, active)
        if a is None or b is None or c is None:
            if high:
                registers.write(destination, None, active)
            else:
                write_wide(registers, destination, None, active)
            for name in outs:
                registers.set_predicate(name, None, active)
            return
        if unsigned:
            product = a.astype(np.uint64) * b.astype(np.uint64)
        else:
            product = (a.view(np.int32).astype(np.int64) * b.view(np.int32).astype(np.int64)).view(np.uint64)
        summand = join(*c)
        total = product + summand
        if high:
            registers.write(destination, (total >> np.uint64(32)).astype(np.uint32), active)
        else:
            write_wide(registers, destination, total, active)
        for name in outs:
            registers.set_predicate(name, total < summand, active)

    return run


def shift_add(instruction: Instruction) -> Step:
    """LEA: (a << s) + b; HI adds the bits that the shift moves past 32, X a carry."""
    modifiers = instruction.modifiers
    destination, outs, texts, ins = split(instruction)
    high, extended = "HI" in modifiers, "SX32" in modifiers
    carry = predicate_reader(ins[0]) if "X" in modifiers else None
    if high and not extended and len(texts) == 3:
        texts = [*texts[:2], "RZ", texts[2]]
    if not high and len(texts) == 2:
        texts = [*texts, "0x0"]
    shift = int(texts[-1], 0)
    sources = sources_of(texts[:-1])

    def run(registers: Registers, active: Mask | None) -> None:
        values = [source(registers, active) for source in sources]
        bit = carry(registers, active) if carry else None
        if any(value is None for value in values) or (carry and bit is None):
            registers.write(destination, None, active)
            for name in outs:
                registers.set_predicate(name, None, active)
            return
        known = [value for value in values if value is not None]
        if high:
            a = known[0].view(np.int32).astype(np.int64)
            wide = a if extended else join(known[0], known[2]).view(np.int64)
            # A shift by 32 gives the value itself; more than 63 does not occur.
            moved = ((wide.view(np.uint64) << np.uint64(shift)) >> np.uint64(32)).astype(np.uint32)
        else:
            moved = known[0] << np.uint32(shift)
        total = moved.astype(np.int64) + known[1].astype(np.int64)
        if bit is not None:
            total = total + bit
        registers.write(destination, total.astype(np.uint32), active)
        for name in outs:
            registers.set_predicate(name, total >= 1 << 32, active)

    return run


def shift(instruction: Instruction) -> Step:
    """SHF: the 64 bits {c, a} moved by b, and a half of them."""
    modifiers = instruction.modifiers
    destination, _, texts, _ = split(instruction)
    left, high = "L" in modifiers, "HI" in modifiers
    signed = "S32" in modifiers or "S64" in modifiers
    narrow = "U32" in modifiers or "S32" in modifiers

    def compute(low: Value, amount: Value, upper: Value) -> Value:
        by = np.minimum(amount, np.uint32(63)).astype(np.uint64)
        if narrow:
            by = by & np.uint64(31) if "W" in modifiers else np.minimum(by, np.uint64(32))
        if left:
            wide = join(low, upper) << by
        elif narrow and not high:
            wide = low.astype(np.uint64) >> by
        elif signed:
            wide = (join(low, upper).view(np.int64) >> by.view(np.int64)).view(np.uint64)
        else:
            wide = join(low, upper) >> by
        return (wide >> np.uint64(32) if high else wide).astype(np.uint32)

    return computed(texts, destination, compute)


def extremum(instruction: Instruction) -> Step:
    """IMNMX and VIMNMX: the smaller source where the predicate holds, else the larger one.

    VIADDMNMX: the same of a sum of two sources, and a third.
    """
    words, unsigned = instruction.operands, "U32" in instruction.modifiers
    texts = [word for word in words[1:] if not is_predicate(word)]
    choices = [predicate_reader(word) for word in words[1:] if is_predicate(word)]
    destination, smallest = register_name(words[0]), choices[-1]
    *summands, last = sources_of(texts)

    def run(registers: Registers, active: Mask | None) -> None:
        terms = [summand(registers, active) for summand in summands]
        b, flag = last(registers, active), smallest(registers, active)
        known = [term for term in terms if term is not None]
        if len(known) < len(terms) or b is None or flag is None:
            return registers.write(destination, None, active)
        a = np.add.reduce(known, dtype=np.uint32)
        x, y = (a, b) if unsigned else (a.view(np.int32), b.view(np.int32))
        registers.write(
            destination, np.where(flag, np.minimum(x, y), np.maximum(x, y)).view(np.uint32), active
        )

    return run


def absolute(instruction: Instruction) -> Step:
    return computed(
        list(instruction.operands[1:]),
        register_name(instruction.operands[0]),
        lambda a: np.abs(a.view(np.int32)).view(np.uint32),
    )


def to_float(instruction: Instruction) -> Step:
    """I2F rounds up here (.RP), as divisions by a run-time integer want it; exact for small integers."""
    signed = not any(modifier.startswith("U") for modifier in instruction.modifiers)

    def compute(a: Value) -> Value:
        exact = (a.view(np.int32) if signed else a).astype(np.float64)
        value = exact.astype(np.float32)
        if "RP" in instruction.modifiers:
            value = np.where(value < exact, np.nextafter(value, np.float32(np.inf)), value)
        return value.view(np.uint32)

    return computed(list(instruction.operands[1:]), register_name(instruction.operands[0]), compute)


def to_integer(instruction: Instruction) -> Step:
    def compute(a: Value) -> Value:
        value = np.trunc(np.nan_to_num(a.view(np.float32).astype(np.float64)))
        low, high = (0, (1 << 32) - 1) if "U32" in instruction.modifiers else (-(1 << 31), (1 << 31) - 1)
        clipped: Value = np.clip(value, low, high).astype(np.int64).astype(np.uint32)
        return clipped

    return computed(list(instruction.operands[1:]), register_name(instruction.operands[0]), compute)


def reciprocal(instruction: Instruction) -> Step:
    """MUFU.RCP; the integer division built on it corrects its last bit."""
    if instruction.modifiers != ("RCP",):
        return unknown(instruction, 1)

    def compute(a: Value) -> Value:
        with np.errstate(divide="ignore", over="ignore"):
            return (1.0 / a.view(np.float32).astype(np.float64)).astype(np.float32).view(np.uint32)

    return computed(list(instruction.operands[1:]), register_name(instruction.operands[0]), compute)
