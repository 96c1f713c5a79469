"""Strategies draw what the rules accept, reach every option, and print as files that mean the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import gemmdsl
from gemmdsl.api import CompiledKernel, compile_spec
from gemmdsl.rules import violations
from gemmdsl.rules_options import derive
from gemmdsl.spec import LaneOrder, Order, Spec
from gemmdsl.target import TARGETS
from gemmdsl.testing import cases, matrices, options, options_of, problems, program_text, spec_text, specs
from gemmdsl.testing.case import OPERANDS, ORDERS, from_json, make_case, to_json
from gemmdsl.testing.edges import edges, paths, systematic
from gemmdsl.testing.far import far_cases
from gemmdsl.testing.schedules import candidates

_QUICK = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def _sample(strategy: st.SearchStrategy, count: int) -> list:  # type: ignore[type-arg]
    found = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(one: object) -> None:
        found.append(one)

    collect()
    return found


@_QUICK
@given(specs())
def test_drawn_specs_keep_every_rule_and_print_as_text_that_means_the_same(spec: Spec) -> None:
    assert not violations(spec.schedule, spec.problem, spec.target)
    assert gemmdsl.loads(spec_text(spec), "drawn.gemm").spec() == spec


@_QUICK
@given(st.data())
def test_words_mean_what_was_derived_from_them(data: st.DataObject) -> None:
    problem = data.draw(problems())
    target = data.draw(st.sampled_from(tuple(TARGETS.values())))
    words = data.draw(options(problem, target))
    schedule = derive("s", words, problem)
    read = gemmdsl.loads(program_text(problem, {"s": (words, target.name)})).spec()
    assert read.schedule == schedule
    assert derive("s", options_of(schedule), problem) == schedule


def test_most_drawn_schedules_are_legal_before_they_are_filtered() -> None:
    @st.composite
    def legal(draw: st.DrawFn) -> bool:
        problem = draw(problems())
        target = draw(st.sampled_from(tuple(TARGETS.values())))
        words = draw(candidates(problem, target))
        return not violations(derive("s", words, problem), problem, target)

    drawn = _sample(legal(), 300)
    assert sum(drawn) > 0.8 * len(drawn)


def test_every_option_is_reached() -> None:
    found: list[Spec] = _sample(specs(), 600)
    schedules = [spec.schedule for spec in found]
    stages = [stage for s in schedules if s.staged for stage in (s.stage_a, s.stage_b)]
    assert {spec.target.name for spec in found} == set(TARGETS)
    assert {s.lane_order for s in schedules} == set(LaneOrder)
    assert {s.buffers for s in schedules if s.asynchronous} >= {2, 3, 4, 8}
    assert {s.buffers for s in schedules if not s.asynchronous} == {1, 2}
    assert {s.c_vector for s in schedules} == {1, 2, 4}
    assert {s.fragments for s in schedules if s.buffers > 1} == {1, 2}
    assert {s.copy_steps.together for s in schedules} >= {0, 1, 2, None}
    assert {len(s.copy_steps.a) for s in schedules} >= {1, 2, 3}
    assert {s.read_first for s in schedules} == {"A", "B"}
    assert {(s.fma_along, s.fma_snake) for s in schedules} == {
        (along, snake) for along in ("M", "N") for snake in (False, True)
    }
    assert {s.unroll for s in schedules if s.fragments == 1} >= {None, 1, 2, 3, 4}
    assert {s.unroll for s in schedules if s.fragments == 2} >= {None, 2, 4}
    assert {s.raster for s in schedules} >= {1, 2, 3, 8}
    assert {s.raster_along for s in schedules} == {"M", "N"}
    for access in ("load", "store", "read"):
        assert {getattr(stage, access) for stage in stages} == {1, 2, 4}
    assert {stage.transpose for stage in stages} == {stage.swizzle for stage in stages} == {False, True}
    assert {stage.pad for stage in stages} >= {0, 1, 2, 3, 4, 8}
    assert {s.staged for s in schedules} == {s.warp is not None for s in schedules} == {False, True}
    assert (
        {bool(s.min_blocks) for s in schedules} == {bool(s.assumptions) for s in schedules} == {False, True}
    )
    assert any(s.thread_m in (5, 6, 10, 12) or s.thread_n in (5, 6, 10, 12) for s in schedules)
    assert any(s.piece_m < s.thread_m for s in schedules)
    for name in ("a", "b", "c"):
        assert {getattr(spec.problem, name).order for spec in found} == set(Order)
    assert {(spec.problem.alpha, spec.problem.beta) for spec in found} == {
        (alpha, beta) for alpha in (False, True) for beta in (False, True)
    }


@pytest.fixture(scope="module")
def kernel() -> CompiledKernel:
    text = """
    gemm 1
    problem p { A: f32[M, K] B: f32[K, N] col C: f32[M, N] = alpha * A @ B + beta * C }
    schedule s for p on sm_80 {
      block 16 x 8 x 4 thread 4 x 2 as 2 x 2 stage A { vector 4 transpose } buffers 2 assume M % 4 == 0
      assume aligned C
    }
    """
    spec = gemmdsl.loads(text).spec()
    return CompiledKernel(spec, compile_spec(spec))


def test_cases_are_ones_that_the_launcher_accepts(kernel: CompiledKernel) -> None:
    spec, plan = kernel.spec, kernel.launch_plan
    drawn = _sample(cases(spec, plan), 300)
    for case in [*drawn, *systematic(spec, plan)]:
        assert case.m % 4 == 0
        assert case.allowed(plan)
        assert case.entry in paths(plan, case)
        for name in ("A", "B", "C"):
            assert case.ld(name) >= max(1, case.extents[spec.problem.operand(name).contiguous])
    assert {case.operands for case in drawn} == set(OPERANDS)
    assert {case.order for case in drawn} == set(ORDERS)
    assert len({plan.select(case.conditions()) for case in drawn}) == len(plan.entries)
    assert any(case.offset_a % 2 and case.offset_b % 2 for case in drawn)
    assert any(len({case.lda, case.ldb, case.ldc}) == 3 for case in drawn)


@pytest.mark.parametrize("along", ["M", "N"])
def test_sizes_have_groups_of_tiles_that_are_whole_and_not(kernel: CompiledKernel, along: str) -> None:
    spec = kernel.spec
    raster = replace(spec.schedule, raster=3, raster_along="M" if along == "M" else "N")
    cases = systematic(replace(spec, schedule=raster), kernel.launch_plan)
    side = raster.block_m if along == "M" else raster.block_n
    lines = {-(-(case.m if along == "M" else case.n) // side) for case in cases}
    assert {2, 3, 4, 5} <= lines


def test_sizes_meet_the_edges_of_tiles(kernel: CompiledKernel) -> None:
    spec = kernel.spec
    assert {0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33} <= set(edges(spec, "M"))
    # 0, 1, 2, 3 and 4 K tiles of a pipeline that is two deep.
    assert {0, 1, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17} == set(edges(spec, "K"))
    shapes = {(case.m, case.n, case.k) for case in systematic(spec, kernel.launch_plan)}
    assert {(16, 8, 4), (16, 7, 5), (20, 9, 5), (32, 8, 12)} <= shapes
    assert {n for _, n, _ in shapes} >= set(edges(spec, "N"))
    assert {k for _, _, k in shapes} >= set(edges(spec, "K"))


def test_matrices_have_the_sizes_of_their_case(kernel: CompiledKernel) -> None:
    case = make_case(kernel.spec.problem, 4, 5, 6)
    for a, b, c in _sample(matrices(case), 20):
        assert (a.shape, b.shape, c.shape) == ((4, 6), (6, 5), (4, 5))


@pytest.mark.parametrize(
    "block", ["1 x 1 x 4", "1 x 4 x 1", "4 x 1 x 2", "3 x 3 x 3", "2 x 2 x 4", "32 x 32 x 8"]
)
def test_far_operands_have_leading_dimensions_that_can_be_passed(block: str) -> None:
    text = f"""
    gemm 1
    problem p {{ A: f32[M, K] col B: f32[K, N] C: f32[M, N] col = A @ B }}
    schedule s for p on sm_80 {{ block {block} }}
    """
    source = gemmdsl.loads(text).compile().cuda
    found = list(far_cases(source))
    assert {far.operand for far in found} == {"A", "B", "C"}
    for far in found:
        operand = source.problem.operand(far.operand)
        ld, lines = far.case.ld(far.operand), far.case.extents[operand.strided]
        assert ld < 2**31 <= (lines - 1) * ld
        assert far.case.allowed(source.plan)


@pytest.mark.parametrize("alpha", [2.0, 0.1, 1 / 3, 1e-45, -0.7000000001, float("inf"), float("nan")])
def test_a_command_has_the_very_scalars(kernel: CompiledKernel, alpha: float) -> None:
    words = make_case(kernel.spec.problem, 4, 4, 4, alpha=alpha, beta=alpha).flags(kernel.spec.problem)
    for flag in ("--alpha", "--beta"):
        shown = words[words.index(flag) + 1]
        assert float(shown) == alpha or alpha != alpha
        assert shown == f"{alpha:g}" or float(f"{alpha:g}") != alpha


def test_cases_are_kept_as_json(kernel: CompiledKernel) -> None:
    for case in systematic(kernel.spec, kernel.launch_plan):
        assert from_json(to_json(case)) == case
    for wrong in ({"m": 1}, {**to_json(case), "m": "1"}, {**to_json(case), "operands": "odd"}):
        with pytest.raises(ValueError, match="case"):
            from_json(wrong)
