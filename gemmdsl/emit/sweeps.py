"""Where blocks share K: the kernels that go through C before or after the main one, and their memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from gemmdsl.cuda_source import Parameter, Parts, Workspace
from gemmdsl.cuda_source import Sweep as PlannedSweep
from gemmdsl.emit.printing import Printer, address, wide
from gemmdsl.extents import AT, LINE, sweep_map
from gemmdsl.ir import AddOutput, Kernel, ReduceParts, ScaleOutput, Sweep, walk


def shared_parts(kernel: Kernel) -> Parts | None:
    """How blocks share K; None where each has all of it."""
    if kernel.split is None or kernel.block_k is None:
        return None
    atomic = any(isinstance(statement, AddOutput) for statement in walk(kernel.body))
    return Parts(kernel.split.parts.value, kernel.block_k.value, atomic)


def workspace(kernel: Kernel) -> Workspace | None:
    """Memory for the parts that blocks store beside C; None where they store none."""
    if kernel.workspace is None:
        return None
    return Workspace(Parameter("parts", "float*"), kernel.workspace.size)


def planned(kernel: Kernel, sweep: Sweep, listed: tuple[Parameter, ...]) -> PlannedSweep:
    """How a kernel that goes through C is launched; of the launcher's parameters it takes what it needs."""
    match sweep:
        case ScaleOutput():
            name, needed = "scale", {"M", "N", "beta", "C", "ldc"}
        case ReduceParts():
            name, needed = "reduce", {"M", "N", "K", "alpha", "beta", "C", "ldc"}
        case _:
            assert_never(sweep)
    taken = [parameter for parameter in listed if parameter.name in needed]
    if (memory := workspace(kernel)) is not None:
        taken.append(replace(memory.parameter, ctype="const float*"))
    c = kernel.spec.problem.c
    sweeping = sweep_map(c)
    return PlannedSweep(
        name=f"{kernel.spec.symbol}_{name}",
        parameters=tuple(taken),
        contiguous=c.contiguous,
        length=sweeping.length.value,
        lines=sweeping.lines.value,
        blocks=sweeping.grid,
    )


def sweep_grid(kernel: Kernel, text: Printer) -> tuple[str, str]:
    """C text of the blocks along a line and from line to line; empty where nothing goes through C."""
    if not (kernel.before or kernel.after):
        return "", ""
    along, from_line_to_line = sweep_map(kernel.spec.problem.c).grid
    # Constants are printed in the order of their first use: threads before how they lie.
    down = text(from_line_to_line)
    return text(along), down


def sweep_threads(kernel: Kernel, text: Printer) -> str:
    """C text of the threads of a block that goes through C."""
    return text(sweep_map(kernel.spec.problem.c).threads)


@dataclass(frozen=True, slots=True)
class SweepView:
    """A kernel that goes through C; `kind` names its macro in templates/store/sweeps.j2."""

    kind: str
    name: str
    parameters: str
    arguments: str
    address: str
    at: str
    first: str
    step: str
    lines: str
    length: str


def sweep_views(
    kernel: Kernel, sweeps: tuple[Sweep, ...], plans: tuple[PlannedSweep, ...], text: Printer
) -> tuple[SweepView, ...]:
    """The views of kernels that go through C."""
    c = kernel.spec.problem.c
    sweeping = sweep_map(c)
    return tuple(
        SweepView(
            kind=type(sweep).__name__,
            name=plan.name,
            parameters=restricted(plan.parameters),
            arguments=named(plan.parameters),
            address=address(c, LINE, AT, text),
            at=wide(sweeping.at, text),
            first=wide(sweeping.first, text),
            step=wide(sweeping.step, text),
            lines=c.strided,
            length=c.contiguous,
        )
        for sweep, plan in zip(sweeps, plans, strict=True)
    )


def restricted(listed: tuple[Parameter, ...]) -> str:
    """Parameters of a kernel: no two pointers lead to the same memory."""
    return ", ".join(f"{p.ctype}{' __restrict__' if p.ctype.endswith('*') else ''} {p.name}" for p in listed)


def named(listed: tuple[Parameter, ...]) -> str:
    """The same parameters as arguments of a call."""
    return ", ".join(p.name for p in listed)
