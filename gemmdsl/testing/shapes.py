"""Strategies for what a kernel is run on: sizes, leading dimensions, offsets, operands, whole cases.

They shrink to small, tidy cases: no padding, no offset, integers, threads in order.
"""

from __future__ import annotations

from math import inf, lcm
from typing import Any

from hypothesis import strategies as st

from gemmdsl.cuda_source import LaunchPlan
from gemmdsl.spec import Axis, Spec
from gemmdsl.testing.case import LANDINGS, NAMES, OPERANDS, ORDERS, Case
from gemmdsl.testing.edges import AXES, MAX_WORK, alignments, edges, multiples, paths, up
from gemmdsl.testing.operands import Operands
from gemmdsl.testing.operands import draw as draw_operands

_ALPHAS = (1.0, 2.0, -1.0, 0.7, -0.3, 0.0, inf)
_BETAS = (0.0, 1.0, -2.0, 1.3)
_PRIMES = (2, 3, 5, 7, 11, 13, 19, 31, 37, 67, 79, 127, 131, 239, 257)


def extents(spec: Spec, axis: Axis, multiple: int = 1) -> st.SearchStrategy[int]:
    """Sizes along one axis: edges of tiles, primes, all up to two block tiles (K: to a full pipeline)."""
    near = edges(spec, axis)
    drawn = st.one_of(
        st.integers(0, near[-1]),
        st.sampled_from(near),
        st.sampled_from([prime for prime in _PRIMES if prime <= near[-1]] or [1]),
    )
    return drawn.map(lambda size: up(size, multiple))


@st.composite
def shapes(draw: st.DrawFn, spec: Spec, plan: LaunchPlan, work: int = MAX_WORK) -> tuple[int, int, int]:
    """M, N and K that the schedule's assumptions allow, of about `work` multiply-adds at most."""
    needed = multiples(plan.preconditions)
    # The path without guards needs whole tiles along every axis at once.
    if draw(st.integers(0, 4)) == 4:
        s = spec.schedule
        tile: dict[Axis, int] = {"M": s.block_m, "N": s.block_n, "K": s.block_k or 1}
        needed = {axis: lcm(needed[axis], tile[axis]) for axis in AXES}
    drawn = [draw(extents(spec, axis, needed[axis])) for axis in AXES]
    # The largest tiles are met one axis at a time: the others become one unit, the longest of them first.
    for _ in AXES:
        if drawn[0] * drawn[1] * drawn[2] > work:
            longest = max(range(2), key=lambda index: drawn[index] / needed[AXES[index]])
            drawn[longest] = needed[AXES[longest]]
    return drawn[0], drawn[1], drawn[2]


def leading_dimensions(least: int, multiple: int = 1) -> st.SearchStrategy[int]:
    """Legal leading dimensions: the least one, and padded ones, odd and even."""
    return st.sampled_from((0, 1, 3, 4, 16, 37)).map(lambda extra: up(max(1, least) + extra, multiple))


def offsets(multiple: int = 1) -> st.SearchStrategy[int]:
    """Distances, in elements, of an operand's first element from an aligned address."""
    return st.sampled_from((0, 1, 2, 3, 4, 7)).map(lambda offset: offset * multiple)


@st.composite
def cases(draw: st.DrawFn, spec: Spec, plan: LaunchPlan, work: int = MAX_WORK) -> Case:
    """Whole cases that the schedule's assumptions allow."""
    m, n, k = draw(shapes(spec, plan, work))
    sizes: dict[Axis, int] = {"M": m, "N": n, "K": k}
    aligned = alignments(plan)
    # Vectors need the alignment of all operands at once, which independent draws would hardly ever give.
    untidy = draw(st.booleans())
    values: dict[str, Any] = {}
    for name in NAMES:
        operand = spec.problem.operand(name)
        unit = lcm(aligned[name], 1 if untidy else 4)
        values[operand.ld] = draw(leading_dimensions(sizes[operand.contiguous], unit))
        values[f"offset_{name.lower()}"] = draw(offsets(unit))
    case = Case(
        m,
        n,
        k,
        alpha=draw(st.sampled_from(_ALPHAS)) if spec.problem.alpha else 1.0,
        beta=draw(st.sampled_from(_BETAS)) if spec.problem.beta else 0.0,
        operands=draw(st.sampled_from(OPERANDS)),
        seed=draw(st.integers(0, 999)),
        order=draw(st.sampled_from(ORDERS)),
        landing=draw(st.sampled_from(LANDINGS)) if spec.schedule.asynchronous else "late",
        **values,
    )
    if case.alpha == inf:
        # Of integers alone is it known which sums are 0, and what their signs are.
        case = case.changed(operands="integers")
    return case.changed(entry=draw(st.sampled_from(paths(plan, case))))


def matrices(case: Case) -> st.SearchStrategy[Operands]:
    """A, B and C of a case's sizes, with any kind of numbers."""
    return st.builds(
        lambda kind, seed: draw_operands(case.changed(operands=kind, seed=seed)),
        st.sampled_from(OPERANDS),
        st.integers(0, 2**32 - 1),
    )
