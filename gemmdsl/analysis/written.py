"""The accesses that a schedule asks for, one instruction each, evaluated on the emitter's own expressions.

Every count is exact for the shape, edges included: guards are the ones that the emitted text has, and only
the classes of blocks and K tiles that differ (alignment of their origin, elements left) are evaluated.
What ptxas makes of it is another matter: see `gemmdsl.analysis.compiled`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.analysis.access import Access, Count, Kind, Space
from gemmdsl.analysis.banks import BANKS, INACTIVE
from gemmdsl.analysis.classes import ALIGNMENT, axis_classes
from gemmdsl.analysis.lines import Site, SourceMap
from gemmdsl.analysis.parts import output_steps, part_classes, passes_by
from gemmdsl.analysis.shape import Shape, blocks, by_words, k_tiles, part_extents, part_tiles, path_for
from gemmdsl.analysis.steps import fragment_reads
from gemmdsl.analysis.tally import Tally
from gemmdsl.index import Expr, Int, Var, evaluate
from gemmdsl.ir import AddOutput, Kernel, Path, Staging, StoreOutput, StorePart, walk
from gemmdsl.layout import AxisMap, CopyMap, SharedTile
from gemmdsl.spec import Operand, OperandName, StagedName, tile_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gemmdsl.index import Array

    Mask = NDArray[np.bool_]

_FLOAT = 4


def written(kernel: Kernel, shape: Shape, places: SourceMap) -> tuple[Access, ...]:
    """Every access of a finished kernel to shared and global memory over one launch.

    ValueError when an assumption of the schedule does not hold for the shape.
    """
    path = path_for(kernel, shape)
    if path is None:
        raise ValueError(f"the schedule's assumptions do not hold for {shape}")
    return tuple(_Writer(kernel, shape, places, path).accesses())


@dataclass(frozen=True, slots=True)
class _Tile:
    """A class of tiles of an operand: same alignment of the origin, same extents left; `times` per launch.

    `slot` is where such a tile is kept, where that makes a difference.
    """

    residue: int
    fragment_left: int
    other_left: int
    times: int
    slot: int = 0


class _Writer:
    def __init__(self, kernel: Kernel, shape: Shape, places: SourceMap, path: Path) -> None:
        self.kernel, self.shape, self.places, self.path = kernel, shape, places, path
        self.blocks_m, self.blocks_n = blocks(kernel, shape)
        self.blocks = self.blocks_m * self.blocks_n
        self.tiles = k_tiles(kernel, shape)
        self.threads = np.arange(kernel.threads.threads.value)

    def accesses(self) -> Iterator[Access]:
        problem, threads = self.kernel.spec.problem, self.kernel.threads
        pairs = ((problem.a, threads.rows, self.blocks_n), (problem.b, threads.cols, self.blocks_m))
        for place, (operand, axis, repeats) in enumerate(pairs):
            if self.kernel.staging is not None:
                yield from self._staged(self.kernel.staging[place], axis, repeats)
            else:
                yield from self._direct(operand, axis, repeats)
        yield from self._output(problem.c)

    # Shared memory

    def _staged(self, staging: Staging, axis: AxisMap, repeats: int) -> Iterator[Access]:
        tile, copies, name = staging.tile, staging.copy_on(self.path), staging.tile.operand.name
        if name in self.kernel.asynchronous:
            yield from self._async_copy(staging, copies, repeats)
        else:
            yield from self._global_load(copies, repeats)
            store = staging.store.value if copies is staging.copy else copies.width.value
            tally = Tally("shared", "store", _FLOAT * store)
            for copy in range(copies.copies.value):
                exists = self._exists(copies, copy)
                for element in range(0, copies.width.value, store):
                    tally.add(self._stored_word(tile, copies, copy, element), exists, 1)
            yield self._shared(tally, tally.total * (self.tiles * self.blocks), name)
        yield self._read(staging, axis)

    def _read(self, staging: Staging, axis: AxisMap) -> Access:
        """Fragment reads: for each k, the thread's indices in steps of the read's width."""
        tile, name = staging.tile, staging.tile.operand.name
        one: StagedName = "A" if name == "A" else "B"
        reads: Counter[tuple[StagedName, int]] = Counter()
        for tiles, parts in Counter(part_tiles(self.kernel, self.shape)).items():
            for key, count in fragment_reads(self.kernel, tiles).items():
                reads[key] += count * parts
        assert self.kernel.block_k is not None
        counter, k = Var("i", axis.count.value), Var("k", self.kernel.block_k.value)
        row, col = tile.place(axis.index(counter), k)
        ks, indices = np.arange(k.extent), np.arange(0, counter.extent, staging.read.value)
        env = {"thread": self.threads, "i": indices[:, None], "k": ks[:, None, None]}
        words = np.broadcast_to(
            np.asarray(evaluate(row * tile.row_length + col, env), dtype=np.int64),
            (len(ks), len(indices), len(self.threads)),
        )
        per_tile = Tally("shared", "load", _FLOAT * staging.read.value)
        total = Count()
        for number, at_k in enumerate(words):
            once = per_tile.add(at_k, np.ones(at_k.shape, dtype=np.bool_), 1)
            total += once * (reads[one, number] * self.blocks)
        return self._shared(per_tile, total, name)

    def _shared(self, tally: Tally, total: Count, name: OperandName) -> Access:
        """A shared access that every block makes alike in every K tile."""
        site = self._site(name, "shared", tally.kind)
        return Access(
            *("shared", tally.kind, name, site.function, site.line, tally.width),
            *(total, tally.total, tally.example),
        )

    def _site(self, name: OperandName, space: Space, kind: Kind) -> Site:
        return self.places.access(name, space, kind, by_words(self.kernel, name, self.path))

    def _stored_word(self, tile: SharedTile, copies: CopyMap, copy: int, element: int) -> Array:
        row, col = tile.place(*copies.coordinates(copies.contiguous + element))
        return self._values(row * tile.row_length + col, copy)

    def _exists(self, copies: CopyMap, copy: int) -> Mask:
        mask: Mask = self._values(copies.vector, copy) < copies.vectors.value
        return mask

    # Global memory

    def _copied(
        self, copies: CopyMap, repeats: int, slots: int = 0
    ) -> Iterator[tuple[int, Array, Array, Mask, _Tile]]:
        """Copy, valid elements, first address, who takes part: for each class of tiles.

        With `slots`, tiles are told apart by where they are kept, and by the line that they begin in.
        """
        operand = copies.operand
        assert self.kernel.block_k is not None
        fragment = self.kernel.block_m if operand.name == "A" else self.kernel.block_n
        ld = self.shape.ld(operand.name)
        sizes = (fragment.value, self.kernel.block_k.value)
        classes = (
            self._classes(operand, *sizes, repeats)
            if not slots
            else self._slotted(operand, *sizes, repeats, slots)
        )
        for tile in classes:
            left = {"K": tile.other_left}
            for copy in range(copies.copies.value):
                strided = self._values(copies.strided, copy)
                contiguous = self._values(copies.contiguous, copy)
                strided_left = left.get(operand.strided, tile.fragment_left)
                contiguous_left = left.get(operand.contiguous, tile.fragment_left)
                valid = np.where(strided < strided_left, contiguous_left - contiguous, 0)
                address = tile.residue + strided * ld + contiguous
                yield copy, valid, address, self._exists(copies, copy), tile

    def _global_load(self, copies: CopyMap, repeats: int) -> Iterator[Access]:
        name, width = copies.operand.name, copies.width.value
        wide, single = Tally("global", "load", _FLOAT * width), Tally("global", "load", _FLOAT)
        known = name in self.path.aligned
        for _, valid, address, exists, tile in self._copied(copies, repeats):
            self._vector(wide, single, known, width, valid, address, exists, tile.times)
        yield from self._global((wide, single), name)

    def _vector(
        self,
        wide: Tally,
        single: Tally,
        aligned: bool,
        width: int,
        valid: Array,
        address: Array,
        active: Mask,
        times: int,
    ) -> None:
        """A guarded access of `width` neighbours: whole where allowed, else one by one."""
        whole = active & (valid >= width) & (aligned or width == 1)
        if whole.any():
            wide.add(address * _FLOAT, whole, times)
        for element in range(width):
            some = active & ~whole & (element < valid)
            if some.any():
                single.add((address + element) * _FLOAT, some, times)

    def _async_copy(self, staging: Staging, copies: CopyMap, repeats: int) -> Iterator[Access]:
        """Copies that pass the registers by: one instruction reads what exists and stores a whole vector.

        Lanes of which nothing exists store zeros and read nothing.
        """
        tile, name, bytes_ = staging.tile, copies.operand.name, _FLOAT * copies.width.value
        source, target = Tally("global", "load", bytes_), Tally("shared", "store", bytes_)
        past = passes_by(self.kernel, staging, self.path)
        first, stride = self._places(name) if past else (0, 0)
        slots = (tile.slots if stride % BANKS else 1) if past else 0
        for copy, valid, address, exists, origin in self._copied(copies, repeats, slots):
            reading = exists & (valid > 0)
            source.add(address * _FLOAT, reading, origin.times)
            sources = np.where(reading, address, INACTIVE)
            words = first + origin.slot * stride + self._stored_word(tile, copies, copy, 0)
            target.add(words, exists, origin.times, sources)
        yield from self._global((source, target), name, True)

    def _global(
        self, tallies: tuple[Tally, ...], name: OperandName, asynchronous: bool = False
    ) -> Iterator[Access]:
        """Accesses counted over the whole launch; those that never happen are left out."""
        for tally in tallies:
            if tally.total.requests:
                site = self._site(name, tally.space, tally.kind)
                per_tile = None if name == "C" else self._per_tile(tally.total)
                yield Access(
                    *(tally.space, tally.kind, name, site.function, site.line, tally.width),
                    *(tally.total, per_tile, tally.example, asynchronous, tally.sources),
                )

    def _per_tile(self, total: Count) -> Count | None:
        """The count for one block and K tile, if it is the same for all."""
        share = self.tiles * self.blocks
        numbers = (total.requests, total.cost, total.ideal)
        if share == 0 or any(number % share for number in numbers):
            return None
        return Count(*(number // share for number in numbers))

    def _direct(self, operand: Operand, axis: AxisMap, repeats: int) -> Iterator[Access]:
        """Reads of an operand that is not staged: one float per index and k."""
        tally = Tally("global", "load", _FLOAT)
        fragment = self.kernel.block_m if operand.name == "A" else self.kernel.block_n
        step = self.shape.ld(operand.name) if operand.contiguous == "K" else 1
        for tile in self._classes(operand, fragment.value, 1, repeats):
            for index in range(axis.count.value):
                at = self._values(axis.index(Int(index)))
                tally.add((tile.residue + at * step) * _FLOAT, at < tile.fragment_left, tile.times)
        yield from self._global((tally,), operand.name)

    def _output(self, c: Operand) -> Iterator[Access]:
        """Stores of C, vectors along its contiguous axis; or additions to it, or stores of parts."""
        threads, width = self.kernel.threads, self.kernel.c_vector.value
        ends = next(s for s in walk(self.kernel.body) if isinstance(s, StoreOutput | AddOutput | StorePart))
        kind: Kind = "add" if isinstance(ends, AddOutput) else "store"
        known = isinstance(ends, StorePart) or "C" in self.path.aligned
        if isinstance(ends, AddOutput):
            known = known and self.kernel.spec.target.vector_atomics
        ld, _ = output_steps(self.kernel, self.shape)
        # Parts without anything to add are left out; they are stored as zeros.
        starts = Counter[int]()
        for part in part_classes(self.kernel, self.shape):
            if part.tiles or not isinstance(ends, AddOutput):
                starts[part.residues[2]] += part.times
        wide, single = Tally("global", kind, _FLOAT * width), Tally("global", kind, _FLOAT)
        rows, cols = threads.rows, threads.cols
        step_m, step_n = (1, width) if c.contiguous == "N" else (width, 1)
        everyone = np.ones(len(self.threads), dtype=np.bool_)
        for tile in self._output_classes(c, ld, starts):
            for i in range(0, rows.count.value, step_m):
                m = self._values(rows.index(Int(i)))
                for j in range(0, cols.count.value, step_n):
                    n = self._values(cols.index(Int(j)))
                    strided, contiguous = (m, n) if c.contiguous == "N" else (n, m)
                    lefts = (tile.fragment_left, tile.other_left)
                    strided_left, contiguous_left = lefts if c.contiguous == "N" else lefts[::-1]
                    valid = np.where(strided < strided_left, contiguous_left - contiguous, 0)
                    address = tile.residue + strided * ld + contiguous
                    self._vector(wide, single, known, width, valid, address, everyone, tile.times)
        yield from self._global((wide, single), "C")

    # Classes of tiles

    def _classes(self, operand: Operand, fragment: int, depth: int, repeats: int) -> Iterator[_Tile]:
        """Classes of an input's tiles; the M or N extent first, then K."""
        extent = self.shape.extent("M" if operand.name == "A" else "N")
        ld = self.shape.ld(operand.name)
        steps = (ld, 1) if operand.contiguous == "K" else (1, ld)
        yield from _classes((extent, self.shape.k), (fragment, depth), steps, repeats)

    def _output_classes(self, c: Operand, ld: int, starts: Counter[int]) -> Iterator[_Tile]:
        """Classes of C's tiles, in matrices that begin at these floats, each so many times."""
        steps = (ld, 1) if c.contiguous == "N" else (1, ld)
        sizes = (self.kernel.block_m.value, self.kernel.block_n.value)
        for start, times in starts.items():
            for tile in _classes((self.shape.m, self.shape.n), sizes, steps, times):
                yield replace(tile, residue=(tile.residue + start) % ALIGNMENT)

    def _slotted(
        self, operand: Operand, fragment: int, depth: int, repeats: int, slots: int
    ) -> Iterator[_Tile]:
        """The classes of an input's tiles for each of the slots, which take turns in each part of K."""
        extent, ld = self.shape.extent("M" if operand.name == "A" else "N"), self.shape.ld(operand.name)
        step, step_k = (ld, 1) if operand.contiguous == "K" else (1, ld)
        times: Counter[tuple[int, int, int, int]] = Counter()
        rows = axis_classes(extent, fragment, (step,), (BANKS,))
        for start, length in part_extents(self.kernel, self.shape):
            for row, tile in product(rows, axis_classes(length, depth, (step_k,), (BANKS,), slots)):
                residue = (start * step_k + row.residues[0] + tile.residues[0]) % BANKS
                times[residue, row.left, tile.left, tile.turn] += row.times * tile.times
        for (residue, left, deep, slot), count in times.items():
            yield _Tile(residue, left, deep, count * repeats, slot)

    def _places(self, name: OperandName) -> tuple[int, int]:
        """Words from the first slot's first one to an operand's tile there, and from slot to slot."""
        assert self.kernel.staging is not None
        sizes = [tile_bytes(staging.tile.words) // _FLOAT for staging in self.kernel.staging]
        return (0 if name == "A" else sizes[0]), sum(sizes)

    def _values(self, expr: Expr, copy: int = 0) -> Array:
        env: dict[str, Array | int] = {"thread": self.threads, "copy": copy}
        return np.broadcast_to(np.asarray(evaluate(expr, env), dtype=np.int64), self.threads.shape)


def _classes(
    extents: tuple[int, int], sizes: tuple[int, int], steps: tuple[int, int], repeats: int
) -> Iterator[_Tile]:
    """Classes of the tiles of a matrix: `steps` are floats from index to index of each axis."""
    times: Counter[tuple[int, int, int]] = Counter()
    axes = (axis_classes(extents[axis], sizes[axis], (steps[axis],)) for axis in range(2))
    for one, other in product(*axes):
        residue = (one.residues[0] + other.residues[0]) % ALIGNMENT
        times[residue, one.left, other.left] += one.times * other.times
    for (residue, first_left, second_left), count in times.items():
        yield _Tile(residue, first_left, second_left, count * repeats)
