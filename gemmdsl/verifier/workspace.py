"""Where the parts of K are kept until they are added up: a word for each element of each part of C.

Small outputs are enumerated, which gives counterexamples.  All outputs are covered by a second look, at the
very expressions that are printed, with polynomials for values: an element's place divided by the floats of a
part, and the remainder by those of a line, give part, line and place in the line back, so that no two
elements have the same word.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.extents import BLOCK_COL, BLOCK_ROW, PART, SPLIT, WorkspaceMap, coordinate
from gemmdsl.index import Expr, Var, evaluate
from gemmdsl.ir import Kernel, ReduceParts, StorePart, walk
from gemmdsl.verifier.enumerate import first
from gemmdsl.verifier.failure import WORKSPACE, Refuted
from gemmdsl.verifier.polynomials import Polynomial, number, polynomial, variables

if TYPE_CHECKING:
    from gemmdsl.index import Array

_INT_MAX, _WIDE_MAX = 2**31 - 1, 2**63 - 1
_FLOAT = 4
_M, _N = coordinate("M"), coordinate("N")
_ZERO, _ONE = number(0), number(1)


def prove_workspace(kernel: Kernel) -> str | None:
    """Each element of a part has a word of its own, which blocks store and the sum of parts reads.

    None where no products are kept.
    """
    workspace = kernel.workspace
    if workspace is None:
        steps = (*walk(kernel.body), *kernel.before, *kernel.after)
        if any(isinstance(step, StorePart | ReduceParts) for step in steps):
            raise Refuted(WORKSPACE, "products are kept, but the kernel has no place for them", kept=0)
        return None
    count, contiguous = kernel.split.parts.value if kernel.split else 1, kernel.spec.problem.c.contiguous
    if workspace.parts.value != count or workspace.contiguous != contiguous:
        kept = f"{workspace.parts.value} parts with lines along {workspace.contiguous}"
        message = f"{kept} are kept, where blocks have {count} and C has lines along {contiguous}"
        raise Refuted(WORKSPACE, message, kept=workspace.parts.value, parts=count)
    return _prove(workspace, kernel.c_vector.value, kernel.block_m.value * kernel.block_n.value)


@lru_cache(maxsize=16)
def _prove(workspace: WorkspaceMap, vector: int, block: int) -> str:
    """`vector` floats are stored at once, `block` outputs belong to a block."""
    for lines, length in product((1, 2, 3, 5), range(1, 2 * vector + 2)):
        _enumerate(workspace, vector, lines, length)
    _show_lines(workspace, vector)
    _show_places(workspace)
    _show_vectors(workspace, vector)
    _show_ways(workspace)
    _prove_wide(workspace, vector, block)
    words = f"each element of {workspace.parts.value} parts has its own word"
    return f"workspace: {words}, and is added up from where it was stored"


def _axes(workspace: WorkspaceMap) -> tuple[tuple[Var, Var], tuple[Var, Var]]:
    """Extents (lines, length) of C, and the coordinates (line, place in it) of an element."""
    extents, places = (Var("M"), Var("N")), (_M, _N)
    return (extents, places) if workspace.contiguous == "N" else (extents[::-1], places[::-1])


def _enumerate(workspace: WorkspaceMap, vector: int, lines: int, length: int) -> None:
    (strided, contiguous), (line, at) = _axes(workspace)
    sizes = {strided.name: lines, contiguous.name: length}
    shape = (workspace.parts.value, lines, length)
    numbers = np.indices(shape, sparse=True)
    named = (PART.name, line.name, at.name)
    env: dict[str, Array | int] = {**sizes, **dict(zip(named, numbers, strict=True))}
    words = np.broadcast_to(evaluate(workspace.place(PART, _M, _N), env), shape)
    size = int(evaluate(workspace.size, sizes))

    def refuted(what: str, place: tuple[int, ...], **witness: int) -> Refuted:
        return Refuted(WORKSPACE, what, **sizes, **dict(zip(named, place, strict=True)), **witness)

    if (outside := (words < 0) | (words >= size)).any():
        where = first(outside)
        raise refuted("an element lies outside of the workspace", where, word=int(words[where]), size=size)
    _, kinds, times = np.unique(words, return_inverse=True, return_counts=True)
    if (shared := times[kinds].reshape(shape) > 1).any():
        where = first(shared)
        raise refuted("two elements of parts have the same word", where, word=int(words[where]))
    starts = words[:, :, ::vector]
    if (unaligned := starts % vector != 0).any():
        part, row, group = first(unaligned)
        where = (part, row, group * vector)
        raise refuted(f"{vector} floats are stored at no multiple of it", where, word=int(words[where]))


def _show_lines(workspace: WorkspaceMap, vector: int) -> None:
    """A line is as long as one of C, in whole vectors and no longer, whatever remainder that leaves."""
    (_, contiguous), _ = _axes(workspace)
    (vectors,) = variables(1)
    for rest in range(vector):
        length = number(vector) * vectors + number(rest)
        ld = polynomial(workspace.ld.value, {contiguous: length})
        whole = ld is not None and ld.divided(number(vector))
        fits = ld is not None and length.at_most(ld) and ld.at_most(length + number(vector - 1))
        if not fits or not whole or whole[1] != _ZERO:
            message = f"a line of C is not kept in whole vectors of {vector} for all lengths"
            raise Refuted(WORKSPACE, message, vector=vector, rest=rest)


def _show_places(workspace: WorkspaceMap) -> None:
    """Part, line and place in the line follow from the word, which lies in the workspace."""
    (strided, contiguous), (line, at) = _axes(workspace)
    # The first ones count most: a division by lines or floats is one by those that come after an element.
    below, unused, after, above, before, others, part = variables(7)
    lines, length = above + _ONE + below, before + _ONE + after
    ld = length + unused
    env: dict[Expr, Polynomial] = {strided: lines, contiguous: length, workspace.ld: ld}
    env |= {PART: part, line: above, at: before, workspace.parts: part + _ONE + others}
    floats, size = polynomial(workspace.floats, env), polynomial(workspace.size, env)
    if floats != lines * ld or size != (part + _ONE + others) * floats:
        raise Refuted(
            WORKSPACE, "parts are not as large as their lines for all sizes", parts=workspace.parts.value
        )
    place = polynomial(workspace.place(PART, _M, _N), env)
    following = polynomial(workspace.place(PART, _M, _N), env | {at: before + _ONE})
    divided = None if place is None else place.divided(floats)
    divided_again = None if divided is None or divided[0] != part else divided[1].divided(ld)
    if place is None or divided_again != (above, before) or not (place + _ONE).at_most(size):
        message = "an element of a part does not have its own word of the workspace for all sizes"
        raise Refuted(WORKSPACE, message, parts=workspace.parts.value)
    if following != place + _ONE:
        raise Refuted(WORKSPACE, "neighbours in C are none in a part", parts=workspace.parts.value)


def _show_vectors(workspace: WorkspaceMap, vector: int) -> None:
    """Where lines are whole vectors, so is the way to each vector of a line."""
    (strided, _), (line, at) = _axes(workspace)
    lines, part, above, per_line, group = variables(5)
    width = number(vector)
    env: dict[Expr, Polynomial] = {strided: lines, workspace.ld: width * per_line}
    env |= {PART: part, line: above, at: width * group}
    place = polynomial(workspace.place(PART, _M, _N), env)
    divided = None if place is None else place.divided(width)
    if divided is None or divided[1] != _ZERO:
        message = f"{vector} floats are not stored at a multiple of it for all sizes"
        raise Refuted(WORKSPACE, message, vector=vector)


def _show_ways(workspace: WorkspaceMap) -> None:
    """Blocks reach an element by their tile, the sum of parts by the first part: both get to its place."""
    numbers = variables(8)
    known = (workspace.ld, workspace.floats, SPLIT, BLOCK_ROW, BLOCK_COL, _M, _N)
    env: dict[Expr, Polynomial] = dict(zip(known, numbers, strict=False))
    for what, ways, place in (
        (
            "a block stores an element",
            (workspace.origin, workspace.within(_M, _N)),
            workspace.place(SPLIT, BLOCK_ROW + _M, BLOCK_COL + _N),
        ),
        ("the sum of parts reads an element", workspace.walk(_M, _N), workspace.place(PART, _M, _N)),
    ):
        # The first way is the same for all parts of an element.
        one, another = polynomial(ways[0], env), polynomial(ways[1], env | {PART: numbers[-1]})
        if one is None or another is None or one + another != polynomial(place, env | {PART: numbers[-1]}):
            raise Refuted(WORKSPACE, f"{what} elsewhere than in its place", parts=workspace.parts.value)


def _prove_wide(workspace: WorkspaceMap, vector: int, block: int) -> None:
    """No step passes 64 bits: the launcher keeps extents, and the number of blocks, within an int."""
    largest = _FLOAT * workspace.parts.value * _INT_MAX * (block + vector - 1)
    if largest > _WIDE_MAX:
        raise Refuted(WORKSPACE, "the workspace may have more bytes than 64 bits count", bytes=largest)
