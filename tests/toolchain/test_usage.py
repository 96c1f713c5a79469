"""The report of ptxas, as three releases write it."""

from __future__ import annotations

import pytest

from gemmdsl.toolchain import Usage, parse_usage

CUDA_12_0 = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'calling' for 'sm_80'
ptxas info    : Function properties for calling
    256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, 1024 bytes smem, 364 bytes cmem[0]
ptxas info    : Function properties for _Z4deepPfi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'spilling' for 'sm_80'
ptxas info    : Function properties for spilling
    528 bytes stack frame, 772 bytes spill stores, 816 bytes spill loads
ptxas info    : Used 32 registers, 372 bytes cmem[0]
"""

CUDA_13_0 = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'calling' for 'sm_80'
ptxas info    : Function properties for calling
    256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 256 bytes cumulative stack size, 1024 bytes smem, 364 bytes cmem[0]
ptxas info    : Compile time = 31.316 ms
ptxas info    : Function properties for _Z4deepPfi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'spilling' for 'sm_80'
ptxas info    : Function properties for spilling
    528 bytes stack frame, 772 bytes spill stores, 816 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 528 bytes cumulative stack size, 372 bytes cmem[0]
ptxas info    : Compile time = 18.539 ms
"""  # noqa: E501

CUDA_13_5 = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 1 barriers, 256 bytes smem
ptxas info    : Compile time = 2.477 ms
"""


@pytest.mark.parametrize(("report", "barriers"), [(CUDA_12_0, (None, None)), (CUDA_13_0, (1, 0))])
def test_entries_with_stack_and_spills(report: str, barriers: tuple[int | None, int | None]) -> None:
    calling, spilling = parse_usage(report)
    assert calling == Usage(
        entry="calling",
        target="sm_80",
        registers=40,
        stack=256,
        spill_stores=0,
        spill_loads=0,
        shared=1024,
        barriers=barriers[0],
        constant=364,
    )
    assert spilling == Usage(
        entry="spilling",
        target="sm_80",
        registers=32,
        stack=528,
        spill_stores=772,
        spill_loads=816,
        shared=0,
        barriers=barriers[1],
        constant=372,
    )
    assert not calling.spills
    assert spilling.spills


def test_a_report_without_constant_memory() -> None:
    (usage,) = parse_usage(CUDA_13_5)
    assert (usage.entry, usage.registers, usage.shared, usage.constant) == ("k", 12, 256, 0)


def test_a_called_function_that_spills_is_not_its_caller() -> None:
    report = CUDA_13_5.replace(
        "ptxas info    : Used",
        "ptxas info    : Function properties for helper\n"
        "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
        "ptxas info    : Used",
    )
    (usage,) = parse_usage(report)
    assert (usage.stack, usage.spills) == (0, False)


@pytest.mark.parametrize("text", ["", "kernel.cu\nnothing here\n"])
def test_no_entries(text: str) -> None:
    assert parse_usage(text) == ()
