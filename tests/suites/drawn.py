"""Schedules drawn at random, each compiled, proved, built and run on the edges of its tiles and beyond."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from traceback import extract_tb

from hypothesis import HealthCheck, Phase, given, seed, settings

from gemmdsl.api import CompiledKernel, compile_spec
from gemmdsl.diagnostics import GemmError
from gemmdsl.spec import Spec
from gemmdsl.testing import Settings, check_kernel, specs
from gemmdsl.testing.case import make_case
from gemmdsl.testing.engine import Failure
from gemmdsl.testing.failures import save
from gemmdsl.testing.outcome import Finding
from gemmdsl.testing.schedules import SMALL, Limits
from gemmdsl.testing.simplify import simplify
from tests.suites.tally import Tally

FAILURES = Path(".gemmdsl/failures")


def draw(count: int, start: int, limits: Limits = SMALL) -> list[Spec]:
    """`count` distinct specs, always the same ones for a `start`."""
    found: dict[object, Spec] = {}
    turn = 0
    while len(found) < count:

        @seed(1000 * start + turn)
        @settings(
            max_examples=max(20, count - len(found)),
            phases=(Phase.generate,),
            database=None,
            deadline=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(specs(limits))
        def collect(spec: Spec) -> None:
            found.setdefault((spec.problem, spec.schedule, spec.target), spec)

        collect()
        turn += 1
    return list(found.values())[:count]


@cache
def drawn(count: int, start: int) -> tuple[Spec, ...]:
    return tuple(draw(count, start))


def run(count: int, start: int, examples: int, first: int = 0, most: int | None = None) -> Tally:
    """Test `count` drawn schedules, each on some sixty fixed cases and `examples` drawn ones; or `most` of
    them, from the one numbered `first` on."""
    tally = Tally()
    for spec in islice(drawn(count, start), first, None if most is None else first + most):
        tally.counts["schedules"] += 1
        failure = _test(spec, examples, tally)
        if failure is not None:
            _keep(spec, failure, tally)
    return tally


def _test(spec: Spec, examples: int, tally: Tally | None = None) -> Failure | None:
    try:
        kernel = CompiledKernel(spec, compile_spec(spec))
        report = check_kernel(
            kernel, Settings(examples=examples, seed=1, work=200_000, cached=False, far=False)
        )
    except GemmError as error:
        return Failure((Finding("compile", str(error).splitlines()[0]),))
    except Exception as error:
        # A traceback is a failure of the schedule that caused it, which is kept like any other.
        frame = extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        return Failure((Finding("crash", f"{type(error).__name__} in {where}: {error}"),))
    if tally is not None:
        tally.counts["cases"] += report.cases
        tally.counts["odd calls"] += report.calls
    return report.failure


def _keep(spec: Spec, failure: Failure, tally: Tally) -> None:
    """Count a failure of the plainest schedule that fails like this one, and keep it as a file."""
    kind = failure.findings[0].kind

    def fails(candidate: Spec) -> bool:
        found = _test(candidate, 0)
        return found is not None and found.findings[0].kind == kind

    plain = simplify(spec, fails)
    failure = _test(plain, 0) or failure
    case = failure.case or make_case(plain.problem, 1, 1, 1)
    named = replace(plain, schedule=replace(plain.schedule, name="drawn"))
    saved = save(FAILURES, named, case, failure.findings)
    tally.failures.append(f"{failure}\n  {saved.command}")
