"""Specialisation: entries for full tiles and aligned operands beside the one that is always right."""

from __future__ import annotations

from dataclasses import replace

from gemmdsl.conditions import Aligned, Condition, Multiple, implied
from gemmdsl.ir import Kernel, Path
from gemmdsl.lowering import vector_width, whole_vectors
from gemmdsl.spec import Axis, OperandName


def specialise(kernel: Kernel) -> Kernel:
    """Adds the paths `fast` (whole tiles, aligned vectors) and `edge` (guards, aligned vectors).

    On both, vectors that are copied asynchronously lie inside the matrix wholly or not at all.

    Before: one path with every guard, element by element in global memory.  After: the launcher takes the
    first path whose conditions hold; `general` stays the last.  Paths that would equal it are not made.
    """
    general = kernel.paths[-1]
    blocks: dict[Axis, int] = {"M": kernel.block_m.value, "N": kernel.block_n.value}
    if kernel.block_k is not None:
        blocks["K"] = kernel.block_k.value
    inputs: tuple[OperandName, ...] = ("A", "B")
    widths = {name: vector_width(kernel.spec.schedule, name) for name in inputs} | {"C": kernel.output_vector}
    vectors = {name: width for name, width in widths.items() if width > 1}

    asked: list[Condition] = [one for name in vectors for one in whole_vectors(kernel.spec, name)]
    asked += [Aligned(name, width) for name, width in vectors.items()]
    for_vectors = [one for one in dict.fromkeys(asked) if not implied(one, general.requires)]
    multiples: list[Condition] = [
        Multiple(axis, block) for axis, block in blocks.items() if axis not in general.full
    ]
    everything_aligned = general.aligned | frozenset(vectors)
    paths: list[Path] = []
    if multiples or for_vectors:
        requires = dict.fromkeys((*general.requires, *multiples, *for_vectors))
        paths.append(Path("fast", general.full | frozenset(blocks), everything_aligned, tuple(requires)))
    if multiples and for_vectors:
        paths.append(Path("edge", general.full, everything_aligned, (*general.requires, *for_vectors)))
    if not paths:
        return kernel
    return replace(kernel, paths=(*paths, general))
