"""Canonical text of a kernel's IR: the same kernel gives the same bytes, a small change a small difference.

Formulas are spelled as in the emitted CUDA; every name they use is defined once, above its first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import unified_diff
from typing import assert_never

from gemmdsl.extents import BLOCK_COL, BLOCK_ROW, DEPTH, K_FIRST, PART, SplitMap, WorkspaceMap, coordinate
from gemmdsl.index import Bound, Expr, Int, Named, Var
from gemmdsl.index_parts import bindings, constants
from gemmdsl.index_text import to_c
from gemmdsl.ir import (
    AddOutput,
    AsyncCopyTile,
    Barrier,
    CommitGroup,
    CopyTile,
    Counter,
    For,
    If,
    Kernel,
    Less,
    LoadTile,
    MultiplyFragments,
    MultiplyGlobal,
    MultiplyTile,
    Path,
    ReadFragment,
    ReduceParts,
    ScaleOutput,
    Staging,
    Stmt,
    StoreOutput,
    StorePart,
    StoreTile,
    Sweep,
    Test,
    WaitGroups,
)
from gemmdsl.layout import CopyMap

INDENT = "  "
_AXES = ("M", "N", "K")


def print_kernel(kernel: Kernel) -> str:
    """The whole kernel as text that ends in a newline."""
    spec = kernel.spec
    lines = [f"kernel {spec.symbol} on {spec.target.name}"]
    lines.append(f"passes {', '.join(kernel.applied) or 'none'}")
    lines += _section("constants", _constants(kernel))
    row, col = kernel.grid.origin(kernel.block_m, kernel.block_n)
    named = {bound.name: bound.value for part in (row, col) for bound in bindings(part)}
    named |= {BLOCK_ROW.name: row, BLOCK_COL.name: col}
    lines += _section("grid", (f"{name} = {to_c(value)}" for name, value in named.items()))
    if kernel.split is not None:
        lines += _section("parts of K", _split(kernel.split))
    if kernel.workspace is not None:
        lines += _section("workspace", _workspace(kernel.workspace))
    lines += _section("threads", _threads(kernel))
    for staging in kernel.staging or ():
        lines += _section(f"tile {staging.tile.operand.name}", _staging(staging))
    lines += _section("paths", (_path(path) for path in kernel.paths))
    lines += _sweeps("before", kernel.before)
    lines += _section("program", print_program(kernel.body))
    lines += _sweeps("after", kernel.after)
    return "\n".join(lines) + "\n"


def print_stage(kernel: Kernel, proofs: tuple[str, ...]) -> str:
    """The kernel and what was proved of it."""
    return print_kernel(kernel) + "\n".join(_section("proved", proofs)) + "\n"


def difference(before: str, after: str, before_name: str, after_name: str) -> str:
    """Unified difference of two texts; empty when they are equal."""
    lines = unified_diff(before.splitlines(), after.splitlines(), before_name, after_name, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def print_program(body: tuple[Stmt, ...], depth: int = 0) -> Iterator[str]:
    """The lines of a program; bodies of loops and conditions are indented."""
    for statement in body:
        yield INDENT * depth + headline(statement)
        if isinstance(statement, (For, If)):
            yield from print_program(statement.body, depth + 1)


def headline(statement: Stmt) -> str:
    """A statement on one line, without its body."""
    match statement:
        case CopyTile():
            return f"copy {statement.operand}[{to_c(statement.tile)}]{_into(statement.slot)}"
        case LoadTile():
            return f"load {statement.operand}[{to_c(statement.tile)}] -> registers"
        case StoreTile():
            return f"store {statement.operand} registers{_into(statement.slot)}"
        case AsyncCopyTile():
            batch = f" batch {statement.batch} of {statement.batches}" if statement.batches > 1 else ""
            return f"async copy {statement.operand}[{to_c(statement.tile)}]{batch}{_into(statement.slot)}"
        case CommitGroup():
            return "commit group"
        case WaitGroups():
            return f"wait until at most {to_c(statement.pending)} groups are in flight"
        case Barrier():
            return f"barrier  # {statement.reason}"
        case MultiplyTile():
            return "multiply" + ("" if statement.slot is None else f" {_slot(statement.slot)}")
        case ReadFragment():
            slot = "" if statement.slot is None else f" {_slot(statement.slot)}"
            place = f"{statement.operand}{slot} k {to_c(statement.k)}"
            return f"read fragment of {place} -> registers {to_c(statement.registers)}"
        case MultiplyFragments():
            return f"multiply fragments in registers {to_c(statement.registers)}"
        case MultiplyGlobal():
            return "multiply from global memory"
        case StoreOutput():
            return "store C"
        case AddOutput():
            return "add to C"
        case StorePart():
            return "store part of C"
        case For():
            unroll = "unrolled " if statement.unroll else ""
            if isinstance(statement.unroll, Named):
                unroll = f"unrolled by {statement.unroll.name} "
            span = f"{to_c(statement.start)} .. {to_c(statement.stop)}"
            along = "".join(f", {_counter(counter)}" for counter in statement.counters)
            return f"{unroll}for {statement.var.name} in {span}{along}:"
        case If():
            return f"if {condition(statement.condition)}:"
        case _:
            assert_never(statement)


def _counter(counter: Counter) -> str:
    value, start, modulus = (to_c(part) for part in (counter.value.value, counter.start, counter.modulus))
    return f"{counter.value.name} = {value} (from {start} on, modulo {modulus})"


def condition(test: Test) -> str:
    """A uniform condition as C spells it."""
    return f"{to_c(test.left)} {'<' if isinstance(test, Less) else '=='} {to_c(test.right)}"


def _into(slot: Expr | None) -> str:
    return " -> shared" if slot is None else f" -> shared {_slot(slot)}"


def _slot(slot: Expr) -> str:
    """Which of the buffers; most are counted by a variable of that name."""
    text = to_c(slot)
    return text if text == "slot" else f"slot {text}"


def _section(title: str, lines: Iterable[str]) -> list[str]:
    return [title, *(INDENT + line for line in lines)]


def _split(split: SplitMap) -> Iterator[str]:
    yield f"{split.parts.name} blocks for each tile of C"
    yield f"{K_FIRST.name} = {to_c(split.first)}"
    yield f"{DEPTH.name} = {to_c(split.depth)}"


def _workspace(workspace: WorkspaceMap) -> Iterator[str]:
    yield f"{to_c(workspace.size)} floats"
    for bound in (workspace.ld, workspace.floats):
        yield f"{bound.name} = {to_c(bound.value)}"
    yield f"{PART.name}(m, n) at {to_c(workspace.place(PART, coordinate('M'), coordinate('N')))}"


def _sweeps(title: str, sweeps: tuple[Sweep, ...]) -> list[str]:
    """Kernels around this one; no section where there are none."""
    return _section(title, map(_sweep, sweeps)) if sweeps else []


def _sweep(sweep: Sweep) -> str:
    match sweep:
        case ScaleOutput():
            return "C = beta * C"
        case ReduceParts():
            return "C = alpha * sum of parts + beta * C"
        case _:
            assert_never(sweep)


def _expressions(kernel: Kernel) -> Iterator[Expr]:
    """Every expression of the kernel outside of its program, in a fixed order."""
    yield from (kernel.block_m, kernel.block_n)
    if kernel.block_k is not None:
        yield kernel.block_k
    threads = kernel.threads
    yield threads.threads
    for axis in (threads.rows, threads.cols):
        yield from (axis.count, axis.piece, axis.stride, axis.first)
    for staging in kernel.staging or ():
        tile = staging.tile
        yield from (tile.rows, tile.cols, tile.row_length)
        if tile.swizzle is not None:
            yield from (tile.swizzle.unit, tile.swizzle.group, tile.swizzle.count)
        if tile.stages is not None:
            yield tile.stages
        for copy in staging.maps:
            yield from (copy.width, copy.vectors, copy.copies, copy.strided, copy.contiguous)
        yield from (staging.store, staging.read)
    if kernel.split is not None:
        yield from (kernel.split.parts, kernel.split.first, kernel.split.depth)
    yield kernel.c_vector
    if kernel.workspace is not None:
        yield from (kernel.workspace.ld, kernel.workspace.floats)
    for optional in (kernel.fragments, kernel.unroll):
        if optional is not None:
            yield optional
    yield from (kernel.grid.row, kernel.grid.col)


def _constants(kernel: Kernel) -> Iterator[str]:
    seen: set[str] = set()
    for expr in _expressions(kernel):
        for named in constants(expr):
            if named.name not in seen:
                seen.add(named.name)
                yield _define(named)
    if kernel.min_blocks:
        yield f"min_blocks = {kernel.min_blocks}"


def _define(named: Named) -> str:
    formula = "" if isinstance(named.definition, Int) else f"{to_c(named.definition)} = "
    return f"{named.name} = {formula}{named.value}"


def _threads(kernel: Kernel) -> Iterator[str]:
    threads = kernel.threads
    bound: dict[str, Bound] = {}
    for axis in (threads.rows, threads.cols):
        bound.update((binding.name, binding) for binding in bindings(axis.first))
    for binding in bound.values():
        yield f"{binding.name} = {to_c(binding.value)}"
    yield f"m(i) = {to_c(threads.rows.index(threads.i))}"
    yield f"n(j) = {to_c(threads.cols.index(threads.j))}"
    order = f"along {kernel.fma.along}{', every other one backwards' if kernel.fma.snake else ''}"
    yield f"FMAs {order}; fragment of {kernel.read_order[0]} read first"
    if kernel.unroll is not None:
        yield f"steps of a K tile unrolled {kernel.unroll.name} at a time"


def _staging(staging: Staging) -> Iterator[str]:
    tile, copy = staging.tile, staging.copy
    name, axis = tile.operand.name, tile.fragment_axis.lower()
    slots = "" if tile.stages is None else f"[{tile.stages.name}]"
    row, col = tile.place(Var(axis), Var("k"))
    yield f"shared {name}{slots}[{tile.rows.name}][{tile.row_length.name}]"
    yield f"{name}({axis}, k) at [{to_c(row)}][{to_c(col)}]"
    yield from _copy(copy)
    if staging.words is not None:
        yield "where vectors are not allowed:"
        yield from (INDENT + line for line in _copy(staging.words))
    widths = (copy.width, staging.store, staging.read)
    yield "load {}, store {}, read {} at a time".format(*map(to_c, widths))


def _copy(copy: CopyMap) -> Iterator[str]:
    yield f"{copy.copies.name} copies per thread{', the last partial' if copy.partial else ''}"
    yield f"vector = {to_c(copy.vector)}"
    yield f"{copy.operand.strided.lower()} = {to_c(copy.strided)}"
    yield f"{copy.operand.contiguous.lower()} = {to_c(copy.contiguous)}"


def _path(path: Path) -> str:
    guarded = ", ".join(axis for axis in _AXES if axis not in path.full)
    scalar = ", ".join(name for name in "ABC" if name not in path.aligned)
    parts = [f"guards {guarded}" if guarded else "no guards"]
    parts.append(f"{scalar} element by element" if scalar else "vectors throughout")
    if path.requires:
        parts.append("requires " + ", ".join(map(str, path.requires)))
    return f"{path.name}: " + "; ".join(parts)
