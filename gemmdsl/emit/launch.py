"""What launcher, header and stand-alone program print: parameters, entries, conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from gemmdsl.conditions import Aligned, Condition, Multiple, implied
from gemmdsl.cuda_source import EntryPoint, LaunchPlan, Parameter, Status
from gemmdsl.emit.operands import flags
from gemmdsl.emit.printing import Printer
from gemmdsl.emit.sizes import sizes_along
from gemmdsl.emit.sweeps import (
    SweepView,
    named,
    planned,
    restricted,
    shared_parts,
    sweep_grid,
    sweep_threads,
    sweep_views,
    workspace,
)
from gemmdsl.emit.workspace import WorkspaceView, workspace_view
from gemmdsl.extents import tiles
from gemmdsl.index import Int, Named, Var
from gemmdsl.index_text import to_c
from gemmdsl.ir import Kernel, Path, ReduceParts, ScaleOutput, Sweep
from gemmdsl.spec import Operand, OperandName, Order, Problem
from gemmdsl.target import STATIC_SHARED_LIMIT
from gemmdsl.version import __version__


def parameters(problem: Problem) -> tuple[Parameter, ...]:
    """The parameters of kernels and launcher, in order; a scalar that the problem lacks has none."""
    listed = [Parameter(name, "int") for name in ("M", "N", "K")]
    if problem.alpha:
        listed.append(Parameter("alpha", "float"))
    for operand in (problem.a, problem.b):
        listed += [Parameter(operand.name, "const float*"), Parameter(operand.ld, "int")]
    if problem.beta:
        listed.append(Parameter("beta", "float"))
    return (*listed, Parameter("C", "float*"), Parameter("ldc", "int"))


def launch_plan(kernel: Kernel) -> LaunchPlan:
    """How the kernel is launched; the C launcher and the runtimes follow it."""
    spec = kernel.spec
    dynamic = kernel.shared_bytes > STATIC_SHARED_LIMIT
    listed = parameters(spec.problem)
    return LaunchPlan(
        launcher=spec.symbol,
        parameters=listed,
        entries=tuple(
            EntryPoint(f"{spec.symbol}_{path.name}", path.name, path.requires) for path in kernel.paths
        ),
        preconditions=kernel.preconditions,
        block_m=kernel.block_m.value,
        block_n=kernel.block_n.value,
        threads=kernel.threads.threads.value,
        static_shared_bytes=0 if dynamic else kernel.shared_bytes,
        dynamic_shared_bytes=kernel.shared_bytes if dynamic else 0,
        parts=shared_parts(kernel),
        before=tuple(planned(kernel, sweep, listed) for sweep in kernel.before),
        after=tuple(planned(kernel, sweep, listed) for sweep in kernel.after),
        workspace=workspace(kernel),
    )


def formula(problem: Problem) -> str:
    """The problem's equation as the user wrote it."""
    product = f"{'alpha * ' if problem.alpha else ''}A @ B"
    return f"C = {product}{' + beta * C' if problem.beta else ''}"


def shape(operand: Operand) -> str:
    """An operand with its axes and its layout, in words."""
    order = "row" if operand.order is Order.ROW else "column"
    return f"{operand.name}[{operand.rows}, {operand.cols}] {order}-major"


def describe(conditions: tuple[Condition, ...]) -> str:
    """Conditions in words: what another one implies is left out, equal alignments stand together."""
    words = [
        str(condition)
        for condition in conditions
        if isinstance(condition, Multiple)
        and condition.of > 1
        and not implied(condition, (other for other in conditions if other != condition))
    ]
    widths: dict[int, list[str]] = {}
    for condition in conditions:
        if isinstance(condition, Aligned) and condition.elements > 1:
            widths.setdefault(condition.elements, []).append(condition.operand)
    for width, names in widths.items():
        leading = ", ".join(f"ld{name.lower()}" for name in names)
        words.append(f"{', '.join(names)} at multiples of {4 * width} bytes, {leading} multiples of {width}")
    return "; ".join(words)


def semantics(problem: Problem, plan: LaunchPlan) -> str:
    """What is never read, and what becomes of NaN and infinity, in sentences."""
    sentences = ["beta == 0 never reads C;"] if problem.beta else []
    unread = "alpha == 0 or K == 0 never reads" if problem.alpha else "K == 0 never reads"
    sentences += [f"{unread} A or B.", "NaN and infinity propagate."]
    if problem.alpha and plan.parts is not None and plan.parts.atomic:
        sentences.append("alpha multiplies each part of K: when it is infinite, a part of 0 gives NaN.")
    return " ".join(sentences)


@dataclass(frozen=True, slots=True)
class OperandView:
    """A matrix as the launcher sees it: `lines` rows (or columns) of `length` floats, `ld` apart."""

    name: OperandName
    ld: str
    lines: str
    length: str
    shape: str
    row_major: str


@dataclass(frozen=True, slots=True)
class EntryView:
    """One `__global__` function; `condition` is empty for the last one."""

    name: str
    comment: str
    bounds: str
    flags: str
    condition: str


@dataclass(frozen=True, slots=True)
class NamedCheck:
    """A boolean that the launcher computes once."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class HelperView:
    """The function that launches a kernel: its grid, its threads, its dynamic shared memory in bytes.

    `parameters` are for what differs among the kernels of a call; what does not stands in the function.
    `entry` and `sweep` are the arguments for an entry point and for a kernel that goes through C.
    """

    parameters: str
    grid: str
    threads: str
    shared: str
    entry: str
    sweep: str


@dataclass(frozen=True, slots=True)
class MainView:
    """How the stand-alone program calls the launcher: the scalars that the problem has, and their values."""

    scalars: str
    checked: str
    timed: str
    arguments: str
    alpha: str
    beta: str


@dataclass(frozen=True, slots=True)
class LaunchView:
    """Everything that templates/launcher.j2, header.h.j2 and main.cu.j2 print."""

    version: str
    symbol: str
    formula: str
    target: str
    include_guard: str
    alpha: bool
    operands: tuple[OperandView, ...]
    statuses: tuple[Status, ...]
    returned: tuple[Status, ...]
    entries: tuple[EntryView, ...]
    checks: tuple[NamedCheck, ...]
    uses_aligned: bool
    preconditions: str
    requires: str
    semantics: str
    parameters: str
    entry_parameters: str
    entry_arguments: str
    summary: str
    split: bool
    workspace: WorkspaceView | None
    parts: int
    sweep_grid: tuple[str, str]
    before: tuple[SweepView, ...]
    after: tuple[SweepView, ...]
    blocks_m: str
    blocks_n: str
    dynamic_shared: bool
    helper: HelperView
    main: MainView

    @property
    def inputs(self) -> tuple[OperandView, ...]:
        return self.operands[:2]

    @property
    def output(self) -> OperandView:
        return self.operands[2]


def launch_view(kernel: Kernel, plan: LaunchPlan, text: Printer) -> LaunchView:
    """The view of a kernel's host side; `text` collects the constants that it names."""
    spec, problem = kernel.spec, kernel.spec.problem
    declared = [f"{p.ctype} {p.name}" for p in plan.parameters]
    return LaunchView(
        version=__version__,
        symbol=spec.symbol,
        formula=formula(problem),
        target=spec.target.name,
        include_guard=f"{spec.symbol.upper()}_H",
        alpha=problem.alpha,
        operands=tuple(_operand(operand) for operand in (problem.a, problem.b, problem.c)),
        statuses=tuple(Status),
        returned=tuple(s for s in Status if s is not Status.NO_MEMORY or plan.workspace is not None),
        entries=tuple(_entry(kernel, path, plan, text) for path in kernel.paths),
        checks=_checks(kernel),
        uses_aligned=any(isinstance(c, Aligned) for path in kernel.paths for c in path.requires),
        preconditions=" && ".join(_condition(kernel, c) for c in kernel.preconditions),
        requires=describe(kernel.preconditions),
        semantics=semantics(problem, plan),
        parameters=", ".join([*declared, "cudaStream_t stream"]),
        entry_parameters=restricted(plan.entry_parameters),
        entry_arguments=named(plan.entry_parameters),
        summary=_summary(kernel),
        split=kernel.split is not None,
        workspace=workspace_view(kernel, text),
        parts=plan.parts.count if plan.parts else 1,
        sweep_grid=sweep_grid(kernel, text),
        before=sweep_views(kernel, kernel.before, plan.before, text),
        after=sweep_views(kernel, kernel.after, plan.after, text),
        blocks_m=text(tiles(Var("M"), kernel.block_m)),
        blocks_n=text(tiles(Var("N"), kernel.block_n)),
        dynamic_shared=bool(plan.dynamic_shared_bytes),
        helper=_helper(kernel, plan, text),
        main=_main(problem),
    )


def _step(sweep: Sweep) -> str:
    """What a kernel that goes through C does, as the launcher's comment says it."""
    match sweep:
        case ScaleOutput():
            return "multiplies C by beta"
        case ReduceParts():
            return "adds up the parts of K"
        case _:
            assert_never(sweep)


def _summary(kernel: Kernel) -> str:
    """What the launcher does, in a sentence."""
    steps = [
        *map(_step, kernel.before),
        "launches the first entry whose conditions hold",
        *map(_step, kernel.after),
    ]
    return f"Checks the arguments; on `stream`, {', then '.join(steps)}."


def _helper(kernel: Kernel, plan: LaunchPlan, text: Printer) -> HelperView:
    """The function that launches a kernel: a lone one always has the same threads and memory."""
    threads = text(kernel.threads.threads)
    shared = f"{text(kernel.buffers)} * sizeof(Stage)" if kernel.buffers else "sizeof(Stage)"
    if not (plan.before or plan.after):
        grid = "dim3(static_cast<unsigned>(blocks))"
        return HelperView("int64_t blocks", grid, threads, shared, entry="blocks", sweep="")
    parameters, entry = ["dim3 grid", "int threads"], ["grid", threads]
    sweep = ["sweep", sweep_threads(kernel, text)]
    if plan.dynamic_shared_bytes:
        parameters, entry, sweep = [*parameters, "int shared"], [*entry, shared], [*sweep, "0"]
    return HelperView(", ".join(parameters), "grid", "threads", "shared", ", ".join(entry), ", ".join(sweep))


def _operand(operand: Operand) -> OperandView:
    return OperandView(
        name=operand.name,
        ld=operand.ld,
        lines=operand.strided,
        length=operand.contiguous,
        shape=shape(operand),
        row_major=str(operand.order is Order.ROW).lower(),
    )


def _main(problem: Problem) -> MainView:
    scalars = [name for name, present in (("alpha", problem.alpha), ("beta", problem.beta)) if present]
    checked, timed = {"alpha": "2.0f", "beta": "-1.0f"}, {"alpha": "1.0f", "beta": "0.0f"}
    members = {name: f"{name}.device" for name in "ABC"} | {
        f"ld{name.lower()}": f"{name}.ld" for name in "ABC"
    }
    return MainView(
        scalars="".join(f", float {name}" for name in scalars),
        checked="".join(f", {checked[name]}" for name in scalars),
        timed="".join(f", {timed[name]}" for name in scalars),
        arguments=", ".join(members.get(p.name, p.name) for p in parameters(problem)),
        alpha="2.0" if problem.alpha else "1.0",
        beta="-1.0" if problem.beta else "0.0",
    )


def _condition(kernel: Kernel, condition: Condition) -> str:
    """C text of a condition of the launcher."""
    match condition:
        case Multiple(axis=axis, of=of):
            names = [size.name for size in sizes_along(kernel, axis) if size.value == of]
            return " && ".join(f"{axis} % {divisor} == 0" for divisor in names or [str(of)])
        case Aligned(operand=operand, elements=elements):
            width = f"{elements}"
            if operand == "C":
                width = kernel.c_vector.name
            elif kernel.staging is not None:
                # What is not staged is read word by word: no constant tells its width.
                width = to_c(kernel.stage(operand).copy.width)
            return f"aligned({operand}, ld{operand.lower()}, {width})"
        case _:
            assert_never(condition)


def _asked(kernel: Kernel) -> dict[str, tuple[Condition, ...]]:
    """The launcher's questions by name: what vectors need, as path `edge` asks, and the rest."""
    first, last = kernel.paths[0].requires, kernel.paths[-1].requires
    between = [path.requires for path in kernel.paths[1:-1]]
    for_vectors = between[0] if between else [c for c in first if isinstance(c, Aligned)]
    asked = {
        "full_tiles": tuple(c for c in first if c not in last and c not in for_vectors),
        "vectors": tuple(c for c in first if c not in last and c in for_vectors),
    }
    return {name: conditions for name, conditions in asked.items() if conditions}


def _checks(kernel: Kernel) -> tuple[NamedCheck, ...]:
    """The named booleans from which the launcher picks an entry."""
    return tuple(
        NamedCheck(name, " && ".join(_condition(kernel, c) for c in conditions))
        for name, conditions in _asked(kernel).items()
    )


def _entry(kernel: Kernel, path: Path, plan: LaunchPlan, text: Printer) -> EntryView:
    last = kernel.paths[-1]
    values = {"FULL": path.full != last.full, "ALIGNED": path.aligned != last.aligned}
    listed = ", ".join(str(values[flag]).lower() for flag in flags(kernel))
    requires = describe(path.requires)
    bounds = [text(kernel.threads.threads)]
    if kernel.min_blocks and path is kernel.paths[0]:
        # The other paths hold guards too: capped alike, they would spill.
        note = "blocks that an SM must be able to hold"
        bounds.append(text(Named("MIN_BLOCKS", Int(kernel.min_blocks), note)))
    always = "Right for every size, leading dimension and alignment."
    return EntryView(
        name=f"{plan.launcher}_{path.name}",
        comment=f"Requires {requires}." if requires else always,
        bounds=", ".join(bounds),
        flags=f"<{listed}>" if listed else "",
        condition=" && ".join(
            name for name, conditions in _asked(kernel).items() if set(conditions) <= set(path.requires)
        ),
    )
