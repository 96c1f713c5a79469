"""Machine code: how it is read, and what its instructions mean, against plain integer arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmdsl.analysis.sass import CannotEvaluate, Function, Instruction, read_listing, run_block
from gemmdsl.analysis.sass.registers import Registers
from gemmdsl.analysis.sass.steps import step

WORD = (1 << 32) - 1
words = st.one_of(st.integers(0, WORD), st.sampled_from([0, 1, WORD, 1 << 31, (1 << 31) - 1]))


def instruction(text: str, target: int | None = None) -> Instruction:
    """`@!P0 IADD3 R0, R1, R2, RZ` without line numbers."""
    predicate, negated = None, False
    if text.startswith("@"):
        guard, _, text = text.partition(" ")
        negated = guard.startswith("@!")
        predicate = guard.lstrip("@!")
    opcode, _, operands = text.partition(" ")
    parts = tuple(part.strip() for part in operands.split(",")) if operands else ()
    return Instruction(0, opcode, parts, predicate, negated, target, ())


def execute(text: str, **values: int) -> Registers:
    """One instruction on 32 equal threads."""
    registers = Registers(32, {}, 0)
    for name, value in values.items():
        if name.startswith("P"):
            registers.set_predicate(name, np.full(32, bool(value)), None)
        else:
            registers.write(name, np.full(32, value, dtype=np.uint32), None)
    action = step(instruction(text))
    assert action is not None
    action(registers, None)
    return registers


def value(registers: Registers, name: str) -> int:
    found = registers.read(name, None)
    assert found is not None
    return int(found[0])


def flag(registers: Registers, name: str) -> bool:
    found = registers.predicate(name, None)
    assert found is not None
    return bool(found[0])


def signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


@given(words, words, words)
def test_sums_carry_into_the_next_word(a: int, b: int, c: int) -> None:
    low = execute("IADD3 R4, P0, R1, R2, RZ", R1=a, R2=b)
    assert value(low, "R4") == (a + b) & WORD
    assert flag(low, "P0") == (a + b > WORD)
    less = execute("IADD3 R4, P0, R1, -R2, RZ", R1=a, R2=b)
    assert value(less, "R4") == (a - b) & WORD
    # The carry of a difference says that nothing was borrowed.
    assert flag(less, "P0") == (a >= b)
    high = execute("IADD3.X R4, R1, R2, R3, P0, !PT", R1=a, R2=b, R3=c, P0=1)
    assert value(high, "R4") == (a + b + c + 1) & WORD


@given(words, words, words, words)
def test_products(a: int, b: int, c: int, d: int) -> None:
    assert value(execute("IMAD R4, R1, R2, R3", R1=a, R2=b, R3=c), "R4") == (a * b + c) & WORD
    summand = d << 32 | c
    wide = execute("IMAD.WIDE R4, R1, R2, R6", R1=a, R2=b, R6=c, R7=d)
    expected = (signed(a) * signed(b) + summand) & ((1 << 64) - 1)
    assert value(wide, "R5") << 32 | value(wide, "R4") == expected
    high = execute("IMAD.HI.U32 R4, R1, R2, R6", R1=a, R2=b, R6=c, R7=d)
    assert value(high, "R4") == ((a * b + summand) >> 32) & WORD


@given(words, words, st.integers(0, 31))
def test_shifts(a: int, b: int, by: int) -> None:
    assert value(execute(f"SHF.L.U32 R4, R1, {by:#x}, RZ", R1=a), "R4") == (a << by) & WORD
    assert value(execute(f"SHF.R.U32.HI R4, RZ, {by:#x}, R1", R1=a), "R4") == a >> by
    assert value(execute(f"SHF.R.S32.HI R4, RZ, {by:#x}, R1", R1=a), "R4") == (signed(a) >> by) & WORD
    wide = execute(f"SHF.L.U64.HI R4, R1, {by:#x}, R2", R1=a, R2=b)
    assert value(wide, "R4") == ((b << 32 | a) << by >> 32) & WORD


@given(words, words, words, st.integers(1, 31))
def test_scaled_sums(a: int, b: int, c: int, by: int) -> None:
    low = execute(f"LEA R4, P0, R1, R2, {by:#x}", R1=a, R2=b)
    assert value(low, "R4") == ((a << by) + b) & WORD
    assert flag(low, "P0") == (((a << by) & WORD) + b > WORD)
    high = execute(f"LEA.HI R4, R1, R2, R3, {by:#x}", R1=a, R2=b, R3=c)
    assert value(high, "R4") == (((c << 32 | a) << by >> 32) + b) & WORD
    extended = execute(f"LEA.HI.SX32 R4, R1, R2, {by:#x}", R1=a, R2=b)
    assert value(extended, "R4") == ((signed(a) << by >> 32) + b) & WORD


@given(words, words, words)
def test_extrema(a: int, b: int, c: int) -> None:
    values = {"R1": a, "R2": b, "R3": c}
    smallest, largest = (f"VIMNMX R4, R1, R2, {choice}" for choice in ("PT", "!PT"))
    assert signed(value(execute(smallest, **values), "R4")) == min(signed(a), signed(b))
    assert signed(value(execute(largest, **values), "R4")) == max(signed(a), signed(b))
    assert value(execute("VIMNMX.U32 R4, R1, R2, PT", **values), "R4") == min(a, b)
    found = execute("VIADDMNMX R4, R1, -R2.reuse, R3, PT", **values)
    assert signed(value(found, "R4")) == min(signed(a - b & WORD), signed(c))
    assert value(execute("VIADDMNMX.U32 R4, R1, R2, R3, !PT", **values), "R4") == max(a + b & WORD, c)


@given(words, words, words, st.integers(0, 255))
def test_truth_tables(a: int, b: int, c: int, table: int) -> None:
    expected = 0
    for bit in range(32):
        row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)
        expected |= (table >> row & 1) << bit
    found = execute(f"LOP3.LUT P0, R4, R1, R2, R3, {table:#x}, !PT", R1=a, R2=b, R3=c)
    assert value(found, "R4") == expected
    assert flag(found, "P0") == (expected != 0)


@given(words, words, words, words, st.integers(0, 255))
def test_bits_that_no_table_needs_are_known(a: int, b: int, c: int, unknown: int, table: int) -> None:
    """Predicates are kept as bits of registers that held data: a bit of the result is known if both agree."""
    registers = Registers(32, {}, 0)
    results = []
    for first in (a & ~unknown, a | unknown):
        found = execute(f"LOP3.LUT P0, R4, R1, R2, R3, {table:#x}, !PT", R1=first, R2=b, R3=c)
        results.append(value(found, "R4"))
    for name, number in (("R2", b), ("R3", c)):
        registers.write(name, np.full(32, number, dtype=np.uint32), None)
    registers.write(
        "R1",
        np.full(32, a, dtype=np.uint32),
        None,
        np.full(32, unknown, dtype=np.uint32) if unknown else None,
    )
    action = step(instruction(f"LOP3.LUT P0, R4, R1, R2, R3, {table:#x}, !PT"))
    assert action is not None
    action(registers, None)
    made, open_ = (int(bits[0]) for bits in registers.bits("R4"))
    assert open_ == results[0] ^ results[1]
    assert made == results[0] & results[1]
    known = open_ == 0
    assert (registers.read("R4", None) is not None) == known
    sure = known or made != 0
    found_flag = registers.predicate("P0", None)
    assert (found_flag is not None) == sure
    if found_flag is not None:
        assert bool(found_flag[0]) == (made != 0)


def test_a_bit_in_a_register_of_data_is_known() -> None:
    registers = Registers(64, {}, 0)
    some = np.arange(64) % 3 == 0
    registers.write("R1", None, None)
    for text, active in (
        ("LOP3.LUT R1, R1, 0xfffffffb, RZ, 0xc0, !PT", None),
        ("LOP3.LUT R1, R1, 0x4, RZ, 0xfc, !PT", some),
        ("LOP3.LUT P2, RZ, R1, 0x4, RZ, 0xc0, !PT", None),
        ("LOP3.LUT P3, RZ, R1, 0x8, RZ, 0xc0, !PT", None),
    ):
        action = step(instruction(text))
        assert action is not None
        action(registers, active)
    found = registers.predicate("P2", None)
    assert found is not None
    assert np.array_equal(found, some)
    assert registers.predicate("P3", None) is None
    assert registers.read("R1", None) is None


@given(words, words, st.booleans())
def test_comparisons(a: int, b: int, other: bool) -> None:
    for name, expected in {
        "LT": signed(a) < signed(b),
        "GE": signed(a) >= signed(b),
        "NE": a != b,
    }.items():
        found = execute(f"ISETP.{name}.AND P1, P2, R1, R2, P0", R1=a, R2=b, P0=other)
        assert flag(found, "P1") == (expected and other)
        assert flag(found, "P2") == (not expected and other)
    assert flag(execute("ISETP.GT.U32.OR P1, PT, R1, R2, P0", R1=a, R2=b, P0=other), "P1") == (a > b or other)


@given(st.integers(0, (1 << 31) - 1), st.integers(1, 1 << 20))
def test_the_compiler_s_division(a: int, b: int) -> None:
    """The sequence that ptxas emits for a quotient of run-time integers."""
    registers = Registers(32, {}, 0)
    registers.write("R5", np.full(32, a, dtype=np.uint32), None)
    registers.write("R9", np.full(32, b, dtype=np.uint32), None)
    for text in (
        "I2F.RP R0, R9",
        "MUFU.RCP R0, R0",
        "IADD3 R2, R0, 0xffffffe, RZ",
        "F2I.FTZ.U32.TRUNC.NTZ R3, R2",
        "HFMA2.MMA R2, -RZ, RZ, 0, 0",
        "IADD3 R6, RZ, -R3, RZ",
        "IMAD R11, R6, R9, RZ",
        "IMAD.HI.U32 R3, R3, R11, R2",
        "IMAD.HI.U32 R0, R3, R5, RZ",
        "IADD3 R11, RZ, -R0, RZ",
        "IMAD R2, R9, R11, R5",
        "ISETP.GT.U32.AND P1, PT, R9, R2, PT",
    ):
        action = step(instruction(text))
        assert action is not None
        action(registers, None)
    quotient, rest = value(registers, "R0"), value(registers, "R2")
    for _ in range(2):
        if rest >= b:
            quotient, rest = quotient + 1, rest - b
    assert (quotient, rest) == divmod(a, b)


def test_constants_on_the_half_precision_pipe() -> None:
    found = execute("HFMA2.MMA R1, -RZ, RZ, 0, 3.147125244140625e-05")
    assert value(found, "R1") == 0x210
    assert execute("HFMA2 R1, R2, R3, R4").read("R1", None) is None


def test_what_is_loaded_is_not_known() -> None:
    load = instruction("LDS R1, [RZ]")
    for text, said in (("STS [R1], RZ", "depends on data"), ("@P0 STS [RZ], RZ", "depends on data")):
        code = (load, instruction("ISETP.NE.AND P0, PT, R1, RZ, PT"), instruction(text), instruction("EXIT"))
        with pytest.raises(CannotEvaluate, match=said):
            run_block(Function("f", code), {}, 0, 32)


def test_an_unknown_instruction_is_refused_where_it_runs() -> None:
    code = (instruction("BRA", target=2), instruction("TELEPORT R1"), instruction("EXIT"))
    assert run_block(Function("f", code), {}, 0, 32).issued.tolist() == [1, 0, 1]
    with pytest.raises(CannotEvaluate, match="TELEPORT"):
        run_block(Function("f", code[1:]), {}, 0, 32)


def test_threads_part_and_meet_again() -> None:
    code = (
        instruction("S2R R0, SR_TID.X"),
        instruction("ISETP.LT.AND P0, PT, R0, 0x8, PT"),
        instruction("@P0 BRA", target=4),
        instruction("STS [R0.X4], RZ"),
        instruction("BAR.SYNC 0x0"),
        instruction("STS.64 [R0.X8+0x400], R2"),
        instruction("EXIT"),
    )
    done = run_block(Function("f", code), {}, 0, 48)
    first, second = done.accesses[3, "shared"], done.accesses[5, "shared"]
    assert (first.requests, first.cost) == (2, 2)
    assert first.example.count(-1) == 8
    # Of the second warp only half of the lanes are there.
    assert (second.requests, second.cost, second.ideal) == (2, 3, 3)
    assert second.lowest == 0x400


def parting(*tail: str) -> Function:
    """Eight threads go one way, the others another; both come through `tail`."""
    ways = (
        instruction("S2R R0, SR_TID.X"),
        instruction("ISETP.LT.AND P0, PT, R0, 0x8, PT"),
        instruction("BSSY B0", target=7 + len(tail)),
        instruction("@P0 BRA", target=6),
        instruction("MOV R2, 0x1"),
        instruction("NOP"),
    )
    return Function("f", (*ways, *(instruction(text) for text in tail), instruction("EXIT")))


def test_groups_share_no_instruction_before_they_join() -> None:
    done = run_block(parting("STS [R0.X4], RZ", "BSYNC B0", "STS [R0.X4], RZ"), {}, 0, 64)
    # The second warp does not part.
    assert done.issued.tolist() == [2, 2, 2, 2, 2, 2, 3, 3, 2, 2]
    assert done.threads[:9].tolist() == [64, 64, 64, 64, 56, 56, 64, 64, 64]
    assert [done.accesses[index, "shared"].requests for index in (6, 8)] == [3, 2]


def test_who_left_or_ended_is_not_waited_for() -> None:
    for leaving in ("@P0 EXIT", "@P0 BREAK B0"):
        code = (*parting().code[:2], instruction("BSSY B0", target=6), instruction(leaving))
        ends = (instruction("@P0 BRA", target=6), instruction("BSYNC B0"), instruction("EXIT"))
        done = run_block(Function("f", (*code, *ends)), {}, 0, 32)
        assert done.issued[5] == 1
        assert done.threads[4] == (24 if "EXIT" in leaving else 32)


def test_a_barrier_may_be_put_aside() -> None:
    aside = ("BMOV.32.CLEAR R9, B0", "BSSY B0", "BSYNC B0", "BMOV.32 B0, R9", "BSYNC B0", "NOP")
    assert run_block(parting(*aside), {}, 0, 32).issued.tolist()[6:] == [2, 2, 2, 2, 2, 1, 1]


def test_threads_that_wait_for_ever_are_told() -> None:
    texts = ("@P0 BSYNC B0", "BAR.SYNC 0x0", "BSYNC B1", "EXIT")
    code = (instruction("BSSY B1"), *parting().code[:3], *(instruction(text) for text in texts))
    with pytest.raises(CannotEvaluate, match="never come"):
        run_block(Function("f", code), {}, 0, 32)


@pytest.mark.parametrize(
    ("opcode", "width", "sectors"),
    [("RED.E.ADD.F32.FTZ.RN", 4, 16), ("REDG.E.ADD.F32x4.FTZ.RN.STRONG.GPU", 16, 16)],
)
def test_additions_are_accesses_of_their_own(opcode: str, width: int, sectors: int) -> None:
    """Of the block's place along the second axis of the grid, a warp adds to words 16 bytes apart."""
    texts = ("S2R R0, SR_TID.X", "S2UR UR4, SR_CTAID.Y", f"{opcode} desc[UR8][R0.X16+UR4], R4", "EXIT")
    code = tuple(instruction(text) for text in texts)
    for block_y in (0, 1):
        done = run_block(Function("f", code), {}, 7, 32, 512 * block_y)
        access = done.accesses[2, "global"]
        assert (access.kind, access.width, access.requests, access.cost) == ("add", width, 1, sectors)
        assert access.lowest == 512 * block_y


def test_a_listing_keeps_lines_and_targets() -> None:
    listing = """
.text.kernel:
.L_x_0:
	//## File "kernel.cu", line 7 inlined at "kernel.cu", line 20
	//## File "kernel.cu", line 20
        /*0000*/              @!P0 IADD3 R1, R2, -R3.reuse, RZ ;
        /*0010*/                   LDS.U.128 R4, [R1.X16+UR4+0x10] ;
	//## File "kernel.cu", line 9
        /*0020*/               @P1 BRA `(.L_x_0) ;
"""
    add, load, branch = read_listing(listing)["kernel"].code
    assert (add.predicate, add.negated, add.lines) == ("P0", True, (7, 20))
    assert add.operands == ("R1", "R2", "-R3.reuse", "RZ")
    assert (load.mnemonic, load.width, load.lines) == ("LDS", 16, (7, 20))
    assert (branch.target, branch.lines, branch.operands) == (0, (9,), ())
