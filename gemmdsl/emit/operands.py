"""What the templates need to know of one operand: its coordinates, guards and widths as C text."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from gemmdsl.emit.functions import Function, Parameter, function, names_in
from gemmdsl.emit.printing import Printer, address
from gemmdsl.extents import FULL, K_FIRST, exists, left, neighbours_left, whole_exists
from gemmdsl.index import Expr, Int, Var, constant
from gemmdsl.ir import AsyncCopyTile, CopyTile, Kernel, LoadTile, Staging, StoreTile, walk
from gemmdsl.layout import BATCH, BATCHES, START_OF_K, AxisMap, CopyMap
from gemmdsl.spec import Axis, Operand, OperandName


def guard(kernel: Kernel, operand: Operand, width: Expr, text: Printer) -> str:
    """C text of how many neighbours exist from a coordinate on, of `width`; see `neighbours_left`."""
    return text(neighbours_left(operand, width, kernel.paths[-1].full, known_full(kernel)))


def whole_guard(kernel: Kernel, operand: Operand, text: Printer) -> str:
    """C text of whether neighbours exist from a coordinate on, all or none of them; see `whole_exists`."""
    exists_there = whole_exists(operand, kernel.paths[-1].full, known_full(kernel))
    return "true" if constant(exists_there) else text(exists_there)


def known_full(kernel: Kernel) -> Expr:
    """Whether every axis is known to be of whole tiles: the flag of the path, or nowhere."""
    return FULL if varies_in_full(kernel) else Int(0)


def varies_in_full(kernel: Kernel) -> bool:
    """Whether paths differ in the axes known to be full."""
    return len({path.full for path in kernel.paths}) > 1


def varies_in_alignment(kernel: Kernel) -> bool:
    """Whether paths differ in the operands known to be aligned."""
    return len({path.aligned for path in kernel.paths}) > 1


def flags(kernel: Kernel) -> tuple[str, ...]:
    """The template parameters that tell the paths of a kernel apart."""
    varying = (("FULL", varies_in_full(kernel)), ("ALIGNED", varies_in_alignment(kernel)))
    return tuple(name for name, varies in varying if varies)


def alignment(kernel: Kernel, operand: OperandName, width: int) -> str:
    """C text of whether vectors of this operand may be used: true, false or the flag of the path."""
    known = [operand in path.aligned or width == 1 for path in kernel.paths]
    return "true" if all(known) else "ALIGNED" if any(known) else "false"


@dataclass(frozen=True, slots=True)
class Binding:
    """An index that the text computes once, under a name."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class CopyView:
    """One map of a tile's copies as C text; see templates/copy.

    With `whole`, a copy goes from registers to shared memory in one piece.
    """

    vector: str
    store: str
    copies: str
    first_copy: str
    end_copy: str
    vectors: str
    vector_index: str
    partial: bool
    whole: bool
    valid: str
    inside: str
    start: str
    distance: str
    landing_first: str
    landing: str
    load_coordinates: tuple[Binding, ...]
    store_coordinates: tuple[Binding, ...]
    copy_coordinates: tuple[Binding, ...]

    @property
    def used_by_load(self) -> frozenset[str]:
        """Names that the loop which loads into registers mentions."""
        return self._used(self.load_coordinates, self.valid, self.distance)

    @property
    def used_by_store(self) -> frozenset[str]:
        """Names that the loop which stores registers mentions."""
        return self._used(self.store_coordinates, self.landing)

    @property
    def used_by_copy(self) -> frozenset[str]:
        """Names that the loop of asynchronous copies mentions."""
        return self._used(self.copy_coordinates, self.inside, self.distance, self.landing)

    def _used(self, coordinates: tuple[Binding, ...], *texts: str) -> frozenset[str]:
        return names_in(*texts, self.vector_index, *(line.value for line in coordinates))


@dataclass(frozen=True, slots=True)
class StageView:
    """A staged operand as C text; see templates/copy.

    `words` is its other map where the paths differ in it: those that are not ALIGNED take it.  `last_batch`
    tells the last batch of asynchronous copies, "" where they are issued in one.
    """

    name: OperandName
    lower: str
    ld: str
    left: str
    fragment: str
    rows: str
    row_length: str
    shape: str
    flags: tuple[str, ...]
    copy: CopyView
    words: CopyView | None
    read: str
    step: str
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
    last_batch: str

    def share(self, name: str, of: str = "") -> str:
        """Declares an array of a thread's share of a tile, or with `of` "&" a reference to one."""
        if self.words is not None:
            return f"Share{self.name}<ALIGNED>{of} {name}"
        return f"float {f'({of}{name})' if of else name}[{self.copy.copies}][{self.copy.vector}]"

    @property
    def maps(self) -> tuple[CopyView, ...]:
        return (self.copy,) if self.words is None else (self.copy, self.words)

    @property
    def load(self) -> Function:
        used = self._used(*(copy.used_by_load for copy in self.maps), names_in(self.step), {"to", "from"})
        return function(f"load_{self.lower}", self.flags, self._parameters(self.share("to", "&")), used)

    @property
    def store(self) -> Function:
        used = self._used(*(copy.used_by_store for copy in self.maps), {"to", "from"})
        parameters = (
            Parameter("float* to"),
            Parameter(f"const {self.share('from', '&')}", f"next_{self.lower}"),
            Parameter("int thread"),
        )
        return function(f"store_{self.lower}", self.flags, parameters, used)

    @property
    def copy_through(self) -> Function:
        """Loads and stores at once."""
        used = frozenset({"to", "from"}) | self.load.used | self.store.used
        return function(f"copy_{self.lower}", self.flags, self._parameters("float* to"), used)

    @property
    def copy_async(self) -> Function:
        used = self._used(*(copy.used_by_copy for copy in self.maps), names_in(self.step), {"to", "from"})
        found = function(f"copy_{self.lower}_async", self.flags, self._parameters("float* to"), used)
        return replace(found, numbers=(BATCH.name, BATCHES.name)) if self.last_batch else found

    @property
    def read_fragment(self) -> Function:
        used = frozenset({"to", "tile"}) | names_in(self.read_row, self.read_col)
        parameters = (
            Parameter(f"float (&to)[{self.count}]", self.lower),
            Parameter(f"const float (&tile)[{self.rows}][{self.row_length}]", f"stage.{self.name}"),
            Parameter("int k"),
            Parameter(f"int {self.first}"),
        )
        return function(f"read_{self.lower}", (), parameters, used)

    @property
    def functions(self) -> tuple[Function, ...]:
        """Those that the text has."""
        listed = (
            (self.uses_load, self.load),
            (self.uses_store, self.store),
            (self.uses_copy, self.copy_through),
            (self.uses_async, self.copy_async),
            (True, self.read_fragment),
        )
        return tuple(each for used, each in listed if used)

    @property
    def moves(self) -> dict[str, str]:
        """Where a thread's copies begin in global memory and in the shared tile, by the name of each."""
        found = {
            f"{self.lower}_from": " ".join((self.name, *(copy.start for copy in self.maps))),
            f"{self.lower}_to": " ".join(copy.landing_first for copy in self.maps),
        }
        return found

    def _used(self, *names: Set[str]) -> frozenset[str]:
        """All of the names, and the flag that tells maps apart."""
        return frozenset[str]().union(*names) | ({"ALIGNED"} if self.words is not None else set())

    def _parameters(self, to: str) -> tuple[Parameter, ...]:
        return (
            Parameter(to, f"next_{self.lower}"),
            Parameter("const float*& from", f"{self.lower}_from"),
            *(Parameter(f"int {name}") for name in (self.ld, self.left, "k_left", "thread")),
        )


def stage_view(kernel: Kernel, staging: Staging, axis: AxisMap, text: Printer) -> StageView:
    """The view of one staged operand; `axis` maps threads to its M or N coordinates."""
    tile = staging.tile
    operand = tile.operand
    assert kernel.block_k is not None
    fragment, k = tile.coordinates
    used = {type(s) for s in walk(kernel.body) if getattr(s, "operand", None) == operand.name}
    rows, row_length = text(tile.rows), text(tile.row_length)
    # Constants are printed in the order of their first use: widths before what follows from them.
    copies = kernel.copies(staging)
    for width in (*(copy.width for copy in copies), *_stores(staging, copies[0], used), staging.read):
        text(width)
    first, *others = (_copy_view(kernel, staging, copy, used, text) for copy in copies)
    counter = Var("i" if tile.fragment_axis == "M" else "j", axis.count.value)
    read_row, read_col = tile.place(axis.index(counter), k)
    shape = "[k][%s]" if tile.k_outer else "[%s][k]"
    return StageView(
        name=operand.name,
        lower=operand.name.lower(),
        ld=operand.ld,
        left=left(tile.fragment_axis).name,
        fragment=fragment.name,
        rows=rows,
        row_length=row_length,
        shape=shape % fragment.name,
        flags=flags(kernel),
        copy=first,
        words=others[0] if others else None,
        read=text(staging.read),
        step=address(operand, *staging.copy.step(kernel.block_k), text),
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
        last_batch=text(CopyMap.last(BATCH, BATCHES)) if batched(kernel, operand.name) else "",
    )


def batched(kernel: Kernel, operand: OperandName) -> bool:
    """Whether the asynchronous copies of a tile are issued in several batches."""
    return any(
        statement.batches > 1
        for statement in walk(kernel.body)
        if isinstance(statement, AsyncCopyTile) and statement.operand == operand
    )


def _stores(staging: Staging, copy: CopyMap, used: set[type]) -> tuple[Expr, ...]:
    """How many floats a shared store from registers takes, by this map; none where there is no such store."""
    if not {CopyTile, StoreTile} & used:
        return ()
    return (copy.width,) if copy is staging.words else (staging.store,)


def _copy_view(kernel: Kernel, staging: Staging, copy: CopyMap, used: set[type], text: Printer) -> CopyView:
    """The view of one map; `used` are the kinds of statements about its operand."""
    tile, operand = staging.tile, staging.tile.operand
    fragment, k = tile.coordinates
    # Asynchronous copies and single words land whole; vectors in registers are stored element by element.
    whole = AsyncCopyTile in used or copy is staging.words
    element: Expr = Int(0) if whole else Var("e", copy.width.value)
    landing_first, landing = copy.shared_places(tile, element)
    first_copy, end_copy = (
        copy.batch(BATCH, BATCHES) if batched(kernel, operand.name) else (Int(0), copy.copies)
    )
    fragment_index, k_index = copy.coordinates(copy.contiguous)
    guarded = {operand.strided, operand.contiguous} - kernel.paths[-1].full
    both = {fragment.name, k.name}
    for_load = {axis.lower() for axis in guarded} if copy.walk() is not None else both
    for_store = both if copy.landing(tile, element) is None else set()

    def coordinates(needed: set[str]) -> tuple[Binding, ...]:
        values = ((fragment.name, fragment_index), (k.name, k_index))
        return tuple(Binding(name, text(value)) for name, value in values if name in needed)

    return CopyView(
        vector=text(copy.width),
        store="".join(map(text, _stores(staging, copy, used))),
        copies=text(copy.copies),
        first_copy=text(first_copy),
        end_copy=text(end_copy),
        vectors=text(copy.vectors) if copy.partial else "",
        vector_index=text(copy.vector) if copy.partial else "",
        partial=copy.partial,
        whole=whole,
        valid=guard(kernel, operand, copy.width, text),
        inside=whole_guard(kernel, operand, text),
        start=address(operand, *copy.start(K_FIRST if kernel.split else START_OF_K), text),
        distance=address(operand, *copy.onward(), text),
        landing_first=text(landing_first),
        landing=text(landing),
        load_coordinates=coordinates(for_load),
        store_coordinates=coordinates(for_store),
        copy_coordinates=coordinates(for_load | for_store),
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
    threads, order = kernel.threads, kernel.fma
    counts = {"i": threads.rows.count, "j": threads.cols.count}
    outer, inner = order.loops(threads)
    step = Var("step", inner.extent) if order.snake else inner
    return FmaView(
        outer=outer.name,
        outer_count=text(counts[outer.name]),
        step=step.name,
        inner=inner.name,
        inner_count=text(counts[inner.name]),
        backwards=text(order.index(outer, step, counts[inner.name])) if order.snake else "",
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
    return DirectView(
        name=operand.name,
        lower=operand.name.lower(),
        counter=counter.name,
        count=text(axis.count),
        fragment=fragment,
        fragment_index=text(axis.index(counter)),
        address=address(operand, Var(operand.strided.lower()), Var(operand.contiguous.lower()), text),
        guarded=f"{text(exists(name, known_full(kernel)))} ? " if guarded else "",
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
    product: str
    with_beta: str
    without_beta: str


def output_view(kernel: Kernel, text: Printer) -> OutputView:
    """The view of C: vectors run along its contiguous axis, which is the inner loop."""
    problem, threads = kernel.spec.problem, kernel.threads
    c = problem.c
    outer, inner = (threads.i, threads.j) if c.contiguous == "N" else (threads.j, threads.i)
    counts = {"i": threads.rows.count, "j": threads.cols.count}
    element = Var("e", kernel.c_vector.value)

    index: dict[str, Expr] = {"i": threads.i, "j": threads.j}
    if kernel.c_vector.value > 1:
        index[inner.name] = inner + element
    product = f"acc[{text(index['i'])}][{text(index['j'])}]"
    scaled = f"scale * {product}" if problem.alpha else product
    return OutputView(
        outer=outer.name,
        outer_count=text(counts[outer.name]),
        inner=inner.name,
        inner_count=text(counts[inner.name]),
        m_index=text(threads.rows.index(threads.i)),
        n_index=text(threads.cols.index(threads.j)),
        valid=guard(kernel, c, kernel.c_vector, text),
        address=address(c, Var(c.strided.lower()), Var(c.contiguous.lower()), text),
        aligned=alignment(kernel, "C", kernel.c_vector.value),
        product=product,
        with_beta=f"fmaf(beta, out[e], {scaled})",
        without_beta=scaled,
    )
