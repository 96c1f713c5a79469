"""Kernel -> what the templates print: every decision is made here or before, none in a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gemmdsl import __version__
from gemmdsl.cuda_source import (
    Aligned,
    Condition,
    EntryPoint,
    LaunchPlan,
    Multiple,
    Parameter,
    Status,
)
from gemmdsl.emit.operands import (
    direct_view,
    fma_view,
    output_view,
    stage_view,
    varies_in_alignment,
    varies_in_full,
)
from gemmdsl.emit.printing import Printer, constant_groups
from gemmdsl.emit.statements import program_view
from gemmdsl.index import Int, Named, bindings
from gemmdsl.ir import AsyncCopyTile, Kernel, MultiplyTile, Path, walk
from gemmdsl.spec import Operand, OperandName, Order, Problem
from gemmdsl.target import MAX_THREADS_PER_BLOCK, STATIC_SHARED_LIMIT

View = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OperandView:
    """A matrix as the launcher sees it: `lines` rows (or columns) of `length` floats, `ld` apart."""

    name: OperandName
    lower: str
    ld: str
    lines: str
    length: str
    shape: str


@dataclass(frozen=True, slots=True)
class EntryView:
    """One `__global__` function; `condition` is empty for the last one."""

    name: str
    path: str
    comment: str
    flags: str
    condition: str


@dataclass(frozen=True, slots=True)
class Check:
    """A static_assert, or a named boolean of the launcher."""

    condition: str
    message: str = ""
    name: str = ""
    value: str = ""


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


def formula(problem: Problem) -> str:
    """The problem's right-hand side as the user wrote it."""
    product = f"{'alpha * ' if problem.alpha else ''}A @ B"
    return f"C = {product}{' + beta * C' if problem.beta else ''}"


def launch_plan(kernel: Kernel) -> LaunchPlan:
    """How the kernel is launched; the C launcher and the runtimes follow it."""
    spec = kernel.spec
    dynamic = kernel.shared_bytes > STATIC_SHARED_LIMIT
    return LaunchPlan(
        launcher=spec.symbol,
        parameters=parameters(spec.problem),
        entries=tuple(
            EntryPoint(f"{spec.symbol}_{path.name}", path.name, path.requires) for path in kernel.paths
        ),
        preconditions=kernel.preconditions,
        block_m=kernel.block_m.value,
        block_n=kernel.block_n.value,
        threads=kernel.threads.threads.value,
        static_shared_bytes=0 if dynamic else kernel.shared_bytes,
        dynamic_shared_bytes=kernel.shared_bytes if dynamic else 0,
    )


def view(kernel: Kernel, proofs: tuple[str, ...]) -> View:
    """Everything that templates/kernel.cu.j2 and the header print; keys are documented by their use there."""
    text = Printer()
    spec, problem, threads = kernel.spec, kernel.spec.problem, kernel.threads
    plan = launch_plan(kernel)
    flags = tuple(
        name
        for name, varies in (("FULL", varies_in_full(kernel)), ("ALIGNED", varies_in_alignment(kernel)))
        if varies
    )
    for size in (kernel.block_m, kernel.block_n, threads.rows.count, threads.cols.count, threads.threads):
        text(size)
    stages = (
        tuple(
            stage_view(kernel, staging, axis, text)
            for staging, axis in zip(kernel.staging, (threads.rows, threads.cols), strict=True)
        )
        if kernel.staging
        else ()
    )
    direct = (
        ()
        if stages
        else tuple(
            direct_view(kernel, operand, axis, text)
            for operand, axis in ((problem.a, threads.rows), (problem.b, threads.cols))
        )
    )
    named = {
        bound.name: text(bound.value)
        for axis in (threads.rows, threads.cols)
        for bound in bindings(axis.first)
    }
    min_blocks = Named("MIN_BLOCKS", Int(kernel.min_blocks), "blocks that an SM must be able to hold")
    bounds = text(threads.threads) + (f", {text(min_blocks)}" if kernel.min_blocks else "")
    output, fma = output_view(kernel, text), fma_view(kernel, text)
    if kernel.fragments is not None:
        text(kernel.fragments)
    body = program_view(kernel.body, kernel.block_k, text)
    names = [parameter.name for parameter in plan.parameters]
    declared = [
        f"{p.ctype}{' __restrict__' if p.ctype.endswith('*') else ''} {p.name}" for p in plan.parameters
    ]
    buffers = kernel.staging[0].tile.stages if kernel.staging else None
    stage_name = "stages" if buffers else "stage"
    has_async = any(isinstance(statement, AsyncCopyTile) for statement in walk(kernel.body))
    store = _store_parameters(problem)
    return {
        "version": __version__,
        "symbol": spec.symbol,
        "problem": problem,
        "formula": formula(problem),
        "banner": _banner(kernel, plan, proofs),
        "constants": constant_groups(text.used),
        "checks": _checks(kernel),
        "size_checks": (
            Check(
                f"sizeof(Stage) == {kernel.shared_bytes // (buffers.value if buffers else 1)}",
                "the shared memory that was planned",
            ),
        ),
        "staged": bool(stages),
        "stages": stages,
        "direct": direct,
        "buffers": text(buffers) if buffers else "",
        "c": output,
        "fma": fma,
        "read_order": tuple(stage for name in kernel.read_order for stage in stages if stage.name == name),
        "fragments": text(kernel.fragments) if kernel.fragments else "",
        "body": body,
        "bindings": [{"name": name, "value": value} for name, value in named.items()],
        "flags": flags,
        "flags_comment": _flags_comment(flags),
        "template_line": f"template <{', '.join(f'bool {flag}' for flag in flags)}>" if flags else "",
        "flag_arguments": f"<{', '.join(flags)}>" if flags else "",
        "has_async": has_async,
        "multiplies_tiles": any(isinstance(s, MultiplyTile) for s in walk(kernel.body)),
        "has_global_loads": problem.beta or any(stage.uses_load for stage in stages),
        "has_moves": True,
        "shared_size": f"{text(buffers)} * sizeof(Stage)" if buffers else "sizeof(Stage)",
        "dynamic_shared": bool(plan.dynamic_shared_bytes),
        "block_origin": {
            "A": _origin(problem.a, "block_row"),
            "B": _origin(problem.b, "block_col"),
            "C": _output_origin(problem.c),
        },
        "block_parameters": ", ".join([*_stage_parameter(bool(stages), buffers), *declared]),
        "block_arguments": ", ".join([*([stage_name] if stages else []), *names]),
        "kernel_parameters": ", ".join(declared),
        "kernel_arguments": ", ".join(names),
        "launcher_parameters": ", ".join(
            [*(f"{p.ctype} {p.name}" for p in plan.parameters), "cudaStream_t stream"]
        ),
        "store_parameters": ", ".join(declaration for declaration, _ in store),
        "store_arguments": ", ".join(argument for _, argument in store),
        "launch_bounds": bounds,
        "entries": tuple(_entry(kernel, path, flags, plan) for path in kernel.paths),
        "operands": tuple(_operand(operand) for operand in (problem.a, problem.b, problem.c)),
        "c_lines": problem.c.strided,
        "c_length": problem.c.contiguous,
        "preconditions": " && ".join(_condition(kernel, c) for c in kernel.preconditions),
        "alignment_checks": _launcher_checks(kernel),
        "uses_aligned": any(isinstance(c, Aligned) for path in kernel.paths for c in path.requires),
        "statuses": tuple(Status),
        "plan": plan,
        "target": spec.target.name,
        "include_guard": f"{spec.symbol.upper()}_H",
        "requires": describe(kernel.preconditions),
        "row_major": {
            operand.name: str(operand.order is Order.ROW).lower()
            for operand in (problem.a, problem.b, problem.c)
        },
        **_main_view(problem),
    }


def _main_view(problem: Problem) -> View:
    """How the stand-alone program calls the launcher: the scalars that the problem has."""
    scalars = [name for name, present in (("alpha", problem.alpha), ("beta", problem.beta)) if present]
    checked, timed = {"alpha": "2.0f", "beta": "-1.0f"}, {"alpha": "1.0f", "beta": "0.0f"}
    matrices = {
        "A": "A.device",
        "B": "B.device",
        "C": "C.device",
        "lda": "A.ld",
        "ldb": "B.ld",
        "ldc": "C.ld",
    }
    return {
        "main_scalars": "".join(f", float {name}" for name in scalars),
        "main_check_scalars": "".join(f", {checked[name]}" for name in scalars),
        "main_time_scalars": "".join(f", {timed[name]}" for name in scalars),
        "main_arguments": ", ".join(matrices.get(p.name, p.name) for p in parameters(problem)),
    }


def describe(conditions: tuple[Condition, ...]) -> str:
    """Conditions in words, operands of the same alignment together."""
    words = [str(condition) for condition in conditions if isinstance(condition, Multiple)]
    widths: dict[int, list[str]] = {}
    for condition in conditions:
        if isinstance(condition, Aligned):
            widths.setdefault(condition.elements, []).append(condition.operand)
    words += [f"{', '.join(names)} aligned for {width}-float vectors" for width, names in widths.items()]
    return ", ".join(words)


def _stage_parameter(staged: bool, buffers: Named | None) -> tuple[str, ...]:
    """The shared tiles as a parameter of the block's function: one stage, or an array of them."""
    if not staged:
        return ()
    return ("Stage* stages",) if buffers else ("Stage& stage",)


def _store_parameters(problem: Problem) -> list[tuple[str, str]]:
    """Parameters of store_c, each with the argument that the kernel passes."""
    listed = [("float* C", "C"), ("int ldc", "ldc"), ("int m_left", "m_left"), ("int n_left", "n_left")]
    if problem.alpha:
        listed.append(("float scale", "depth > 0 ? alpha : 0.0f"))
    if problem.beta:
        listed.append(("float beta", "beta"))
    listed.append(("const float (&acc)[THREAD_M][THREAD_N]", "acc"))
    return [*listed, ("int thread_row", "thread_row"), ("int thread_col", "thread_col")]


def _origin(operand: Operand, block: str) -> str:
    """Distance of an input's first row (A) or column (B) of this block from its origin."""
    return block if operand.strided == "K" else f"offset({block}, {operand.ld})"


def _output_origin(c: Operand) -> str:
    if c.order is Order.ROW:
        return "offset(block_row, ldc) + block_col"
    return "offset(block_col, ldc) + block_row"


def _operand(operand: Operand) -> OperandView:
    return OperandView(
        operand.name,
        operand.name.lower(),
        operand.ld,
        operand.strided,
        operand.contiguous,
        _shape(operand),
    )


def _shape(operand: Operand) -> str:
    order = "row" if operand.order is Order.ROW else "column"
    return f"{operand.name}[{operand.rows}, {operand.cols}] {order}-major"


def _flags_comment(flags: tuple[str, ...]) -> str:
    meanings = {
        "FULL": "FULL: M, N and K are whole tiles, no guards",
        "ALIGNED": "ALIGNED: vectors are allowed in global memory",
    }
    return "; ".join(meanings[flag] for flag in flags) + "."


def _checks(kernel: Kernel) -> tuple[Check, ...]:
    checks = [
        Check(f"THREADS <= {MAX_THREADS_PER_BLOCK}", "CUDA's limit"),
        Check("BLOCK_M * BLOCK_N == THREADS * THREAD_M * THREAD_N", "one owner for each output"),
    ]
    has_async = any(isinstance(statement, AsyncCopyTile) for statement in walk(kernel.body))
    for staging in kernel.staging or ():
        tile, copy = staging.tile, staging.copy
        name = tile.operand.name
        checks.append(
            Check(
                f"{tile.rows.name} * {tile.cols.name} % {copy.width.name} == 0",
                f"loads cover the tile of {name}",
            )
        )
        # Asynchronous copies store as wide as they load, and name the one width only.
        store = copy.width if has_async else staging.store
        widest = store if store.value > staging.read.value else staging.read
        if widest.value > 1:
            checks.append(
                Check(f"{tile.row_length.name} % {widest.name} == 0", f"rows of {name} keep vectors aligned")
            )
    return tuple(checks)


def _condition(kernel: Kernel, condition: Condition) -> str:
    match condition:
        case Multiple(axis=axis, of=of):
            blocks = {"M": kernel.block_m, "N": kernel.block_n, "K": kernel.block_k}
            block = blocks[axis]
            return f"{axis} % {block.name if block is not None and block.value == of else of} == 0"
        case Aligned(operand=operand):
            width = kernel.c_vector if operand == "C" else kernel.stage(operand).copy.width
            return f"aligned({operand}, ld{operand.lower()}, {width.name})"


def _launcher_checks(kernel: Kernel) -> tuple[Check, ...]:
    """The named booleans from which the launcher picks an entry."""
    first = kernel.paths[0]
    last = kernel.paths[-1].requires
    full = [c for c in first.requires if isinstance(c, Multiple) and c not in last]
    vectors = [c for c in first.requires if isinstance(c, Aligned) and c not in last]
    return tuple(
        Check("", name=name, value=" && ".join(_condition(kernel, c) for c in conditions))
        for name, conditions in (("full_tiles", full), ("vectors", vectors))
        if conditions
    )


def _entry(kernel: Kernel, path: Path, flags: tuple[str, ...], plan: LaunchPlan) -> EntryView:
    last = kernel.paths[-1]
    values = {"FULL": path.full != last.full, "ALIGNED": path.aligned != last.aligned}
    extra = [c for c in path.requires if c not in last.requires]
    condition = " && ".join(
        name
        for name, kind in (("full_tiles", Multiple), ("vectors", Aligned))
        if any(isinstance(c, kind) for c in extra)
    )
    requires = describe(path.requires)
    return EntryView(
        name=f"{plan.launcher}_{path.name}",
        path=path.name,
        comment=f"Right when {requires}."
        if requires
        else "Right for every size, leading dimension and alignment.",
        flags=f"<{', '.join(str(values[flag]).lower() for flag in flags)}>" if flags else "",
        condition=condition,
    )


def _banner(kernel: Kernel, plan: LaunchPlan, proofs: tuple[str, ...]) -> tuple[str, ...]:
    """The rows of the header comment."""
    spec, problem = kernel.spec, kernel.spec.problem

    kind = "dynamic" if plan.dynamic_shared_bytes else "static"
    rows: list[tuple[str, str]] = [
        ("source", f"{spec.file}, schedule {spec.schedule.name} (gemm {spec.language})"),
        ("target", f"{spec.target.name}"),
        ("operands", ", ".join(_shape(operand) for operand in (problem.a, problem.b, problem.c))),
        ("passes", ", ".join(kernel.applied) or "none: the naive kernel"),
        *(("fallback", sentence) for sentence in spec.fallbacks),
        ("launch", f"ceil(M / {plan.block_m}) * ceil(N / {plan.block_n}) blocks of {plan.threads} threads"),
        ("shared", f"{kernel.shared_bytes} bytes, {kind}" if kernel.shared_bytes else "none"),
    ]
    for path in kernel.paths:
        rows.append((path.name, describe(path.requires) or "always right"))
    rows += [("proved", proof) for proof in proofs]
    lines, previous = [], ""
    for label, value in rows:
        lines.append(f"{label if label != previous else '':<10}{value}")
        previous = label
    return tuple(lines)
