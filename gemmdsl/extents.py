"""What a kernel learns of matrices at run time: tiles that cover them, where a block begins, what is left.

Variables: `M`, `N` and `depth` are extents, `block_row` and `block_col` the block's origin; `m`, `n` and `k`
are coordinates within a tile, `m_left`, `n_left` and `k_left` what the matrices hold from its origin on.
"""

from __future__ import annotations

from gemmdsl.index import Expr, Int, Named, Var, choose, either, less, unequal
from gemmdsl.spec import Axis, Operand

# The extent along K that is multiplied.
DEPTH = Var("depth")
# Where the block's tile of C begins.
BLOCK_ROW = Var("block_row")
BLOCK_COL = Var("block_col")
# 1 on a path whose axes are all whole tiles.
FULL = Var("FULL", 2)


def tiles(extent: Expr, block: Named) -> Expr:
    """How many tiles of `block` cover an extent: rounded up without adding, which could overflow."""
    return extent // block + unequal(extent % block, Int(0))


def coordinate(axis: Axis) -> Var:
    """m, n or k."""
    return Var(axis.lower())


def left(axis: Axis) -> Var:
    """m_left, n_left or k_left."""
    return Var(f"{axis.lower()}_left")


def rows_left() -> tuple[Expr, Expr]:
    """m_left and n_left of a block."""
    return Var("M") - BLOCK_ROW, Var("N") - BLOCK_COL


def k_left(tile: Expr, block_k: Named) -> Expr:
    """k_left at the origin of a K tile."""
    return DEPTH - tile * block_k


def exists(axis: Axis, full: Expr) -> Expr:
    """Whether a coordinate lies in the matrix; `full` is 1 where that is known."""
    return either(full, less(coordinate(axis), left(axis)))


def neighbours_left(operand: Operand, width: Expr, assumed: frozenset[Axis], full: Expr) -> Expr:
    """How many neighbours of an operand exist from a coordinate on, of the `width` that are asked for.

    None exist where the number is negative, all where it is `width` or more.  `assumed` axes are known to be
    whole tiles; so are all of them where `full` is 1.
    """
    strided, contiguous = operand.strided, operand.contiguous
    count = width if contiguous in assumed else left(contiguous) - coordinate(contiguous)
    if strided not in assumed:
        count = choose(less(coordinate(strided), left(strided)), count, Int(0))
    return choose(full, width, count)
