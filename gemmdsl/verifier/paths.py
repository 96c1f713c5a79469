"""Guards and alignment: what a path leaves out must follow from the conditions under which it runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

from gemmdsl.conditions import Aligned, Condition, Multiple
from gemmdsl.ir import Kernel, Path
from gemmdsl.spec import Assumption, Axis, OperandName
from gemmdsl.verifier.failure import (
    ALIGNMENT,
    EXPRESSED,
    GUARDS,
    LAST_RESORT,
    WHOLE_VECTORS,
    Refuted,
)


@dataclass(frozen=True, slots=True)
class _Moved:
    """How many floats of an operand a path moves at once in global memory.

    `whole` is the axis along which these lie where one instruction copies them without a look at each.
    """

    operand: OperandName
    width: int
    whole: Axis | None = None


def prove_paths(kernel: Kernel) -> str:
    """Every path's missing guards and vectors are backed; the last one requires only the assumptions."""
    blocks = [("M", kernel.block_m.value), ("N", kernel.block_n.value)]
    if kernel.block_k is not None:
        blocks.append(("K", kernel.block_k.value))
    vectors: list[tuple[OperandName, int]] = [("C", kernel.output_vector)]
    for staging in kernel.staging or ():
        vectors.append((staging.tile.operand.name, staging.copy.width.value))
    whole = {
        s.tile.operand.name: s.tile.operand.contiguous
        for s in kernel.staging or ()
        if s.tile.operand.name in kernel.asynchronous
    }
    # Vectors of C are torn into words where they may be unaligned; inputs are copied by the map of the path.
    moved = tuple(
        (
            _Moved("C", kernel.output_vector if "C" in path.aligned else 1),
            *(
                _Moved(s.tile.operand.name, s.copy_on(path).width.value, whole.get(s.tile.operand.name))
                for s in kernel.staging or ()
            ),
        )
        for path in kernel.paths
    )
    return _prove(kernel.paths, tuple(blocks), tuple(vectors), moved, kernel.spec.schedule.assumptions)


@lru_cache(maxsize=16)
def _prove(
    paths: tuple[Path, ...],
    blocks: tuple[tuple[Axis, int], ...],
    widths: tuple[tuple[OperandName, int], ...],
    moved: tuple[tuple[_Moved, ...], ...],
    assumptions: tuple[Assumption, ...],
) -> str:
    """`widths` are those of an operand's vectors, `moved` what each path moves at once in global memory."""
    if not paths:
        raise Refuted(LAST_RESORT, "the kernel has no path at all")
    for path, at_once in zip(paths, moved, strict=True):
        for axis, block in blocks:
            if axis in path.full and not _divides(path.requires, axis, block):
                raise Refuted(
                    GUARDS,
                    f"path {path.name} does not guard {axis}, which need not be a multiple of the block tile",
                    path=path.name,
                    axis=axis,
                    block=block,
                )
        for one in at_once:
            _prove_vectors(path, one)
    _prove_expressed(paths, {axis for axis, _ in blocks}, {name for name, width in widths if width > 1})
    _prove_last_resort(paths[-1], assumptions)
    names = ", ".join(path.name for path in paths)
    return f"guards ({names}): an axis without guard and a vector in global memory follow from the conditions"


def _prove_vectors(path: Path, moved: _Moved) -> None:
    operand, width = moved.operand, moved.width
    if width > 1 and not _aligns(path.requires, operand, width):
        raise Refuted(
            ALIGNMENT,
            f"path {path.name} moves {width} floats of {operand} at once, which may be unaligned",
            path=path.name,
            operand=operand,
            width=width,
        )
    if moved.whole is not None and width > 1 and not _divides(path.requires, moved.whole, width):
        raise Refuted(
            WHOLE_VECTORS,
            f"path {path.name} copies {width} floats of {operand} at once, and {moved.whole} may end in them",
            path=path.name,
            operand=operand,
            width=width,
            axis=moved.whole,
        )


def _prove_expressed(paths: tuple[Path, ...], axes: set[Axis], vectors: set[OperandName]) -> None:
    """The emitted text has one flag for all guards and one for all vectors: a path has all or no more.

    Two paths with the same flags would be one.
    """
    last = paths[-1]
    seen: set[tuple[bool, bool]] = set()
    for path in paths:
        full, aligned = path.full & axes, path.aligned & vectors
        if full not in (axes, last.full & axes) or aligned not in (vectors, last.aligned & vectors):
            raise Refuted(
                EXPRESSED,
                f"path {path.name} leaves out some guards or vectors, and not all that it may",
                path=path.name,
                full=", ".join(sorted(full)),
                aligned=", ".join(sorted(aligned)),
            )
        flags = (full == axes, aligned == vectors)
        if flags in seen:
            raise Refuted(EXPRESSED, f"path {path.name} is another path again", path=path.name)
        seen.add(flags)


def _divides(requires: tuple[Condition, ...], axis: Axis, block: int) -> bool:
    return any(
        isinstance(condition, Multiple) and condition.axis == axis and condition.of % block == 0
        for condition in requires
    )


def _aligns(requires: tuple[Condition, ...], operand: OperandName, width: int) -> bool:
    return any(
        isinstance(condition, Aligned) and condition.operand == operand and condition.elements % width == 0
        for condition in requires
    )


def _prove_last_resort(path: Path, assumptions: tuple[Assumption, ...]) -> None:
    for condition in path.requires:
        if not any(_implies(assumption, condition) for assumption in assumptions):
            raise Refuted(
                LAST_RESORT,
                f"path {path.name} is the last one but requires what the schedule does not assume",
                path=path.name,
                condition=str(condition),
            )
    for assumption in assumptions:
        if not any(_checks(condition, assumption) for condition in path.requires):
            raise Refuted(
                LAST_RESORT,
                f"no precondition checks the schedule's assumption {assumption}",
                path=path.name,
                assumption=str(assumption),
            )


def _implies(assumption: Assumption, condition: Condition) -> bool:
    match condition:
        case Multiple():
            return assumption.axis == condition.axis and assumption.multiple % condition.of == 0
        case Aligned():
            return assumption.operand == condition.operand
        case _:
            assert_never(condition)


def _checks(condition: Condition, assumption: Assumption) -> bool:
    match condition:
        case Multiple():
            return condition.axis == assumption.axis and condition.of % assumption.multiple == 0
        case Aligned():
            return condition.operand == assumption.operand
        case _:
            assert_never(condition)
