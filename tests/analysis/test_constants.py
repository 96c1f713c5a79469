"""Constant banks: how sections of a listing become words, and who reads them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemmdsl.analysis.compiled import compiled
from gemmdsl.analysis.sass import CannotEvaluate, Execution, read_listing, run_block
from gemmdsl.analysis.sass.constants import banks_of, read_sections
from tests import examples
from tests.analysis.models import as_compiled, as_written, binary, counts, kernel, needs_toolkit, shape_of

SIZES = (2048, 2048, 2048)

# As nvdisasm prints them; the second word of bank 3 is padding after three bytes, bank 4 has an address.
SECTIONS = """
	.section	.nv.constant4,"a",@progbits
	.align	8
	.align		8
.nv.constant4:
        /*0000*/ 	.dword	table
	.align		8
        /*0008*/ 	.dword	fun@R_CUDA_G64((table + 0x8))
	.zero		4
        /*0014*/ 	.word	0x00000011, 18


//--------------------- .nv.constant3             --------------------------
	.section	.nv.constant3,"a",@progbits
.nv.constant3:
	.type		letters,@object
	.size		letters,(.L_2 - letters)
letters:
        /*0000*/ 	.byte	0x01, 0x02, 0x03
.L_2:
	.zero		5
        /*0008*/ 	.short	0x0201, 0x0403
        /*000c*/ 	.byte	0x01, 0x02
	.section	.nv.constant2.one,"a",@progbits
	.sectionflags	@""
	.align	4
.nv.constant2.one:
        /*0000*/ 	.byte	0x04, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x00
	.section	.nv.constant0.one,"a",@progbits
.nv.constant0.one:
	.zero		412
	.section	.nv.info.one,"",@"SHT_CUDA_INFO"
        /*0004*/ 	.word	0x0000001e
"""

LISTING = f"""{SECTIONS}
	.section	.text.one,"ax",@progbits
.text.one:
        /*0000*/                   LDC R0, c[0x2][0x0] ;
        /*0010*/                   STS [R0+UR0], RZ ;
        /*0020*/                   EXIT ;
	.section	.text.other,"ax",@progbits
.text.other:
        /*0000*/                   EXIT ;
	.section	.nv.shared.one,"aw",@nobits
"""

SHARED = {3: {0: 0x030201, 4: 0, 8: 0x04030201}, 4: {0x10: 0, 0x14: 17, 0x18: 18}}


def test_sections_are_read_as_words() -> None:
    sections = read_sections(SECTIONS)
    assert banks_of(sections, "one") == {**SHARED, 2: {0: 0x80000004, 4: 0}}
    assert banks_of(sections, "other") == SHARED


def test_an_entry_has_its_own_section_before_that_of_all() -> None:
    both = SECTIONS.replace(".nv.constant3", ".nv.constant2")
    assert banks_of(read_sections(both), "one")[2] == {0: 0x80000004, 4: 0}
    assert banks_of(read_sections(both), "other")[2] == SHARED[3]


def test_a_listing_gives_each_function_its_banks() -> None:
    functions = read_listing(LISTING)
    assert {name: set(function.banks) for name, function in functions.items()} == {
        "one": {2, 3, 4},
        "other": {3, 4},
    }
    assert [len(function.code) for function in functions.values()] == [3, 1]


def run(*operations: str) -> Execution:
    """Runs a warp of the function `one` with these instructions."""
    lines = [f"        /*{16 * at:04x}*/ {text} ;" for at, text in enumerate((*operations, "EXIT"))]
    text = "\n".join([SECTIONS, '	.section	.text.one,"ax",@progbits', ".text.one:", *lines])
    return run_block(read_listing(text)["one"], {0: 8}, 0, 32)


@pytest.mark.parametrize(
    ("operation", "address"),
    [
        ("MOV R0, c[0x3][0x8]", 0x04030201),
        ("IADD3 R0, -R0, -c[0x2][0x0], RZ", 0x7FFFFFFC),
        ("IADD3 R0, RZ, c[0x4][0x18], RZ", 18),
        ("IADD3 R0, RZ, c[0x0][0x0], RZ", 8),
        # Both halves of 64 bits.
        ("IMAD.WIDE R0, RZ, RZ, c[0x2][0x0]", 0x80000004),
    ],
)
def test_instructions_read_the_bank_that_they_name(operation: str, address: int) -> None:
    assert run(operation, "STS [R0], RZ").accesses[1, "shared"].lowest == address


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ("MOV R0, c[0x5][0x0]", r"c\[0x5\]\[0x0\] is not known from the cubin"),
        ("MOV R0, c[0x2][0x8]", r"c\[0x2\]\[0x8\] is not known from the cubin"),
        ("IMAD.WIDE R0, RZ, RZ, c[0x2][0x4]", r"c\[0x2\]\[0x8\] is not known from the cubin"),
        # An address, which the loader fills in; half a word; no multiple of four.
        ("MOV R0, c[0x4][0x8]", r"c\[0x4\]\[0x8\] is not known from the cubin"),
        ("MOV R0, c[0x3][0xc]", r"c\[0x3\]\[0xc\] is not known from the cubin"),
        ("MOV R0, c[0x3][0x1]", r"c\[0x3\]\[0x1\] is not known from the cubin"),
        ("MOV R0, c[0x0][0x4]", r"c\[0x0\]\[0x4\] is no argument of the kernel"),
        ("LDC R0, c[0x2][R1]", r"operand c\[0x2\]\[R1\]"),
        ("LDC.U8 R0, c[0x2][0x0]", r"instruction LDC\.U8"),
    ],
)
def test_what_is_in_no_section_is_refused(operation: str, said: str) -> None:
    with pytest.raises(CannotEvaluate, match=said):
        run(operation)


@pytest.mark.nvcc
@pytest.mark.slow
@needs_toolkit
def test_literals_of_older_targets_are_read_from_the_cubin() -> None:
    """On sm_75 ptxas adds a literal of 64 bits to an address of C."""
    file, schedule = "split.gemm", "long_k_75"
    assert examples.program(file).spec(schedule).target.name == "sm_75"
    found = as_compiled(file, schedule, SIZES)
    function = binary(file, schedule).functions[found.entry]
    assert any(text.startswith("c[0x2]") for one in function.code for text in one.operands)
    assert function.banks[2]
    assert counts(found.accesses) == counts(as_written(file, schedule, SIZES))


@pytest.mark.nvcc
@pytest.mark.slow
@needs_toolkit
def test_another_literal_is_another_address() -> None:
    """The words take part: with another one, words of C are added elsewhere."""
    found, source = kernel("split.gemm", "long_k_75")
    made = binary("split.gemm", "long_k_75")
    shape = shape_of(found, SIZES)
    entry = compiled(found, source, made, shape).entry
    function = made.functions[entry]

    def costs(moved: int) -> int:
        banks = {2: {**function.banks[2], 0: function.banks[2][0] + moved}}
        changed = replace(made, functions={entry: replace(function, banks=banks)})
        return sum(access.total.cost for access in compiled(found, source, changed, shape).accesses)

    # Lanes add to words 16 bytes apart, two to a sector; moved past a vector's end, rows begin amid one.
    assert costs(4) != costs(0)
