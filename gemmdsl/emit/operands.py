"""What the templates need to know of one operand: its coordinates, guards and widths as C text."""

from __future__ import annotations

from dataclasses import dataclass

from gemmdsl.emit.printing import Printer, address
from gemmdsl.index import Expr, Int, Var
from gemmdsl.ir import AsyncCopyTile, CopyTile, Kernel, LoadTile, Staging, StoreTile, walk
from gemmdsl.layout import AxisMap, SharedTile
from gemmdsl.spec import Axis, Operand, OperandName


def guard(kernel: Kernel, operand: Operand, width: str) -> str:
    """C text of how many neighbours exist from a coordinate on, at most counting to any number.

    `m`, `n`, `k` are coordinates in the tile, `m_left` ... the extents that are left from its origin.
    """
    assumed = kernel.paths[-1].full
    count = width if operand.contiguous in assumed else _left(operand.contiguous)
    if operand.strided not in assumed:
        count = f"{operand.strided.lower()} < {operand.strided.lower()}_left ? {count} : 0"
    if count == width or not varies_in_full(kernel):
        return count
    return f"FULL ? {width} : {count}" if "?" not in count else f"FULL ? {width} : ({count})"


def _left(axis: Axis) -> str:
    return f"{axis.lower()}_left - {axis.lower()}"


def varies_in_full(kernel: Kernel) -> bool:
    """Whether paths differ in the axes known to be full."""
    return len({path.full for path in kernel.paths}) > 1


def varies_in_alignment(kernel: Kernel) -> bool:
    """Whether paths differ in the operands known to be aligned."""
    return len({path.aligned for path in kernel.paths}) > 1


def alignment(kernel: Kernel, operand: OperandName, width: int) -> str:
    """C text of whether vectors of this operand may be used: true, false or the flag of the path."""
    known = [operand in path.aligned or width == 1 for path in kernel.paths]
    return "true" if all(known) else "ALIGNED" if any(known) else "false"


@dataclass(frozen=True, slots=True)
class Binding:
    """An index that the text computes once, under a name."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class StageView:
    """A staged operand as C text; see templates/copy."""

    name: OperandName
    lower: str
    ld: str
    left: str
    fragment: str
    rows: str
    row_length: str
    shape: str
    vector: str
    store: str
    read: str
    copies: str
    vectors: str
    vector_index: str
    partial: bool
    valid: str
    aligned: str
    start: str
    step: str
    distance: str
    landing_first: str
    landing: str
    element_landing: str
    load_coordinates: tuple[Binding, ...]
    store_coordinates: tuple[Binding, ...]
    copy_coordinates: tuple[Binding, ...]
    counter: str
    count: str
    first: str
    read_row: str
    read_col: str
    uses_registers: bool
    uses_load: bool
    uses_store: bool
    uses_copy: bool
    uses_async: bool


def _flat(tile: SharedTile, fragment: Expr, k: Expr) -> Expr:
    """Distance in floats of an element from the first one of a shared tile."""
    row, col = tile.place(fragment, k)
    return row * tile.row_length + col


def stage_view(kernel: Kernel, staging: Staging, axis: AxisMap, text: Printer) -> StageView:
    """The view of one staged operand; `axis` maps threads to its M or N coordinates."""
    tile, copy = staging.tile, staging.copy
    operand = tile.operand
    fragment_axis = tile.fragment_axis
    fragment = Var(fragment_axis.lower(), axis.block.value)
    assert kernel.block_k is not None
    k = Var("k", kernel.block_k.value)
    element = Var("e", copy.width.value)
    along_k = operand.contiguous == "K"
    separable_landing = copy.landing(tile, element)
    if separable_landing is None:
        # The place depends on thread and copy together: it is counted from the tile's first float.
        landing_first: Expr = Int(0)
        landing = _flat(tile, fragment, k)
        element_landing = _flat(tile, *((fragment, k + element) if along_k else (fragment + element, k)))
    else:
        landing_first, element_landing = separable_landing
        landing = (copy.landing(tile, Int(0)) or separable_landing)[1]
    fragment_index, k_index = copy.coordinates(copy.contiguous)
    counter = Var("i" if fragment_axis == "M" else "j", axis.count.value)
    read_row, read_col = tile.place(axis.index(counter), k)
    used = {type(s) for s in walk(kernel.body) if getattr(s, "operand", None) == operand.name}
    separable = copy.walk()
    if separable is None:
        first_strided: Expr = Int(0)
        first_contiguous: Expr = Int(0)

        next_strided: Expr = fragment if along_k else k
        next_contiguous: Expr = k if along_k else fragment
    else:
        (first_strided, first_contiguous), (next_strided, next_contiguous) = separable
    block = Var("block_row" if fragment_axis == "M" else "block_col")
    if along_k:
        first_strided = block + first_strided
    else:
        first_contiguous = block + first_contiguous
    step = (Int(0), kernel.block_k) if along_k else (kernel.block_k, Int(0))
    valid = guard(kernel, operand, copy.width.name)
    guarded = {operand.strided, operand.contiguous} - kernel.paths[-1].full
    both = {fragment.name, k.name}
    for_load = {axis.lower() for axis in guarded} if separable is not None else both
    for_store = both if separable_landing is None else set()

    def coordinates(needed: set[str]) -> tuple[Binding, ...]:
        values = ((fragment.name, fragment_index), (k.name, k_index))
        return tuple(Binding(name, text(value)) for name, value in values if name in needed)

    shape = "[k][%s]" if tile.k_outer else "[%s][k]"
    return StageView(
        name=operand.name,
        lower=operand.name.lower(),
        ld=operand.ld,
        left=f"{fragment.name}_left",
        fragment=fragment.name,
        rows=text(tile.rows),
        row_length=text(tile.row_length),
        shape=shape % fragment.name,
        vector=text(copy.width),
        store=text(staging.store) if CopyTile in used or StoreTile in used else "",
        read=text(staging.read),
        copies=text(copy.copies),
        vectors=text(copy.vectors) if copy.partial else "",
        vector_index=text(copy.vector) if copy.partial else "",
        partial=copy.partial,
        valid=valid,
        aligned=alignment(kernel, operand.name, copy.width.value),
        start=address(operand, first_strided, first_contiguous, text),
        step=address(operand, step[0], step[1], text),
        distance=address(operand, next_strided, next_contiguous, text),
        landing_first=text(landing_first),
        landing=text(landing),
        element_landing=text(element_landing),
        load_coordinates=coordinates(for_load),
        store_coordinates=coordinates(for_store),
        copy_coordinates=coordinates(for_load | for_store),
        counter=counter.name,
        count=text(axis.count),
        first=axis.first.name,
        read_row=text(read_row),
        read_col=text(read_col),
        uses_registers=LoadTile in used,
        uses_load=bool({LoadTile, CopyTile} & used),
        uses_store=bool({StoreTile, CopyTile} & used),
        uses_copy=CopyTile in used,
        uses_async=AsyncCopyTile in used,
    )


@dataclass(frozen=True, slots=True)
class FmaView:
    """The two loops over a thread's outputs in one step; see templates/compute."""

    outer: str
    outer_count: str
    step: str
    inner: str
    inner_count: str
    backwards: str


def fma_view(kernel: Kernel, text: Printer) -> FmaView:
    """Loops in the kernel's FMA order; with `backwards`, the inner index follows from the loop's counter."""
    threads = kernel.threads
    counts = {"i": threads.rows.count, "j": threads.cols.count}
    outer, inner = ("i", "j") if kernel.fma.along == "N" else ("j", "i")
    last = text(counts[inner] - 1)
    return FmaView(
        outer=outer,
        outer_count=text(counts[outer]),
        step="step" if kernel.fma.snake else inner,
        inner=inner,
        inner_count=text(counts[inner]),
        backwards=f"{outer} % 2 == 0 ? step : {last} - step" if kernel.fma.snake else "",
    )


@dataclass(frozen=True, slots=True)
class DirectView:
    """An operand read straight from global memory as C text; see templates/compute."""

    name: OperandName
    lower: str
    counter: str
    count: str
    fragment: str
    fragment_index: str
    address: str
    guarded: str
    otherwise: str


def direct_view(kernel: Kernel, operand: Operand, axis: AxisMap, text: Printer) -> DirectView:
    """The view of one operand that is not staged."""
    name: Axis = "M" if operand.name == "A" else "N"
    fragment = name.lower()
    counter = Var("i" if name == "M" else "j", axis.count.value)
    guarded = name not in kernel.paths[-1].full
    condition = f"{fragment} < {fragment}_left ? "
    if varies_in_full(kernel):
        condition = f"FULL || {condition}"
    return DirectView(
        name=operand.name,
        lower=operand.name.lower(),
        counter=counter.name,
        count=text(axis.count),
        fragment=fragment,
        fragment_index=text(axis.index(counter)),
        address=address(operand, Var(operand.strided.lower()), Var(operand.contiguous.lower()), text),
        guarded=condition if guarded else "",
        otherwise=" : 0.0f" if guarded else "",
    )


@dataclass(frozen=True, slots=True)
class OutputView:
    """C's epilogue as C text; see templates/store."""

    outer: str
    outer_count: str
    inner: str
    inner_count: str
    m_index: str
    n_index: str
    valid: str
    address: str
    aligned: str
    with_beta: str
    without_beta: str


def output_view(kernel: Kernel, text: Printer) -> OutputView:
    """The view of C: vectors run along its contiguous axis, which is the inner loop."""
    problem, threads = kernel.spec.problem, kernel.threads
    c = problem.c
    outer, inner = (threads.i, threads.j) if c.contiguous == "N" else (threads.j, threads.i)
    counts = {"i": threads.rows.count, "j": threads.cols.count}
    element = Var("e", kernel.c_vector.value)

    def accumulator() -> str:
        index: dict[str, Expr] = {"i": threads.i, "j": threads.j}
        if kernel.c_vector.value > 1:
            index[inner.name] = inner + element
        value = f"acc[{text(index['i'])}][{text(index['j'])}]"
        return f"scale * {value}" if problem.alpha else value

    return OutputView(
        outer=outer.name,
        outer_count=text(counts[outer.name]),
        inner=inner.name,
        inner_count=text(counts[inner.name]),
        m_index=text(threads.rows.index(threads.i)),
        n_index=text(threads.cols.index(threads.j)),
        valid=guard(kernel, c, text(kernel.c_vector)),
        address=address(c, Var(c.strided.lower()), Var(c.contiguous.lower()), text),
        aligned=alignment(kernel, "C", kernel.c_vector.value),
        with_beta=f"fmaf(beta, out[e], {accumulator()})",
        without_beta=accumulator(),
    )
