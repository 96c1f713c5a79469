"""The grid: each tile of C has exactly one block, whatever the numbers of tiles.

Small grids are enumerated, which gives counterexamples.  All grids are covered by a second look, at the very
expressions of the grid's map, with polynomials for values: a block's number is written by the tile that it
should have, and the map has to give that tile back.

A group of `group` rows of tiles has group * blocks_n blocks; the last one may have fewer rows.  With r rows,
block number group * blocks_n * g + r * x + y is to compute row group * g + y of tiles and column x, for
0 <= y < r and 0 <= x < blocks_n.  Each number of a block is of that form once, and so is each tile; so a map
that gives these tiles gives each of them to exactly one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.index import Expr, Op, evaluate
from gemmdsl.layout import BLOCK, BLOCKS_M, BLOCKS_N, GridMap
from gemmdsl.verifier.enumerate import missing_or_repeated
from gemmdsl.verifier.failure import BLOCKS, Refuted
from gemmdsl.verifier.polynomials import Polynomial, number, polynomial, variables

if TYPE_CHECKING:
    from gemmdsl.index import Array


@lru_cache(maxsize=16)
def prove_blocks(grid: GridMap) -> str:
    """Every tile of C has exactly one block, and no index on the way is larger than the number of blocks."""
    for rows, cols in _small(grid):
        _enumerate(grid, rows, cols)
    for case in _cases(grid):
        _show(grid, case)
    return "grid: each tile of C belongs to exactly one block"


def _small(grid: GridMap) -> Iterator[tuple[int, int]]:
    """Grids to enumerate: of few tiles, and of numbers of tiles about one, two and three groups."""
    yield from ((rows, cols) for rows in range(1, 8) for cols in range(1, 8))
    group = grid.group.value if grid.group else 1
    for count in sorted({max(1, turns * group + extra) for turns in (1, 2, 3) for extra in (-1, 0, 1)}):
        for other in (1, 5, 23):
            yield (count, other) if grid.along == "M" else (other, count)


def _enumerate(grid: GridMap, rows: int, cols: int) -> None:
    env: dict[str, Array | int] = {
        BLOCK.name: np.arange(rows * cols, dtype=np.int64),
        BLOCKS_M.name: rows,
        BLOCKS_N.name: cols,
    }
    # A wrong map may divide by 0.
    with np.errstate(divide="ignore"):
        row, col = (np.broadcast_to(evaluate(part, env), (rows * cols,)) for part in (grid.row, grid.col))
    outside = (row < 0) | (row >= rows) | (col < 0) | (col >= cols)
    if outside.any() or missing_or_repeated(row * cols + col, rows * cols) is not None:
        raise Refuted(
            BLOCKS,
            f"the {rows} x {cols} tiles of C do not have one block each",
            blocks_m=rows,
            blocks_n=cols,
        )


@dataclass(frozen=True, slots=True)
class _Case:
    """Blocks of some groups: their number, the tile they should have, and the grid's numbers of tiles.

    Named as for groups of rows; `lines` and `across` are the numbers of rows and columns of tiles.
    """

    name: str
    group: Polynomial
    lines: Polynomial
    across: Polynomial
    block: Polynomial
    line: Polynomial
    place: Polynomial


def _cases(grid: GridMap) -> Iterator[_Case]:
    """Blocks of a whole group; of a part of one that is the only group; of a part of one that is the last."""
    # The first ones count most: a division by whole groups is one by the rows that others lack.
    missing, beside, below, after, before, x, y = variables(7)
    one = number(1)
    across = x + one + beside
    # Rows of the block's own group: y above it, and `below` after it.
    rows = y + one + below if grid.group else one
    inner = y if grid.group else number(0)

    def case(name: str, group: Polynomial, g: Polynomial, lines: Polynomial) -> _Case:
        block = group * across * g + rows * x + inner
        return _Case(name, group, lines, across, block, group * g + inner, x)

    yield case("in a whole group", rows, before, rows * (before + one) + after)
    if grid.group:
        group = rows + one + missing
        yield case("in a single group that is not whole", group, number(0), rows)
        g = before + one
        yield case("in a last group that is not whole", group, g, group * g + rows)


def _show(grid: GridMap, case: _Case) -> None:
    """That the map gives the blocks of a case their tiles; raises Refuted where it is not shown."""
    swapped = grid.along == "N"
    env: dict[Expr, Polynomial] = {
        BLOCK: case.block,
        BLOCKS_M: case.across if swapped else case.lines,
        BLOCKS_N: case.lines if swapped else case.across,
    }
    if grid.group is not None:
        env[grid.group] = case.group
    check = _within(case.lines * case.across)
    wanted = (case.place, case.line) if swapped else (case.line, case.place)
    for axis, expr, tile in (("row", grid.row, wanted[0]), ("column", grid.col, wanted[1])):
        if polynomial(expr, env, check) != tile:
            group = grid.group.value if grid.group else 1
            message = f"a block {case.name} does not get its {axis} of tiles for all numbers of tiles"
            raise Refuted(BLOCKS, message, group=group)


def _within(blocks: Polynomial) -> Callable[[Op, Polynomial], None]:
    """Refuses what may lie outside of 0 and the number of blocks."""

    def check(expr: Op, found: Polynomial) -> None:
        if not (number(0).at_most(found) and found.at_most(blocks)):
            message = "an index of the grid may be negative, or larger than the number of blocks"
            raise Refuted(BLOCKS, message, operator=expr.kind)

    return check
