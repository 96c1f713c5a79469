"""Tiles that are alike: as many elements left and the same alignment of the origin.

Only the first few tiles of an axis and its last one can differ, so that classes are counted without looking
at every tile: a product of a million rows has no more of them than one of a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.analysis.sectors import SECTOR
from gemmdsl.index import evaluate
from gemmdsl.layout import BLOCK, BLOCKS_M, BLOCKS_N, GridMap

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Floats of a sector: origins that are a multiple of this apart are aligned alike, to whom sectors are all.
ALIGNMENT = SECTOR // 4
_CHUNK = 1 << 16

Tile = tuple[int, int]


@dataclass(frozen=True, slots=True)
class AxisClass:
    """Tiles along one axis: `first` is the number of one of them, `times` how many there are.

    `residues` are the distances of their origin from that of the matrix, in floats modulo a unit, one for
    each step that was asked for; `left` is how many of a tile's indices lie within the axis.  `turn` is the
    tile's number modulo the turns that were asked for.
    """

    first: int
    times: int
    residues: tuple[int, ...]
    left: int
    turn: int = 0


def axis_classes(
    extent: int, size: int, steps: tuple[int, ...], units: tuple[int, ...] | None = None, turns: int = 1
) -> tuple[AxisClass, ...]:
    """Classes of the tiles of `size` indices that cover `extent`; `steps` are floats from index to index.

    `units` are what residues are taken modulo, ALIGNMENT for each step where they are not given.
    """
    units = units or (ALIGNMENT,) * len(steps)
    period = lcm(turns, *units)
    whole, rest = divmod(extent, size)
    times: dict[tuple[int, ...], int] = {}
    firsts: dict[tuple[int, ...], int] = {}

    def key_of(tile: int) -> tuple[int, ...]:
        places = (tile * size * step % unit for step, unit in zip(steps, units, strict=True))
        return (*places, tile % turns)

    # Tiles that are a period apart are aligned alike, whatever the steps.
    for tile in range(min(whole, period)):
        key = key_of(tile)
        firsts.setdefault(key, tile)
        times[key] = times.get(key, 0) + (whole - tile + period - 1) // period
    found = [AxisClass(firsts[key], count, key[:-1], size, key[-1]) for key, count in times.items()]
    if rest:
        *places, turn = key_of(whole)
        found.append(AxisClass(whole, 1, tuple(places), rest, turn))
    return tuple(found)


def blocks_of(grid: GridMap, blocks: Tile, wanted: Iterable[Tile]) -> dict[Tile, int]:
    """For each wanted tile of C (row, column), the number of the block that computes it.

    Blocks are looked at from both ends of the grid inwards, since tiles at edges of C are what is asked for.
    """
    per_m, per_n = blocks
    count = per_m * per_n
    sought = {row * per_n + col: (row, col) for row, col in wanted}
    found: dict[Tile, int] = {}
    low, high = 0, count
    while sought and low < high:
        middle = min(low + _CHUNK, high)
        parts = [(low, middle), (max(middle, high - _CHUNK), high)]
        for start, stop in parts:
            numbers: NDArray[np.int64] = np.arange(start, stop)
            env: dict[str, NDArray[np.int64] | int] = {
                BLOCK.name: numbers,
                BLOCKS_M.name: per_m,
                BLOCKS_N.name: per_n,
            }
            tiles = np.asarray(evaluate(grid.row, env) * per_n + evaluate(grid.col, env))
            for place in np.flatnonzero(np.isin(tiles, list(sought))).tolist():
                found[sought.pop(int(tiles[place]))] = int(numbers[place])
        low, high = middle, parts[1][0]
    assert not sought, "the verifier proves that every tile of C has its block"
    return found
