"""Staged tiles: copied exactly once, kept at distinct words, moved in aligned vectors, read where stored.

An element of an operand's tile is (f, k): f along M for A and along N for B, k along K.  The table of words
[f][k] is the meeting point: copies are proved to store to it and reads to read from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.index import Int, Var, evaluate
from gemmdsl.ir import Staging
from gemmdsl.layout import CopyMap, SharedTile, ThreadMap
from gemmdsl.spec import Problem
from gemmdsl.verifier.enumerate import first, missing_or_repeated, values
from gemmdsl.verifier.failure import (
    COPY_COVERAGE,
    COPY_VECTORS,
    PLACEMENT,
    READ_VECTORS,
    READS,
    SHARED_STORES,
    STEPS,
    Refuted,
)
from gemmdsl.verifier.outputs import not_vectors, owned

if TYPE_CHECKING:
    from gemmdsl.index import Array


@dataclass(frozen=True, slots=True)
class Conflict:
    """A word of a slot that one thread's copy writes and another thread reads."""

    word: int
    writer: int
    reader: int


def extents(tile: SharedTile) -> tuple[int, int]:
    """(fragment elements, depth) of a tile."""
    rows, cols = tile.rows.value, tile.cols.value
    return (cols, rows) if tile.k_outer else (rows, cols)


def prove_operands(staging: tuple[Staging, Staging], problem: Problem) -> None:
    """The first tile holds A and is filled from A, the second one B from B."""
    for stage, operand in zip(staging, (problem.a, problem.b), strict=True):
        for copy in stage.maps:
            if stage.tile.operand != operand or copy.operand != operand:
                raise Refuted(
                    PLACEMENT,
                    f"the tile of {operand.name} is one of {stage.tile.operand.name}, copied from"
                    f" {copy.operand.name}, or of another order in memory",
                    operand=operand.name,
                )


@lru_cache(maxsize=16)
def words(tile: SharedTile) -> Array:
    """[f][k] word within a slot of each element, proved distinct and outside of the padding."""
    name = tile.operand.name
    fragment, depth = extents(tile)
    f, k = Var("f", fragment), Var("k", depth)
    row, col = (values(part, f, k) for part in tile.place(f, k))
    outside = (row < 0) | (row >= tile.rows.value) | (col < 0) | (col >= tile.cols.value)
    if tile.row_length.value < tile.cols.value or outside.any():
        at = first(outside) if outside.any() else (0, 0)
        raise Refuted(
            PLACEMENT,
            f"an element of {name}'s tile is kept outside of its shared array",
            f=at[0],
            k=at[1],
            row=int(row[at]),
            column=int(col[at]),
            rows=tile.rows.value,
            columns=tile.cols.value,
            row_length=tile.row_length.value,
        )
    used = row * tile.cols.value + col
    if missing_or_repeated(used, fragment * depth) is not None:
        order = np.argsort(used, axis=None, kind="stable")
        twice = int(np.argmax(np.diff(used.ravel()[order]) == 0))
        one, other = (divmod(int(element), depth) for element in order[twice : twice + 2])
        raise Refuted(
            PLACEMENT,
            f"two elements of {name}'s tile share a word",
            f=one[0],
            k=one[1],
            other_f=other[0],
            other_k=other[1],
            row=int(row[one]),
            column=int(col[one]),
        )
    return row * tile.row_length.value + col


@lru_cache(maxsize=16)
def copiers(copy: CopyMap, threads: Var, fragment: int, depth: int) -> Array:
    """[f][k] thread that copies each element, proved to be exactly one; global vectors proved aligned.

    `threads` are all of the block, which run the copy whatever its map says of their number.
    """
    name, width = copy.operand.name, copy.width.value
    k_strided = copy.operand.strided == "K"
    strided_extent, extent = (depth, fragment) if k_strided else (fragment, depth)
    axes = (copy.copy, threads)
    exists = values(copy.vector, *axes) < copy.vectors.value
    if not copy.partial and not exists.all():
        round_, thread = first(~exists)
        env: dict[str, Array | int] = {"copy": round_, "thread": thread}
        raise Refuted(
            COPY_COVERAGE,
            f"a copy of {name} is beyond its {copy.vectors.value} vectors, and nothing keeps it from running",
            thread=thread,
            copy=round_,
            vector=int(evaluate(copy.vector, env)),
        )
    strided, start = values(copy.strided, *axes)[exists], values(copy.contiguous, *axes)[exists]
    who = np.broadcast_to(np.arange(threads.extent), exists.shape)[exists]
    rounds = np.broadcast_to(np.arange(copy.copy.extent)[:, None], exists.shape)[exists]

    def witness(at: int) -> dict[str, int | str]:
        return {
            "thread": int(who[at]),
            "copy": int(rounds[at]),
            copy.operand.strided.lower(): int(strided[at]),
            copy.operand.contiguous.lower(): int(start[at]),
        }

    outside = (strided < 0) | (strided >= strided_extent) | (start < 0) | (start + width > extent)
    if outside.any():
        raise Refuted(
            COPY_COVERAGE,
            f"a copy of {name} reaches outside of its tile",
            **witness(first(outside)[0]),
            width=width,
        )
    askew = start % width != 0
    if askew.any():
        raise Refuted(
            COPY_VECTORS,
            f"a {width}-float load of {name} does not start at a multiple of {width}",
            **witness(first(askew)[0]),
            width=width,
        )
    elements = strided[:, None] * extent + start[:, None] + np.arange(width)
    # Vectors from multiples of the width on that cover a row once divide it, so that a tile's origin in
    # global memory, a multiple of the row, is one of the width too.
    broken = missing_or_repeated(elements, strided_extent * extent)
    if broken is not None:
        row, column = divmod(broken, extent)
        place: dict[str, int | str] = {
            copy.operand.strided.lower(): row,
            copy.operand.contiguous.lower(): column,
        }
        copied = np.argwhere(elements == broken)
        if not len(copied):
            raise Refuted(COPY_COVERAGE, f"no thread copies an element of {name}'s tile", **place)
        one, other = int(copied[0, 0]), int(copied[1, 0])
        raise Refuted(
            COPY_COVERAGE,
            f"an element of {name}'s tile is copied twice",
            **place,
            thread=int(who[one]),
            copy=int(rounds[one]),
            other_thread=int(who[other]),
            other_copy=int(rounds[other]),
        )
    by_element = np.empty(strided_extent * extent, dtype=np.int64)
    by_element[elements] = who[:, None]
    table = by_element.reshape(strided_extent, extent)
    return table.T if k_strided else table


def _prove_steps(tile: SharedTile, copy: CopyMap, threads: Var) -> None:
    """Where a copy's place is counted from the thread's first one, that is the place of the copy's map."""
    element = Var("element", copy.width.value)
    axes = (copy.copy, threads, element)
    exists = np.broadcast_to(
        (values(copy.vector, *axes[:2]) < copy.vectors.value)[..., None],
        (copy.copy.extent, threads.extent, element.extent),
    )

    def same(one: Array, other: Array, where: str) -> None:
        differs = (np.broadcast_to(one, exists.shape) != np.broadcast_to(other, exists.shape)) & exists
        if differs.any():
            round_, thread, at = first(differs)
            what = f"a copy of {copy.operand.name} steps to another place {where} than its map says"
            raise Refuted(STEPS, what, thread=thread, copy=round_, element=at)

    walk = copy.walk()
    if walk is not None:
        (strided, contiguous), (strided_on, contiguous_on) = walk
        same(values(strided + strided_on, *axes), values(copy.strided, *axes), "in global memory")
        same(values(contiguous + contiguous_on, *axes), values(copy.contiguous, *axes), "in global memory")
    # Both ways of printing a place: element by element, and of a vector's first element alone.
    names = tuple(part.name for part in tile.coordinates)
    first_element = copy.coordinates(copy.contiguous)
    env: dict[str, Array | int] = {
        **dict(zip(names, (values(part, *axes) for part in first_element), strict=True)),
        **{var.name: values(var, *axes) for var in axes},
    }
    for part in (element, Int(0)):
        row, col = tile.place(*copy.coordinates(copy.contiguous + part))
        start, on = copy.shared_places(tile, part)
        printed = np.asarray(evaluate(start, env)) + np.asarray(evaluate(on, env))
        same(printed, values(row * tile.row_length + col, *axes), "in shared memory")


@lru_cache(maxsize=16)
def prove_copies(staging: Staging, threads: Var) -> tuple[str, ...]:
    """Copies by each map cover the tile once and store each element to its word, in aligned vectors."""
    tile, copy, store = staging.tile, staging.copy, staging.store.value
    _prove_map(tile, copy, store, threads)
    if staging.words is not None:
        # On its paths shared stores are as wide as the loads.
        _prove_map(tile, staging.words, staging.words.width.value, threads)
    name, width, (fragment, depth) = tile.operand.name, copy.width.value, extents(tile)
    elements, by = fragment * depth, f"{threads.extent} threads"
    vectors = f"in {copy.vectors.value} vectors of {width}" if width > 1 else "one by one"
    otherwise = "" if staging.words is None else ", or singly"
    return (
        f"{name} tile: {elements} elements copied exactly once by {by} {vectors}{otherwise}",
        f"{name} tile: {elements} elements at distinct shared words"
        + (f", padding of {tile.pad.value} unused" if tile.pad else "")
        + (f", stored {store} at a time, aligned" if store > 1 else ""),
    )


def _prove_map(tile: SharedTile, copy: CopyMap, store: int, threads: Var) -> None:
    """Copies by one map, which reach the tile in shared stores of `store` floats."""
    name, width, (fragment, depth) = tile.operand.name, copy.width.value, extents(tile)
    copiers(copy, threads, fragment, depth)
    table = words(tile)

    lane = Var("lane", width)
    axes = (copy.copy, threads, lane)
    exists = values(copy.vector, *axes[:2]) < copy.vectors.value
    coordinates = copy.coordinates(copy.contiguous + lane)
    f, k = (values(part, *axes)[exists] for part in coordinates)
    row, col = (values(part, *axes)[exists] for part in tile.place(*coordinates))
    stored = row * tile.row_length.value + col
    wrong = stored != table[f, k]
    if wrong.any():
        at = first(wrong)
        raise Refuted(
            PLACEMENT,
            f"a copy of {name} stores an element to a word that is not its own",
            f=int(f[at]),
            k=int(k[at]),
            word=int(stored[at]),
            expected=int(table[f[at], k[at]]),
        )
    _prove_steps(tile, copy, threads)
    if width % store or (tile.transposed and store != 1):
        raise Refuted(
            SHARED_STORES,
            f"{width} loaded floats of {name} cannot be stored {store} at a time",
            load=width,
            store=store,
            transposed=str(tile.transposed).lower(),
        )
    broken = not_vectors(stored, store)
    if broken is not None or tile.words % store:
        vector, at_lane = broken or (0, 0)
        raise Refuted(
            SHARED_STORES,
            f"a {store}-float shared store of {name} is not aligned or not to neighbouring words",
            f=int(f[vector, at_lane]),
            k=int(k[vector, at_lane]),
            slot_words=tile.words,
            **{f"word{d}": int(stored[vector, at_lane + d]) for d in range(store)},
        )


@lru_cache(maxsize=16)
def prove_reads(staging: Staging, threads: ThreadMap, block_k: int) -> str:
    """Fragment reads stay in the tile, read the elements that the outputs need, in aligned vectors."""
    tile, width = staging.tile, staging.read.value
    name, axis = tile.operand.name, tile.fragment_axis
    counter, of_axis = (threads.i, threads.rows) if axis == "M" else (threads.j, threads.cols)
    fragment, depth = extents(tile)
    for along, here, block in ((axis, fragment, of_axis.block.value), ("K", depth, block_k)):
        if here != block:
            raise Refuted(
                READS,
                f"{name}'s tile has {here} elements along {along}, the block tile {block}",
                axis=along,
                tile=here,
                block=block,
            )
    table, needed = words(tile), owned(threads, axis)
    count = needed.shape[1]
    k = Var("k", depth)
    row, col = tile.place(of_axis.index(counter), k)
    read = values(row * tile.row_length + col, threads.thread, counter, k)
    wrong = read != table[needed]
    if wrong.any():
        thread, i, at = first(wrong)
        raise Refuted(
            READS,
            f"thread {thread} reads a word of {name}'s tile that does not hold its fragment",
            thread=thread,
            k=at,
            word=int(read[thread, i, at]),
            expected=int(table[needed[thread, i], at]),
            **{counter.name: i, axis.lower(): int(needed[thread, i])},
        )
    if width > 1:
        _prove_read_vectors(staging, threads, table, needed)
    at_once = f", {width} at a time, aligned" if width > 1 else ""
    return f"{name} reads: {count} elements per thread and k, each where it was stored{at_once}"


def _prove_read_vectors(staging: Staging, threads: ThreadMap, table: Array, needed: Array) -> None:
    tile, width = staging.tile, staging.read.value
    name, count = tile.operand.name, needed.shape[1]
    if not tile.k_outer or count % width or tile.words % width:
        raise Refuted(
            READ_VECTORS,
            f"fragments of {name} cannot be read {width} at a time",
            width=width,
            fragment=count,
            slot_words=tile.words,
            k_outer=str(tile.k_outer).lower(),
        )
    grouped = needed.reshape(len(needed), -1, width)
    apart = (grouped != grouped[:, :, :1] + np.arange(width)).any(axis=2)
    if apart.any():
        thread, group = first(apart)
        raise Refuted(
            READ_VECTORS,
            f"{width} fragment elements of thread {thread} are no neighbours in {name}'s tile",
            thread=thread,
            width=width,
            **{f"f{d}": int(grouped[thread, group, d]) for d in range(width)},
        )
    starts = np.flatnonzero(np.bincount(grouped[:, :, 0].ravel()))
    # [starts * depth][width]: the words of each vector that anyone reads, for every k.
    vectors = table[starts[:, None] + np.arange(width)].transpose(0, 2, 1).reshape(-1, width)
    broken = not_vectors(vectors, width)
    if broken is not None:
        start, k = divmod(broken[0], table.shape[1])
        f = int(starts[start])
        raise Refuted(
            READ_VECTORS,
            f"a {width}-float shared read of {name} is not aligned or not of neighbouring words",
            thread=first(grouped[:, :, 0] == f)[0],
            f=f,
            k=k,
            **{f"word{d}": int(vectors[broken[0], d]) for d in range(width)},
        )


@lru_cache(maxsize=16)
def conflict(staging: Staging, threads: ThreadMap) -> Conflict | None:
    """A word of a slot that is written by one thread's copy and read by another thread, if there is one.

    Writers of different words never meet: by a map each word has one copier, the same for every tile, and
    all tiles of a launch are copied by one map.
    """
    found = (_conflict(staging.tile, copy, threads) for copy in staging.maps)
    return next((one for one in found if one is not None), None)


def _conflict(tile: SharedTile, copy: CopyMap, threads: ThreadMap) -> Conflict | None:
    fragment, depth = extents(tile)
    writer = copiers(copy, threads.thread, fragment, depth)
    read = owned(threads, tile.fragment_axis)
    count, per_thread = read.shape
    readers = np.repeat(np.arange(count), per_thread)
    # Assignment in order leaves the last of equal indices: the highest reader, and the lowest when reversed.
    highest = np.full(fragment, -1)
    highest[read.ravel()] = readers
    lowest = np.full(fragment, -1)
    lowest[read.ravel()[::-1]] = readers[::-1]
    other = np.where(writer != highest[:, None], highest[:, None], lowest[:, None])
    clash = (other != writer) & (other >= 0)
    if not clash.any():
        return None
    at = first(clash)
    return Conflict(int(words(tile)[at]), int(writer[at]), int(other[at]))
