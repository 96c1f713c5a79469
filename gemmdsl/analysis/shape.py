"""The sizes that counts are given for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.extents import ALL_TILES, K_FIRST, SPLIT, WHOLE
from gemmdsl.index import evaluate
from gemmdsl.ir import Kernel, Path
from gemmdsl.spec import Axis, Operand, OperandName, Problem

if TYPE_CHECKING:
    from gemmdsl.index import Array


@dataclass(frozen=True, slots=True)
class Shape:
    """One call: C[m, n] = A[m, k] @ B[k, n] with leading dimensions; pointers are aligned to 256 bytes.

    alpha is not 0 and beta is 0, so that C is written and not read.
    """

    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    def extent(self, axis: Axis) -> int:
        return {"M": self.m, "N": self.n, "K": self.k}[axis]

    def ld(self, operand: OperandName) -> int:
        return {"A": self.lda, "B": self.ldb, "C": self.ldc}[operand]

    @property
    def sizes(self) -> Mapping[str, int]:
        """As `gemmdsl.cuda_source.LaunchPlan.select` wants them."""
        return {
            "M": self.m,
            "N": self.n,
            "K": self.k,
            "lda": self.lda,
            "ldb": self.ldb,
            "ldc": self.ldc,
            "A": 0,
            "B": 0,
            "C": 0,
        }

    @property
    def flops(self) -> int:
        """Floating-point operations of the product: a multiplication and an addition each."""
        return 2 * self.m * self.n * self.k


def tight(problem: Problem, m: int, n: int, k: int) -> Shape:
    """The shape with matrices that lie without gaps."""
    extents = {"M": m, "N": n, "K": k}

    def ld(operand: Operand) -> int:
        return max(1, extents[operand.contiguous])

    return Shape(m, n, k, ld(problem.a), ld(problem.b), ld(problem.c))


def path_for(kernel: Kernel, shape: Shape) -> Path | None:
    """The path that the launcher takes; None when an assumption of the schedule does not hold."""
    if not all(condition.holds(shape.sizes) for condition in kernel.preconditions):
        return None
    return next(
        (path for path in kernel.paths if all(condition.holds(shape.sizes) for condition in path.requires)),
        None,
    )


def by_words(kernel: Kernel, operand: OperandName, path: Path) -> bool:
    """Whether the path copies the operand's tile by its map of single words."""
    if kernel.staging is None or operand == "C":
        return False
    staging = kernel.stage(operand)
    return staging.copy_on(path) is staging.words


def ceil_div(extent: int, block: int) -> int:
    return -(-extent // block)


def k_tiles(kernel: Kernel, shape: Shape) -> int:
    """Tiles along K that a block walks; 0 for a kernel without staging."""
    return ceil_div(shape.k, kernel.block_k.value) if kernel.block_k is not None else 0


def part_tiles(kernel: Kernel, shape: Shape) -> tuple[int, ...]:
    """Tiles along K of each block that shares a tile of C; of the one block where none do."""
    if kernel.block_k is None:
        return (k_tiles(kernel, shape),)
    return tuple(ceil_div(depth, kernel.block_k.value) for _, depth in part_extents(kernel, shape))


def part_extents(kernel: Kernel, shape: Shape) -> tuple[tuple[int, int], ...]:
    """(where it begins, how long it is) of each part of K that blocks share; all of it where none do."""
    if kernel.split is None:
        return ((0, shape.k),)
    numbers = np.arange(kernel.split.parts.value)
    env: dict[str, Array | int] = {
        WHOLE.name: shape.k,
        ALL_TILES.name: k_tiles(kernel, shape),
        SPLIT.name: numbers,
    }
    env[K_FIRST.name] = evaluate(kernel.split.first, env)
    both = (env[K_FIRST.name], evaluate(kernel.split.depth, env))
    firsts, depths = (np.broadcast_to(found, numbers.shape).tolist() for found in both)
    return tuple(zip(firsts, depths, strict=True))


def blocks(kernel: Kernel, shape: Shape) -> tuple[int, int]:
    """Blocks along M and N."""
    return ceil_div(shape.m, kernel.block_m.value), ceil_div(shape.n, kernel.block_n.value)
