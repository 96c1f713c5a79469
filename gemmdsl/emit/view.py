"""Kernel -> what templates/kernel.cu.j2 prints: every decision is made here or before, none in a template."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gemmdsl.cuda_source import LaunchPlan
from gemmdsl.emit.banner import banner
from gemmdsl.emit.launch import LaunchView, flags, launch_view
from gemmdsl.emit.operands import (
    Binding,
    DirectView,
    FmaView,
    OutputView,
    StageView,
    direct_view,
    fma_view,
    output_view,
    stage_view,
)
from gemmdsl.emit.printing import PART_LD, ConstantGroup, Printer, address, constant_groups
from gemmdsl.emit.statements import StatementView, program_view
from gemmdsl.emit.sweeps import part_ld
from gemmdsl.extents import (
    ALL_TILES,
    BLOCK_COL,
    BLOCK_ROW,
    DEPTH,
    K_FIRST,
    SPLIT,
    WHOLE,
    rows_left,
    tiles,
)
from gemmdsl.index import Bound, Expr, Int, Var
from gemmdsl.index_parts import bindings, free
from gemmdsl.index_text import to_c
from gemmdsl.ir import AddOutput, AsyncCopyTile, Kernel, MultiplyTile, Stmt, StoreOutput, StorePart, walk
from gemmdsl.layout import BLOCKS_M, BLOCKS_N
from gemmdsl.spec import SHARED_ALIGNMENT, Axis, Operand, Problem
from gemmdsl.target import MAX_THREADS_PER_BLOCK


@dataclass(frozen=True, slots=True)
class Check:
    """A static_assert."""

    condition: str
    message: str


@dataclass(frozen=True, slots=True)
class KernelView:
    """Everything that templates/kernel.cu.j2 prints of the device side; `launch` is the host side.

    `stages` are the staged operands, `direct` those read straight from global memory; one of them is empty.
    """

    launch: LaunchView
    banner: tuple[str, ...]
    constants: tuple[ConstantGroup, ...]
    checks: tuple[Check, ...]
    stage_checks: tuple[Check, ...]
    problem: Problem
    stages: tuple[StageView, ...]
    read_order: tuple[StageView, ...]
    direct: tuple[DirectView, ...]
    buffers: str
    fragments: str
    unroll: str
    output: OutputView
    fma: FmaView
    body: tuple[StatementView, ...]
    bindings: tuple[Binding, ...]
    grid: tuple[Binding, ...]
    rows_left: tuple[str, str]
    depth: str
    depth_note: str
    k_part: tuple[Binding, ...]
    k_tiles: str
    flags: tuple[str, ...]
    map_arguments: dict[str, str]
    origins: dict[str, str]
    block_parameters: str
    block_arguments: str
    store_parameters: str
    store_arguments: str
    ends: str
    part_ld: str
    part_start: str
    vector_atomics: bool
    has_async: bool
    helpers: frozenset[str]
    alignment: int
    multiplies_tiles: bool

    @property
    def template_line(self) -> str:
        return f"template <{', '.join(f'bool {flag}' for flag in self.flags)}>" if self.flags else ""

    @property
    def flag_arguments(self) -> str:
        return f"<{', '.join(self.flags)}>" if self.flags else ""

    @property
    def flags_comment(self) -> str:
        return "; ".join(f"{flag}: {_FLAGS[flag]}" for flag in self.flags) + "."


_FLAGS = {
    "FULL": "M, N and K are whole tiles, no guards",
    "ALIGNED": "vectors are allowed in global memory",
}


def kernel_view(kernel: Kernel, plan: LaunchPlan, proofs: tuple[str, ...]) -> KernelView:
    """The view of a finished kernel; `proofs` are the sentences of its header comment."""
    text = Printer()
    problem, threads = kernel.spec.problem, kernel.threads
    for size in (kernel.block_m, kernel.block_n, threads.rows.count, threads.cols.count, threads.threads):
        text(size)
    axes = (threads.rows, threads.cols)
    stages = tuple(
        stage_view(kernel, staging, axis, text)
        for staging, axis in zip(kernel.staging or (), axes, strict=bool(kernel.staging))
    )
    inputs = () if stages else (problem.a, problem.b)
    direct = tuple(
        direct_view(kernel, operand, axis, text) for operand, axis in zip(inputs, axes, strict=bool(inputs))
    )
    named = {bound.name: text(bound.value) for axis in axes for bound in bindings(axis.first)}
    output, fma = output_view(kernel, text), fma_view(kernel, text)
    body = program_view(kernel.body, kernel.block_k, text)
    left_m, left_n = rows_left()
    launch = launch_view(kernel, plan, text)
    ends = next(s for s in walk(kernel.body) if isinstance(s, StoreOutput | AddOutput | StorePart))
    store = _store_parameters(problem, ends)
    stage, stage_argument = ("Stage* stages", "stages") if kernel.buffers else ("Stage& stage", "stage")
    return KernelView(
        launch=launch,
        banner=banner(kernel, plan, proofs),
        checks=_checks(kernel),
        stage_checks=_stage_checks(kernel),
        problem=problem,
        stages=stages,
        read_order=tuple(stage for name in kernel.read_order for stage in stages if stage.name == name),
        direct=direct,
        buffers=text(kernel.buffers) if kernel.buffers else "",
        fragments=text(kernel.fragments) if kernel.fragments else "",
        unroll=text(kernel.unroll) if kernel.unroll else "",
        output=output,
        fma=fma,
        body=body,
        bindings=tuple(Binding(name, value) for name, value in named.items()),
        grid=_grid(kernel, text),
        rows_left=(text(left_m), text(left_n)),
        depth="alpha == 0.0f ? 0 : K" if problem.alpha else "K",
        depth_note="  // alpha == 0 reads neither A nor B" if problem.alpha else "",
        k_part=_k_part(kernel, text),
        k_tiles=text(tiles(DEPTH, kernel.block_k)) if kernel.block_k else "",
        flags=flags(kernel),
        map_arguments={stage.name: stage.map_arguments for stage in stages},
        origins={operand.name: _origin(operand, text) for operand in (problem.a, problem.b, problem.c)},
        block_parameters=", ".join([*([stage] if stages else []), launch.entry_parameters]),
        block_arguments=", ".join([*([stage_argument] if stages else []), launch.entry_arguments]),
        store_parameters=", ".join(declaration for declaration, _ in store),
        store_arguments=", ".join(argument for _, argument in store),
        ends=type(ends).__name__,
        part_ld=part_ld(kernel, text) if isinstance(ends, StorePart) else "",
        part_start=_part_start(kernel, text) if isinstance(ends, StorePart) else "",
        vector_atomics=kernel.spec.target.vector_atomics,
        has_async=_uses(kernel, AsyncCopyTile),
        helpers=frozenset((*text.called, *_movers(problem, stages, ends))),
        alignment=SHARED_ALIGNMENT,
        multiplies_tiles=_uses(kernel, MultiplyTile),
        constants=constant_groups(text.used),
    )


def _grid(kernel: Kernel, text: Printer) -> tuple[Binding, ...]:
    """Where the block's tile of C begins, and what that depends on."""
    row, col = kernel.grid.origin(kernel.block_m, kernel.block_n)
    counts = {BLOCKS_M: tiles(Var("M"), kernel.block_m), BLOCKS_N: tiles(Var("N"), kernel.block_n)}
    named: dict[Var | Bound, Expr] = {
        **{var: value for var, value in counts.items() if var.name in free(row) | free(col)},
        **{bound: bound.value for part in (row, col) for bound in bindings(part)},
        BLOCK_ROW: row,
        BLOCK_COL: col,
    }
    return tuple(Binding(name.name, text(value)) for name, value in named.items())


def _k_part(kernel: Kernel, text: Printer) -> tuple[Binding, ...]:
    """The block's part of K, and what that depends on; nothing where it is all of K."""
    if kernel.split is None:
        return ()
    assert kernel.block_k is not None
    all_tiles = tiles(WHOLE, kernel.block_k)
    named = ((ALL_TILES, all_tiles), (K_FIRST, kernel.split.first), (DEPTH, kernel.split.depth))
    return tuple(Binding(var.name, text(value)) for var, value in named)


def _part_start(kernel: Kernel, text: Printer) -> str:
    """Distance of the block's first element in its part from the first part, which others follow."""
    c = kernel.spec.problem.c
    first: dict[Axis, Expr] = {"M": BLOCK_ROW, "N": BLOCK_COL}
    within = address(c, first[c.strided], first[c.contiguous], text, PART_LD)
    return f"offset({SPLIT.name}, {c.strided}) * {PART_LD} + {within}"


def _uses(kernel: Kernel, kind: type[Stmt]) -> bool:
    return any(isinstance(statement, kind) for statement in walk(kernel.body))


def _movers(problem: Problem, stages: tuple[StageView, ...], ends: Stmt) -> Iterator[str]:
    """The functions of templates/helpers.j2 that move data for the kernel's own functions."""
    yield "move"
    yield "add" if isinstance(ends, AddOutput) else "store_global"
    if (problem.beta and isinstance(ends, StoreOutput)) or any(stage.uses_load for stage in stages):
        yield "load_global"
    if any(stage.uses_async for stage in stages):
        yield "copy_global_async"


def _store_parameters(problem: Problem, ends: Stmt) -> list[tuple[str, str]]:
    """Parameters of the function that stores products, each with the argument that the kernel passes."""
    listed = [("float* C", "C"), ("int ldc", "ldc")]
    if isinstance(ends, StorePart):
        listed = [("float* part", "parts"), (f"int64_t {PART_LD}", PART_LD)]
    listed += [("int m_left", "m_left"), ("int n_left", "n_left")]
    if problem.alpha and isinstance(ends, StoreOutput):
        listed.append(("float scale", "depth > 0 ? alpha : 0.0f"))
    if problem.alpha and isinstance(ends, AddOutput):
        listed.append(("float scale", "alpha"))
    if problem.beta and isinstance(ends, StoreOutput):
        listed.append(("float beta", "beta"))
    listed.append(("const float (&acc)[THREAD_M][THREAD_N]", "acc"))
    return [*listed, ("int thread_row", "thread_row"), ("int thread_col", "thread_col")]


def _origin(operand: Operand, text: Printer) -> str:
    """Distance of the block's first element of an operand from the matrix's own; K starts at 0."""
    first: dict[Axis, Expr] = {"M": BLOCK_ROW, "N": BLOCK_COL, "K": Int(0)}
    return address(operand, first[operand.strided], first[operand.contiguous], text)


def _checks(kernel: Kernel) -> tuple[Check, ...]:
    """What has to hold of the constants; whoever edits them is told."""
    checks = [
        Check(f"THREADS <= {MAX_THREADS_PER_BLOCK}", "CUDA's limit"),
        Check("BLOCK_M * BLOCK_N == THREADS * THREAD_M * THREAD_N", "one owner for each output"),
    ]
    for staging in kernel.staging or ():
        tile, (copy, *_) = staging.tile, kernel.copies(staging)
        name = tile.operand.name
        covers = f"{tile.rows.name} * {tile.cols.name} % {to_c(copy.width)} == 0"
        checks.append(Check(covers, f"loads cover the tile of {name}"))
        # Asynchronous copies store as wide as they load, and name the one width only.
        store = copy.width if _uses(kernel, AsyncCopyTile) else staging.store
        widest = store if store.value > staging.read.value else staging.read
        if widest.value > 1:
            aligned = f"{tile.row_length.name} % {to_c(widest)} == 0"
            checks.append(Check(aligned, f"rows of {name} keep vectors aligned"))
    return tuple(checks)


def _stage_checks(kernel: Kernel) -> tuple[Check, ...]:
    slots = kernel.buffers.value if kernel.buffers else 1
    return (Check(f"sizeof(Stage) == {kernel.shared_bytes // slots}", "the shared memory that was planned"),)
