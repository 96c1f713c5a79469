"""Where blocks share the K of a tile of C: which parts they have, and which of these are alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gemmdsl.analysis.classes import ALIGNMENT
from gemmdsl.analysis.shape import Shape, ceil_div, part_extents
from gemmdsl.index import evaluate
from gemmdsl.ir import Kernel


@dataclass(frozen=True, slots=True)
class PartClass:
    """Parts of K that are alike: `first` is the number of one of them, `times` how many there are.

    `residues` are the distances from the first part's first elements in A and B, and from its place in memory
    for products, in floats modulo ALIGNMENT.  Parts are `depth` elements long, in `tiles` K tiles; a kernel
    without staging has tiles of one element.
    """

    first: int
    times: int
    residues: tuple[int, int, int]
    depth: int
    tiles: int


def part_classes(kernel: Kernel, shape: Shape) -> tuple[PartClass, ...]:
    """Classes of the parts that blocks have; one of all of K where they share none."""
    block_k = kernel.block_k.value if kernel.block_k is not None else 1
    problem = kernel.spec.problem
    k_a, k_b = (1 if x.contiguous == "K" else shape.ld(x.name) for x in (problem.a, problem.b))
    _, step = output_steps(kernel, shape)
    times: Counter[tuple[int, int, int, int]] = Counter()
    firsts: dict[tuple[int, int, int, int], int] = {}
    for number, (start, depth) in enumerate(part_extents(kernel, shape)):
        at_a, at_b, at_c = (place % ALIGNMENT for place in (start * k_a, start * k_b, number * step))
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
