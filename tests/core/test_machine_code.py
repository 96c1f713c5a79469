"""What nvcc makes of every example: no warnings, no spills, no stack, the shared memory that was planned."""

from __future__ import annotations

import pytest

from gemmdsl.diagnostics import GemmError
from gemmdsl.target import TARGETS
from gemmdsl.toolchain import compile_cubin
from tests import examples

# The ladder is compiled for these, its top for every target, all else for its own one and the one measured.
MAIN_TARGETS = ("sm_75", "sm_80", "sm_90", "sm_120")
MEASURED = "sm_90"


def _targets(file: str, schedule: str) -> tuple[str, ...]:
    if schedule in ("v3_2", "v5_async"):
        return tuple(TARGETS)
    own = examples.program(file).spec(schedule).target.name
    return MAIN_TARGETS if file == "ladder.gemm" else tuple(dict.fromkeys((own, MEASURED)))


def _cases() -> list[tuple[str, str, str]]:
    cases = []
    for file, schedule in examples.schedules():
        targets = _targets(file, schedule)
        for target in targets:
            try:
                examples.program(file).spec(schedule, target)
            except GemmError:
                continue  # a rule forbids it there, such as asynchronous copies before sm_80
            cases.append((file, schedule, target))
    return cases


@pytest.mark.nvcc
@pytest.mark.slow
@pytest.mark.parametrize(("file", "schedule", "target"), _cases())
def test_compiles_without_warnings_spills_or_stack(file: str, schedule: str, target: str) -> None:
    kernel = examples.kernel(file, schedule, target)
    cubin = compile_cubin(kernel.source, target)
    plan = kernel.launch_plan
    usage = {entry.entry: entry for entry in cubin.usage}
    assert set(usage) == {name for name, _ in plan.kernels}
    for used in usage.values():
        assert not used.spills
        assert used.stack == 0
    for entry in plan.entries:
        assert usage[entry.name].shared == plan.static_shared_bytes
        assert usage[entry.name].registers * plan.threads <= 65536
