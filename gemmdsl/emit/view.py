"""Kernel -> what templates/kernel.cu.j2 prints: every decision is made here or before, none in a template."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gemmdsl.cuda_source import LaunchPlan
from gemmdsl.emit.banner import banner
from gemmdsl.emit.block import (
    block_function,
    end_function,
    end_of,
    multiply_global_function,
    multiply_tile_function,
    names_of,
)
from gemmdsl.emit.checks import Check, checks, stage_checks
from gemmdsl.emit.functions import Function, closure, names_in
from gemmdsl.emit.launch import LaunchView, launch_view
from gemmdsl.emit.operands import (
    Binding,
    DirectView,
    FmaView,
    OutputView,
    StageView,
    direct_view,
    flags,
    fma_view,
    output_view,
    stage_view,
)
from gemmdsl.emit.printing import ConstantGroup, Printer, address, constant_groups
from gemmdsl.emit.sizes import size_checks
from gemmdsl.emit.statements import StatementView, program_view
from gemmdsl.emit.workspace import WorkspaceView, workspace_view
from gemmdsl.extents import (
    ALL_TILES,
    BLOCK_COL,
    BLOCK_ROW,
    DEPTH,
    K_FIRST,
    SPLIT,
    WHOLE,
    left,
    rows_left,
    tiles,
)
from gemmdsl.index import Bound, Expr, Int, Var
from gemmdsl.index_parts import bindings, free
from gemmdsl.ir import AddOutput, AsyncCopyTile, Kernel, MultiplyTile, Stmt, StoreOutput, walk
from gemmdsl.layout import BLOCK, BLOCKS_M, BLOCKS_N
from gemmdsl.spec import SHARED_ALIGNMENT, Axis, Operand, Problem


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
    prologue: tuple[Binding, ...]
    depth: Binding
    split: bool
    k_tiles: str
    flags: tuple[str, ...]
    functions: dict[str, Function]
    block: Function
    end: Function
    origins: dict[str, str]
    ends: str
    workspace: WorkspaceView | None
    vector_atomics: bool
    has_async: bool
    helpers: frozenset[str]
    alignment: int
    multiplies_tiles: bool

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
    output, fma = output_view(kernel, text), fma_view(kernel, text)
    body = program_view(kernel.body, kernel.block_k, text)
    launch = launch_view(kernel, plan, text)
    workspace = workspace_view(kernel, text)
    ends, end = end_of(kernel), end_function(kernel, output, workspace)
    functions = {each.name: each for stage in stages for each in stage.functions} | {end.name: end}
    multiply = multiply_tile_function(stages) if stages else multiply_global_function(kernel, direct)
    functions[multiply.name] = multiply
    origins: dict[str, str] = {
        operand.name: _origin(operand, text) for operand in (problem.a, problem.b, problem.c)
    }
    depth = _depth(problem)
    k_tiles = text(tiles(DEPTH, kernel.block_k)) if kernel.block_k else ""
    prologue = tuple(_prologue(kernel, depth, text))
    moved = ("parts", workspace.start) if workspace else ("C", origins["C"])
    direct_moves = () if stages else ("A", origins["A"], "B", origins["B"])
    definitions = {line.name: line.value for line in (*prologue, depth)}
    definitions |= {"k_tiles": k_tiles}
    definitions |= {line.name: line.value for line in workspace.sizes} if workspace else {}
    definitions |= {name: value for stage in stages for name, value in stage.moves.items()}
    used = closure(names_of(body, functions) | names_in(*moved, *direct_moves), definitions)
    return KernelView(
        launch=launch,
        banner=banner(kernel, plan, proofs),
        checks=(*checks(kernel, text), *size_checks(kernel, text)),
        stage_checks=stage_checks(kernel),
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
        prologue=tuple(line for line in prologue if line.name in used),
        depth=depth,
        split=kernel.split is not None,
        k_tiles=k_tiles,
        flags=flags(kernel),
        functions=functions,
        block=block_function(kernel, plan, used),
        end=end,
        origins=origins,
        ends=type(ends).__name__,
        workspace=workspace,
        vector_atomics=kernel.spec.target.vector_atomics,
        has_async=_uses(kernel, AsyncCopyTile),
        helpers=frozenset((*text.called, *_movers(problem, stages, ends))),
        alignment=SHARED_ALIGNMENT,
        multiplies_tiles=_uses(kernel, MultiplyTile),
        constants=constant_groups(text.used),
    )


def _depth(problem: Problem) -> Binding:
    """The extent along K that is multiplied: none where alpha is 0."""
    note = "alpha == 0 reads neither A nor B" if problem.alpha else ""
    return Binding(DEPTH.name, "alpha == 0.0f ? 0 : K" if problem.alpha else "K", note)


def _prologue(kernel: Kernel, depth: Binding, text: Printer) -> Iterator[Binding]:
    """What a thread finds out first: who it is, where its block is, and what is left from there."""
    yield Binding(kernel.threads.thread.name, "static_cast<int>(threadIdx.x)")
    bound = (bound for axis in (kernel.threads.rows, kernel.threads.cols) for bound in bindings(axis.first))
    yield from (Binding(name, value) for name, value in {b.name: text(b.value) for b in bound}.items())
    yield Binding(BLOCK.name, "static_cast<int>(blockIdx.x)")
    yield from _grid(kernel, text)
    m_left, n_left = rows_left()
    yield Binding(left("M").name, text(m_left), "rows of C from here on")
    yield Binding(left("N").name, text(n_left), "columns of C from here on")
    if kernel.split is not None:
        yield Binding(WHOLE.name, depth.value, depth.note)
        yield Binding(SPLIT.name, "static_cast<int>(blockIdx.y)", "which part of K is this block's")
        yield from _k_part(kernel, text)


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
    """The block's part of K, and what that depends on."""
    assert kernel.block_k is not None
    assert kernel.split is not None
    all_tiles = tiles(WHOLE, kernel.block_k)
    named = ((ALL_TILES, all_tiles), (K_FIRST, kernel.split.first), (DEPTH, kernel.split.depth))
    return tuple(Binding(var.name, text(value)) for var, value in named)


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


def _origin(operand: Operand, text: Printer) -> str:
    """Distance of the block's first element of an operand from the matrix's own; K starts at 0."""
    first: dict[Axis, Expr] = {"M": BLOCK_ROW, "N": BLOCK_COL, "K": Int(0)}
    return address(operand, first[operand.strided], first[operand.contiguous], text)
