"""Where blocks share the K of a tile of C: which parts they have, and which of these are alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gemmdsl.analysis.banks import BANKS, BYPASS, WORD
from gemmdsl.analysis.classes import ALIGNMENT
from gemmdsl.analysis.shape import Shape, ceil_div, part_extents, path_for
from gemmdsl.index import evaluate
from gemmdsl.ir import Kernel, Path, Staging


@dataclass(frozen=True, slots=True)
class PartClass:
    """Parts of K that are alike: `first` is the number of one of them, `times` how many there are.

    `residues` are the distances from the first part's first elements in A and B, and from its place in memory
    for products, in floats modulo the units of `units_of`.  Parts are `depth` elements long, in `tiles` K
    tiles; a kernel without staging has tiles of one element.
    """

    first: int
    times: int
    residues: tuple[int, int, int]
    depth: int
    tiles: int


def units_of(kernel: Kernel, path: Path | None) -> tuple[int, int, int]:
    """Floats of A, B and C of which origins that are multiples apart are aligned alike, to all that counts.

    Sectors are counted for all of them; copies that pass the L1 cache by also by the line that they are of.
    """
    a, b = (
        BANKS if path is not None and staging is not None and passes_by(kernel, staging, path) else ALIGNMENT
        for staging in kernel.staging or (None, None)
    )
    return a, b, ALIGNMENT


def passes_by(kernel: Kernel, staging: Staging, path: Path) -> bool:
    """Whether an operand's tiles are copied asynchronously and past the L1 cache on a path."""
    wide = WORD * staging.copy_on(path).width.value >= BYPASS
    return wide and staging.tile.operand.name in kernel.asynchronous


def part_classes(kernel: Kernel, shape: Shape) -> tuple[PartClass, ...]:
    """Classes of the parts that blocks have; one of all of K where they share none."""
    units = units_of(kernel, path_for(kernel, shape))
    block_k = kernel.block_k.value if kernel.block_k is not None else 1
    problem = kernel.spec.problem
    k_a, k_b = (1 if x.contiguous == "K" else shape.ld(x.name) for x in (problem.a, problem.b))
    _, step = output_steps(kernel, shape)
    times: Counter[tuple[int, int, int, int]] = Counter()
    firsts: dict[tuple[int, int, int, int], int] = {}
    for number, (start, depth) in enumerate(part_extents(kernel, shape)):
        at_a, at_b, at_c = (
            place % unit for place, unit in zip((start * k_a, start * k_b, number * step), units, strict=True)
        )
        firsts.setdefault((at_a, at_b, at_c, depth), number)
        times[at_a, at_b, at_c, depth] += 1
    return tuple(
        PartClass(firsts[key], count, key[:3], key[3], ceil_div(key[3], block_k))
        for key, count in times.items()
    )


def output_steps(kernel: Kernel, shape: Shape) -> tuple[int, int]:
    """Floats from line to line of what blocks write to, C or memory for its parts, and from part to part."""
    workspace = kernel.workspace
    if workspace is None:
        return shape.ldc, 0
    sizes = {"M": shape.m, "N": shape.n}
    return int(evaluate(workspace.ld, sizes)), int(evaluate(workspace.floats, sizes))
