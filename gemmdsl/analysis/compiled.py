"""What ptxas made of a kernel: its accesses as executed, its instructions and its registers.

The machine code of the path that the launcher takes is run, block by block, by `gemmdsl.analysis.sass`: once
for each class of blocks that can differ (edges, alignment of their origins, parts of K), and for few K tiles
when there are many, since every count is then a straight line in their number.  That it is one is checked
each time.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.analysis.access import Access, Count, Kind, Space
from gemmdsl.analysis.classes import Tile, axis_classes, blocks_of
from gemmdsl.analysis.lines import SourceMap, source_map
from gemmdsl.analysis.parts import PartClass, output_steps, part_classes, units_of
from gemmdsl.analysis.sass import AccessTotal, CannotEvaluate, Execution, Function, read_listing, run_block
from gemmdsl.analysis.shape import Shape, blocks, by_words, ceil_div, path_for
from gemmdsl.cubins import cached_cubin
from gemmdsl.cuda_source import CudaSource, Parameter
from gemmdsl.ir import Kernel, Path
from gemmdsl.spec import OperandName, tile_bytes
from gemmdsl.target import WARP_SIZE
from gemmdsl.toolchain import Usage, disassemble

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Row = NDArray[np.int64]

# Where the arguments of a kernel begin in constant bank 0, from this compute capability on.
_ARGUMENTS = ((100, 0x380), (90, 0x210), (70, 0x160))
# ptxas unrolls loops by powers of two up to this.
_UNROLLED = 8
# Far apart: matrices may be larger than any memory.
_POINTER_BITS = 60
_POINTERS: Mapping[OperandName, int] = {
    "A": 1 << _POINTER_BITS,
    "B": 2 << _POINTER_BITS,
    "C": 3 << _POINTER_BITS,
}
# Memory for parts of C.
_WORKSPACE = 4 << _POINTER_BITS
# More than blocks that share no K can have: eight alignments and a rest, of rows and of columns.
_MAX_CLASSES = 128

MIX: Mapping[str, tuple[str, ...]] = {
    "FFMA": ("FFMA", "FFMA2"),
    "other FP32": ("FMUL", "FADD", "FSEL", "FSETP", "FMNMX", "MUFU", "I2F", "F2I"),
    "shared loads": ("LDS",),
    "shared stores": ("STS",),
    "global loads": ("LDG",),
    "global stores": ("STG",),
    "global adds": ("RED", "REDG"),
    "async copies": ("LDGSTS", "LDGDEPBAR", "DEPBAR"),
    "local memory": ("LDL", "STL"),
    "barriers and branches": ("BAR", "BRA", "EXIT", "BSSY", "BSYNC", "CALL", "WARPSYNC", "NOP", "BMOV"),
}
_OTHER = "integer and moves"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel as compiled, for one shape.

    `issued` counts warps' instructions by source line over the launch, `mix` by kind; `loop_mix` is the same
    for one warp and K tile of the main loop, on average.  `thread_ffmas` counts FFMAs by thread, of which a
    warp has 32 or fewer.  `accesses` say nothing of K tiles.
    """

    entry: str
    compiler: str
    usage: Usage
    accesses: tuple[Access, ...]
    issued: Mapping[int, int]
    mix: Mapping[str, int]
    loop_mix: Mapping[str, float]
    thread_ffmas: int

    @property
    def instructions(self) -> int:
        return sum(self.mix.values())

    @property
    def wavefronts(self) -> int:
        """Shared wavefronts of the launch, loads and stores together."""
        return sum(access.total.cost for access in self.accesses if access.space == "shared")

    @property
    def ffma_share(self) -> float:
        """Part of all issued instructions that are FFMAs, in [0, 1]."""
        return self.mix.get("FFMA", 0) / self.instructions if self.instructions else 0.0

    @property
    def loop_ffma_share(self) -> float:
        total = sum(self.loop_mix.values())
        return self.loop_mix.get("FFMA", 0.0) / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Binary:
    """Machine code of a source: what ptxas reports and the instructions of each entry."""

    compiler: str
    usage: Mapping[str, Usage]
    functions: Mapping[str, Function]


def build(source: CudaSource) -> Binary:
    """Compiles and disassembles; ToolError when nvcc or nvdisasm is missing or refuses."""
    cubin = cached_cubin(source.text, source.target, line_info=True)
    return Binary(
        cubin.compiler,
        {usage.entry: usage for usage in cubin.usage},
        read_listing(disassemble(cubin.data)),
    )


def compiled(kernel: Kernel, source: CudaSource, binary: Binary, shape: Shape) -> Compiled:
    """Counts of the entry that the launcher takes for `shape`, over one launch.

    CannotEvaluate when the machine code has something that the model does not know; ValueError when an
    assumption of the schedule does not hold for the shape.
    """
    entry = source.plan.select(shape.sizes)
    if entry is None:
        raise ValueError(f"the schedule's assumptions do not hold for {shape}")
    path = path_for(kernel, shape)
    assert path is not None, "an entry belongs to a path"
    function, usage = binary.functions.get(entry.name), binary.usage.get(entry.name)
    if function is None or usage is None:
        raise CannotEvaluate(
            f"no {entry.name} in it" if function is None else f"no registers of {entry.name}"
        )
    runner = _Runner(kernel, source, function, shape)
    total, slope = runner.launch()
    places = source_map(source.text)
    warps = ceil_div(source.plan.threads, WARP_SIZE)
    issued: dict[int, int] = {}
    for instruction, count in zip(function.code, total.issued.tolist(), strict=True):
        if count:
            line = places.line(instruction.lines)
            issued[line] = issued.get(line, 0) + count
    loop = _mix(function, slope / warps)
    return Compiled(
        entry=entry.name,
        compiler=binary.compiler,
        usage=usage,
        accesses=_merged(kernel, path, function, places, total),
        issued=issued,
        mix={kind: int(count) for kind, count in _mix(function, total.issued).items()},
        loop_mix=loop,
        thread_ffmas=int(_mix(function, total.threads).get("FFMA", 0)),
    )


def _mix(function: Function, issued: NDArray[np.float64] | Row) -> dict[str, float]:
    mnemonics = (instruction.mnemonic for instruction in function.code)
    return by_kind(zip(mnemonics, issued.tolist(), strict=True))


def by_kind(counts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Counts of mnemonics added up by kind, in the order of MIX; kinds without any are left out."""
    kinds = {mnemonic: kind for kind, mnemonics in MIX.items() for mnemonic in mnemonics}
    found: dict[str, float] = dict.fromkeys((*MIX, _OTHER), 0.0)
    for mnemonic, count in counts:
        found[kinds.get(mnemonic, _OTHER)] += count
    return {kind: count for kind, count in found.items() if count}


def _merged(
    kernel: Kernel, path: Path, function: Function, places: SourceMap, total: _Counts
) -> tuple[Access, ...]:
    """Accesses of the same operand, memory, direction and width together.

    The compiler's line table is too coarse to tell neighbouring loads apart, so addresses say which operand
    an instruction is about, and with it which line of the text it comes from.
    """
    found: dict[tuple[OperandName, Space, Kind, int, bool], list[AccessTotal]] = {}
    shared = [access.lowest for (_, space), access in total.accesses.items() if space == "shared"]
    base = min(shared, default=0)
    for (index, space), access in total.accesses.items():
        if access.requests:
            operand = _operand(kernel, access, base)
            asynchronous = function.code[index].mnemonic == "LDGSTS"
            kind: Kind = "store" if access.kind == "copy" else access.kind
            key = (operand, space, kind, access.width, asynchronous)
            found.setdefault(key, []).append(access)
    merged = []
    for (operand, space, kind, width, asynchronous), accesses in found.items():
        dearest = max(accesses, key=lambda access: access.dearest)
        count = Count()
        for access in accesses:
            count += Count(access.requests, access.cost, access.ideal)
        site = places.access(operand, space, kind, by_words(kernel, operand, path))
        merged.append(
            Access(
                *(space, kind, operand, site.function, site.line, width),
                *(count, None, dearest.example, asynchronous, dearest.sources),
            )
        )
    return tuple(
        sorted(merged, key=lambda access: (access.operand or "", access.line, access.space, access.width))
    )


def _operand(kernel: Kernel, access: AccessTotal, base: int) -> OperandName:
    """The matrix whose memory, or whose shared tile, an access touches."""
    if access.space == "global":
        # Offsets from pointers are not negative, and less than what lies between two of them.
        place = access.lowest >> _POINTER_BITS
        return next((name for name, start in _POINTERS.items() if place == start >> _POINTER_BITS), "C")
    assert kernel.staging is not None
    # Slots follow each other, and in each B's tile follows A's.
    first, second = (tile_bytes(staging.tile.words) for staging in kernel.staging)
    return "A" if (access.lowest - base) % (first + second) < first else "B"


@dataclass(slots=True)
class _Counts:
    """Sums of executions: instructions issued for warps and executed by threads, accesses by instruction."""

    issued: Row
    threads: Row
    accesses: dict[tuple[int, Space], AccessTotal]

    def vector(self) -> Row:
        """All counts in one row, in a fixed order."""
        parts = [[total.requests, total.cost, total.ideal] for _, total in sorted(self.accesses.items())]
        return np.concatenate([self.issued, self.threads, np.array(parts, dtype=np.int64).ravel()])

    def with_vector(self, row: Row) -> _Counts:
        """These accesses with other counts."""
        length = len(self.issued)
        accesses = {}
        for place, (key, total) in enumerate(sorted(self.accesses.items())):
            start = 2 * length + 3 * place
            requests, cost, ideal = (int(n) for n in row[start : start + 3])
            accesses[key] = replace(total, requests=requests, cost=cost, ideal=ideal)
        return _Counts(row[:length], row[length : 2 * length], accesses)


def _counts(execution: Execution) -> _Counts:
    return _Counts(execution.issued, execution.threads, execution.accesses)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block: its number along the grid's first axis, and its part of K."""

    number: int
    part: PartClass


class _Runner:
    def __init__(self, kernel: Kernel, source: CudaSource, function: Function, shape: Shape) -> None:
        self.kernel, self.source, self.function, self.shape = kernel, source, function, shape
        # A kernel without staging walks K one by one.
        self.depth = kernel.block_k.value if kernel.block_k is not None else 1
        slots = kernel.staging[0].tile.slots if kernel.staging is not None else 1
        # Slots take turns, unrolled iterations and alignment of tiles repeat: after this many tiles all do.
        self.period = lcm(_UNROLLED, slots) if kernel.staging is not None else 4 * _UNROLLED
        self.parts = kernel.split.parts.value if kernel.split is not None else 1
        self.runs: dict[tuple[_Block, int], _Counts] = {}

    def launch(self) -> tuple[_Counts, NDArray[np.float64]]:
        """(counts of the launch, instructions that one more K tile costs an inner block)."""
        total: _Counts | None = None
        slope: NDArray[np.float64] = np.zeros(len(self.function.code))
        for block, times in self._classes():
            counts = self._block(block)
            row = counts.vector() * times
            if total is None:
                total, slope = counts.with_vector(row), self._slope(block)
            else:
                total = _dearest(total, counts).with_vector(total.vector() + row)
        if total is None:
            # A matrix without elements: nothing is launched.
            issued, threads = np.zeros((2, len(slope)), dtype=np.int64)
            return _Counts(issued, threads, {}), slope
        return total, slope

    def _block(self, block: _Block) -> _Counts:
        tiles, period = block.part.tiles, self.period
        base = period + tiles % period
        if tiles <= base + period:
            return self._run(block, tiles)
        small, large, largest = (self._run(block, base + n * period) for n in range(3))
        growth = large.vector() - small.vector()
        if not np.array_equal(largest.vector() - large.vector(), growth):
            return self._run(block, tiles)
        return small.with_vector(small.vector() + growth * ((tiles - base) // period))

    def _slope(self, block: _Block) -> NDArray[np.float64]:
        """Instructions that one more K tile costs a block, on average over a period."""
        base = self.period + block.part.tiles % self.period
        growth = self._run(block, base + self.period).issued - self._run(block, base).issued
        return growth / self.period

    def _run(self, block: _Block, tiles: int) -> _Counts:
        """Runs a block with as many K tiles, each other part of K longer or shorter by the same number.

        The part then begins at another K tile, and the last one is as full as the shape's.
        """
        if (block, tiles) not in self.runs:
            more = (tiles - block.part.tiles) * self.parts
            plan, k = self.source.plan, max(self.shape.k + more * self.depth, 0)
            constants = self._constants(k, plan.entry_parameters)
            self.runs[block, tiles] = _counts(
                run_block(self.function, constants, block.number, plan.threads, block.part.first)
            )
        return self.runs[block, tiles]

    def _constants(self, k: int, parameters: tuple[Parameter, ...]) -> dict[int, int]:
        """Constant bank 0: the arguments as a C struct; the words before it are the driver's."""
        shape = self.shape
        values: dict[str, int | float] = {**shape.sizes, "K": k, "alpha": 1.0, "beta": 0.0}
        values.update(_POINTERS.items())
        plan, layout = self.source.plan, {"int": "i", "float": "f"}
        if plan.workspace is not None:
            values[plan.workspace.parameter.name] = _WORKSPACE
        kinds = [layout.get(parameter.ctype, "Q") for parameter in parameters]
        packed = struct.pack("@" + "".join(kinds), *(values[parameter.name] for parameter in parameters))
        packed += bytes(-len(packed) % 4)
        start = next(base for capability, base in _ARGUMENTS if self.kernel.spec.target.number >= capability)
        words = dict.fromkeys(range(0, start, 4), 0)
        words.update({start + 4 * at: word for at, (word,) in enumerate(struct.iter_unpack("<I", packed))})
        return words

    def _classes(self) -> Iterable[tuple[_Block, int]]:
        """(a block, how many blocks are like it)."""
        problem, shape = self.kernel.spec.problem, self.shape
        # Floats from row to row of A and C, and from column to column of B and C.
        row_a = shape.lda if problem.a.strided == "M" else 1
        col_b = shape.ldb if problem.b.strided == "N" else 1
        ld_c, _ = output_steps(self.kernel, shape)
        row_c, col_c = (ld_c, 1) if problem.c.strided == "M" else (1, ld_c)
        units = unit_a, unit_b, unit_c = units_of(self.kernel, path_for(self.kernel, shape))
        rows = axis_classes(shape.m, self.kernel.block_m.value, (row_a, row_c), (unit_a, unit_c))
        cols = axis_classes(shape.n, self.kernel.block_n.value, (col_b, col_c), (unit_b, unit_c))
        parts = part_classes(self.kernel, shape)
        times: Counter[tuple[int, ...]] = Counter()
        found: dict[tuple[int, ...], tuple[Tile, PartClass]] = {}
        for row, col, part in product(rows, cols, parts):
            (row_at_a, row_at_c), (col_at_b, col_at_c) = row.residues, col.residues
            part_at_a, part_at_b, part_at_c = part.residues
            at = (row_at_a + part_at_a, col_at_b + part_at_b, row_at_c + col_at_c + part_at_c)
            places = (place % unit for place, unit in zip(at, units, strict=True))
            key = (*places, row.left, col.left, part.depth)
            found.setdefault(key, ((row.first, col.first), part))
            times[key] += row.times * col.times * part.times
        if len(times) > _MAX_CLASSES:
            raise CannotEvaluate(f"its blocks are of {len(times)} kinds, of which each would have to be run")
        tiles = {tile for tile, _ in found.values()}
        numbers = blocks_of(self.kernel.grid, blocks(self.kernel, shape), tiles)
        return [(_Block(numbers[tile], part), times[key]) for key, (tile, part) in found.items()]


def _dearest(one: _Counts, other: _Counts) -> _Counts:
    """`one` with the examples of `other` where those are dearer."""
    accesses = {
        key: replace(
            other.accesses[key] if other.accesses[key].dearest > total.dearest else total,
            lowest=min(total.lowest, other.accesses[key].lowest),
        )
        for key, total in one.accesses.items()
    }
    return _Counts(one.issued, one.threads, accesses)
