"""The plainest schedule that still fails: words are taken away, then tiles made smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from gemmdsl.rules import violations
from gemmdsl.rules_options import Options, StageOptions, derive
from gemmdsl.spec import CopySteps, LaneOrder, Order, Problem, Spec
from gemmdsl.testing.text import options_of

# Each try compiles a kernel.
_MOST_TRIES = 60
_PLAIN_ITEMS: tuple[dict[str, Any], ...] = (
    {"swizzle": False},
    {"pad": 0},
    {"read": 1},
    {"store": 1},
    {"load": 1},
)


def simplify(spec: Spec, fails: Callable[[Spec], bool]) -> Spec:
    """A spec that fails and of which no word can be taken away; `fails` is asked at most 60 times."""
    tries = 0
    tried: set[Spec] = {spec}
    simpler = True
    while simpler:
        simpler = False
        for candidate in _simpler(spec):
            if candidate in tried:
                continue
            tried.add(candidate)
            if violations(candidate.schedule, candidate.problem, candidate.target):
                continue
            if tries == _MOST_TRIES:
                return spec
            tries += 1
            if fails(candidate):
                spec, simpler = candidate, True
                break
    return spec


def _simpler(spec: Spec) -> Iterator[Spec]:
    name, problem = spec.schedule.name, spec.problem
    options = options_of(spec.schedule)
    for changed in _plainer(options):
        yield replace(spec, schedule=derive(name, changed, problem))
    for plainer in _plainer_problems(problem):
        yield replace(spec, problem=plainer)


def _plainer(options: Options) -> Iterator[Options]:
    nothing = StageOptions()
    yield replace(options, assumptions=())
    yield replace(options, min_blocks=None)
    yield replace(options, unroll=None)
    yield replace(options, raster=None, raster_along="M")
    yield replace(options, split_k=None, split_atomic=False)
    if (options.split_k or 1) > 2:
        yield replace(options, split_k=2)
    yield replace(options, fma_along=None, fma_snake=False)
    yield replace(options, fragments=None, read_first="A", copy_steps=CopySteps())
    yield replace(options, read_first="A")
    yield replace(options, copy_steps=CopySteps())
    yield replace(options, copy_steps=CopySteps(options.copy_steps.a[:1], options.copy_steps.b[:1]))
    yield replace(options, buffers=1, asynchronous=False, copy_steps=CopySteps())
    yield replace(options, buffers=2)
    yield replace(options, warp=None, lanes=None, lane_order=LaneOrder.ROW)
    yield replace(options, lane_order=LaneOrder.ROW)
    yield replace(options, a=nothing)
    yield replace(options, b=nothing)
    whole = replace(options, split_k=None, split_atomic=False)
    unstaged = replace(whole, block=options.block[:2], a=nothing, b=nothing)
    yield replace(
        unstaged,
        buffers=1,
        asynchronous=False,
        copy_steps=CopySteps(),
        fragments=None,
        read_first="A",
        unroll=None,
    )
    for side in ("a", "b"):
        stage: StageOptions = getattr(options, side)
        for item in _PLAIN_ITEMS:
            plainer: dict[str, Any] = {side: replace(stage, **item)}
            yield replace(options, **plainer)
    yield replace(options, c_vector=1)
    yield replace(options, piece=options.thread)
    for index, extent in enumerate(options.block):
        if extent % 2 == 0:
            block = (*options.block[:index], extent // 2, *options.block[index + 1 :])
            yield replace(options, block=block)


def _plainer_problems(problem: Problem) -> Iterator[Problem]:
    for name in ("a", "b", "c"):
        operand = getattr(problem, name)
        if operand.order is Order.COLUMN:
            yield replace(problem, **{name: replace(operand, order=Order.ROW)})
