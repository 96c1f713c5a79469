"""The sizes at which kernels go wrong, and a fixed list of cases made of them.

Everything follows from the launch plan and the tiles of a schedule: sizes crowd around the edges of its
tiles, and K gives every number of K tiles up to two more than its pipeline is deep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import inf, lcm
from typing import Any, get_args

from gemmdsl.conditions import Aligned, Condition, Multiple
from gemmdsl.cuda_source import LaunchPlan
from gemmdsl.spec import Axis, OperandName, Schedule, Spec
from gemmdsl.testing.case import LANDINGS, NAMES, OPERANDS, ORDERS, Case

AXES: tuple[Axis, ...] = get_args(Axis)
# Multiply-adds of one case: some milliseconds on the emulator.
MAX_WORK = 3_000_000
# Most are integers, so that most comparisons are exact.
_ALPHAS = (1.0, 2.0, -1.0, 1.0, 0.7)
_BETAS = (0.0, 1.0, 0.0, -2.0, 0.0, 1.3, 1.0)


def multiples(conditions: Iterable[Condition]) -> dict[Axis, int]:
    """What each extent has to be a multiple of under conditions: `plan.preconditions` are what is assumed."""
    needed: dict[Axis, int] = {"M": 1, "N": 1, "K": 1}
    for condition in conditions:
        if isinstance(condition, Multiple):
            needed[condition.axis] = lcm(needed[condition.axis], condition.of)
    return needed


def alignments(plan: LaunchPlan) -> dict[OperandName, int]:
    """What each operand's offset and leading dimension have to be a multiple of, in elements."""
    needed: dict[OperandName, int] = {"A": 1, "B": 1, "C": 1}
    for condition in plan.preconditions:
        if isinstance(condition, Aligned):
            needed[condition.operand] = lcm(needed[condition.operand], condition.elements)
    return needed


def edges(spec: Spec, axis: Axis) -> tuple[int, ...]:
    """Telling sizes along an axis, ascending: 0, 1, and each edge of a tile less one, met, plus one."""
    s = spec.schedule
    if axis == "K":
        tile = s.block_k or 4
        met = [tile * turn for turn in range(1, s.buffers + 3)]
    elif axis == "M":
        met = [s.piece_m, s.thread_m, s.warp[0] if s.warp else 1, s.block_m, 2 * s.block_m]
    else:
        met = [s.piece_n, s.thread_n, s.warp[1] if s.warp else 1, s.block_n, 2 * s.block_n]
    return tuple(sorted({0, 1, *(size + off for size in met for off in (-1, 0, 1))}))


def up(size: int, multiple: int) -> int:
    """The least multiple that is not below `size`."""
    return -(-size // multiple) * multiple


def paths(plan: LaunchPlan, case: Case) -> tuple[str, ...]:
    """Entry points that are right for a case, and "" for the launcher's choice."""
    sizes = case.conditions()
    fitting = [entry.path for entry in plan.entries if all(c.holds(sizes) for c in entry.requires)]
    return ("", *fitting)


def systematic(spec: Spec, plan: LaunchPlan, work: int = MAX_WORK) -> tuple[Case, ...]:
    """The cases that a kernel is tried on before anything is drawn; of each, at most `work` multiply-adds.

    Each axis meets each of its edges while the others are small, the three axes meet the block tile's edges
    together, groups of tiles of a raster are whole and not, and the pipeline runs full; scalars, kinds of
    operands, alignment, leading dimensions and orders of threads go round.  Each operand is the only one that
    allows no vectors, once by its leading dimension and once by its address.
    """
    s = spec.schedule
    tile = (s.block_m, s.block_n, s.block_k or 4)
    shapes: list[tuple[int, int, int]] = []
    for index, axis in enumerate(AXES):
        for size in edges(spec, axis):
            shape = [min(tile[0], 5), min(tile[1], 7), tile[2] + 1]
            shape[index] = size
            shapes.append((shape[0], shape[1], shape[2]))
    for signs in product((0, -1, 1), repeat=3):
        shapes.append((tile[0] + signs[0], tile[1] + signs[1], tile[2] + signs[2]))
    shapes.append((2 * tile[0], tile[1], tile[2] * (s.buffers + 1)))
    # Without guards nothing else keeps the first tile from being read where K has none.
    shapes.append((tile[0], tile[1], 0))
    shapes += _groups(s)
    needed = multiples(plan.preconditions)
    whole = [lcm(size, needed[axis]) for size, axis in zip(tile, AXES, strict=True)]
    if whole != [up(size, needed[axis]) for size, axis in zip(tile, AXES, strict=True)]:
        # Tiles that are no multiples of what is assumed: those above were made up to it, and are not whole.
        shapes.append((whole[0], whole[1], whole[2]))
    found: dict[Case, None] = {}
    for turn, (m, n, k) in enumerate(shapes):
        shape_up = (up(m, needed["M"]), up(n, needed["N"]), up(k, needed["K"]))
        if shape_up[0] * shape_up[1] * shape_up[2] <= work:
            found[_case(spec, plan, shape_up, turn)] = None
    for case in _one_unaligned(spec, plan, tile):
        if case.m * case.n * case.k <= work:
            found[case] = None
    unread = tuple(up(size, needed[axis]) for size, axis in zip((5, 7, 9), AXES, strict=True))
    if spec.problem.alpha:
        for turn in (0, 1):
            found[_case(spec, plan, (unread[0], unread[1], unread[2]), turn, alpha=0.0)] = None
        # A tile more than there are parts; of integers alone is it known which sums are 0.
        k = up(tile[2] * s.split_k + 1, needed["K"])
        if unread[0] * unread[1] * k <= work:
            infinite = _case(spec, plan, (unread[0], unread[1], k), 0, alpha=inf)
            found[infinite.changed(operands="integers")] = None
    return tuple(found)


def _groups(s: Schedule) -> Iterator[tuple[int, int, int]]:
    """Grids of a group with too few rows of tiles, of a whole one, and of both; rows are columns along N."""
    if s.raster == 1:
        return
    for lines in (s.raster - 1, s.raster, s.raster + 1, 2 * s.raster - 1):
        # The last tiles are not whole.
        if s.raster_along == "M":
            yield lines * s.block_m - s.block_m // 2, 2 * s.block_n + 1, 1
        else:
            yield 2 * s.block_m + 1, lines * s.block_n - s.block_n // 2, 1


def _one_unaligned(spec: Spec, plan: LaunchPlan, tile: tuple[int, int, int]) -> Iterator[Case]:
    """In whole tiles and in tiles that are not: all that vectors need is given but for one thing.

    Of one operand either the leading dimension or the address allows no vectors, by half of one, or an extent
    ends within a vector.
    """
    assumed, aligned = multiples(plan.preconditions), alignments(plan)
    # The first path with guards asks what vectors need and no more.
    needed = multiples(plan.entries[min(1, len(plan.entries) - 1)].requires)
    whole = [lcm(size, assumed[axis]) for size, axis in zip(tile, AXES, strict=True)]
    shapes = [whole]
    # A part of a tile along the axis where it adds the least work: only one block has to be run along K.
    for index in (2, 0, 1):
        if needed[AXES[index]] % tile[index]:
            shapes.append([size + needed[AXES[index]] * (place == index) for place, size in enumerate(whole)])
            break
    asked = {one: None for entry in plan.entries for one in entry.requires if isinstance(one, Aligned)}
    for turn, shape in enumerate(shapes):
        right = _case(spec, plan, (shape[0], shape[1], shape[2]), 2 * turn)
        for one in asked:
            half = one.elements // 2
            if half and half % aligned[one.operand] == 0:
                for changed in (spec.problem.operand(one.operand).ld, f"offset_{one.operand.lower()}"):
                    yield right.changed(**{changed: getattr(right, changed) + half})
    if needed != assumed:
        # Extents that end within tiles and not within vectors: all of them, and each alone.
        for ending in (AXES, *((axis,) for axis in AXES)):
            after = [size + needed[axis] * (axis in ending) for size, axis in zip(whole, AXES, strict=True)]
            yield _case(spec, plan, (after[0], after[1], after[2]), 0)
    for turn, axis in enumerate(AXES):
        if needed[axis] > assumed[axis]:
            ended = [size + assumed[axis] * (axis == one) for size, one in zip(whole, AXES, strict=True)]
            yield _case(spec, plan, (ended[0], ended[1], ended[2]), 2 * turn)


def _case(
    spec: Spec, plan: LaunchPlan, shape: tuple[int, int, int], turn: int, alpha: float | None = None
) -> Case:
    sizes: dict[Axis, int] = dict(zip(AXES, shape, strict=True))
    aligned = alignments(plan)
    values: dict[str, Any] = {}
    # Whole tiles and every second case are for vectors; the others have odd offsets and leading dimensions.
    s = spec.schedule
    tile = (s.block_m, s.block_n, s.block_k or 1)
    whole = all(size and size % extent == 0 for size, extent in zip(shape, tile, strict=True))
    tidy = whole or turn % 2 == 0
    for place, name in enumerate(NAMES):
        operand = spec.problem.operand(name)
        unit = lcm(aligned[name], 4 if tidy else 1)
        extra = (0, 4, 8)[place] if tidy else (turn + 1) * (place + 1) % 11
        values[operand.ld] = up(max(1, sizes[operand.contiguous]) + extra, unit)
        values[f"offset_{name.lower()}"] = (turn + place) % 4 * unit
    if alpha is None:
        alpha = _ALPHAS[turn % len(_ALPHAS)] if spec.problem.alpha else 1.0
    return Case(
        *shape,
        alpha=alpha,
        beta=_BETAS[turn % len(_BETAS)] if spec.problem.beta else 0.0,
        operands=OPERANDS[turn // 2 % len(OPERANDS)],
        order=ORDERS[turn % len(ORDERS)],
        landing=LANDINGS[turn // 2 % len(LANDINGS)] if spec.schedule.asynchronous else "late",
        **values,
    )
