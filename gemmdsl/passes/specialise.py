"""Specialisation: entries for full tiles and aligned operands beside the one that is always right."""

from __future__ import annotations

from dataclasses import replace

from gemmdsl.conditions import Aligned, Condition, Multiple
from gemmdsl.ir import Kernel, Path
from gemmdsl.lowering import vector_width
from gemmdsl.spec import Axis, OperandName


def specialise(kernel: Kernel) -> Kernel:
    """Adds the paths `fast` (whole tiles, aligned vectors) and `edge` (guards, aligned vectors).

    Before: one path with every guard, element by element in global memory.  After: the launcher takes the
    first path whose conditions hold; `general` stays the last.  Paths that would equal it are not made.
    """
    general = kernel.paths[-1]
    blocks: dict[Axis, int] = {"M": kernel.block_m.value, "N": kernel.block_n.value}
    if kernel.block_k is not None:
        blocks["K"] = kernel.block_k.value
    operands: tuple[OperandName, ...] = ("A", "B", "C")
    widths = {name: vector_width(kernel.spec.schedule, name) for name in operands}
    vectors = {name: width for name, width in widths.items() if width > 1}

    alignment: list[Condition] = [
        Aligned(name, width) for name, width in vectors.items() if name not in general.aligned
    ]
    multiples: list[Condition] = [
        Multiple(axis, block) for axis, block in blocks.items() if axis not in general.full
    ]
    everything_aligned = general.aligned | frozenset(vectors)
    paths: list[Path] = []
    if multiples or alignment:
        paths.append(
            Path(
                "fast",
                general.full | frozenset(blocks),
                everything_aligned,
                (*general.requires, *multiples, *alignment),
            )
        )
    if multiples and alignment:
        paths.append(Path("edge", general.full, everything_aligned, (*general.requires, *alignment)))
    if not paths:
        return kernel
    return replace(kernel, paths=(*paths, general))
