"""Tests one kernel: saved failures, a fixed list of cases, drawn ones, and calls that must be refused.

The first failure ends the test of a kernel; it is shrunk, so that what is reported is small.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from gemmdsl.api import CompiledKernel
from gemmdsl.emulator.checker import SANITIZERS, Sanitizer
from gemmdsl.launch_errors import LaunchError
from gemmdsl.testing.case import Case, command
from gemmdsl.testing.edges import MAX_WORK, systematic
from gemmdsl.testing.failures import FAILURES, save
from gemmdsl.testing.far import Far, far_cases
from gemmdsl.testing.outcome import Finding, Outcome
from gemmdsl.testing.parts import PartsOrder, orders
from gemmdsl.testing.refusals import Call, calls
from gemmdsl.testing.shapes import cases
from gemmdsl.testing.shrink import shrink
from gemmdsl.testing.trial import Device, run_case

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """How thoroughly a kernel is tested.

    `examples` cases are drawn with `seed`; a case has at most `work` multiply-adds.  `sanitize` says what is
    watched in every run; `replay` are cases to begin with.  Without `cached`, the compiled kernel is not kept
    for other processes; without `shrink`, the first case that fails is told as it is; without `far`, no
    operand is spread over more than 2^31 elements.  On a GPU nothing is
    watched, and the launcher, which is a function of the host, is not called.
    """

    examples: int = 100
    seed: int = 0
    work: int = MAX_WORK
    sanitize: tuple[Sanitizer, ...] = SANITIZERS
    replay: tuple[Case, ...] = ()
    cached: bool = True
    shrink: bool = True
    far: bool = True
    device: Device = "cpu"


@dataclass(frozen=True, slots=True)
class Failure:
    """What is wrong, and the case that shows it; None when a call was not refused as it must be."""

    findings: tuple[Finding, ...]
    case: Case | None = None

    @property
    def sanitize(self) -> str:
        """What has to be watched for the failure to show, as an option's value; "" for nothing."""
        return ",".join(finding.kind for finding in self.findings if finding.kind in SANITIZERS)

    def __str__(self) -> str:
        return "; ".join(map(str, self.findings))


@dataclass(frozen=True, slots=True)
class KernelReport:
    """What was done with one kernel: runs by path (`""`: nothing had to be launched), odd calls, time in
    seconds; `drifting` cases had errors larger than rounding that averages out.  `failure` is None if all was
    right."""

    kernel: CompiledKernel
    paths: Counter[str]
    calls: int
    drifting: int
    seconds: float
    failure: Failure | None = None
    unmet: tuple[str, ...] = field(default=())

    @property
    def cases(self) -> int:
        return sum(self.paths.values())


def _odd_calls(kernel: CompiledKernel, chosen: Settings) -> Iterator[Call | PartsOrder | Far]:
    """Calls that the launcher must refuse or that look wrong, the order of parts, and operands spread over
    2^31 elements."""
    if chosen.device == "gpu":
        return
    yield from calls(kernel.cuda)
    yield from orders(kernel.cuda)
    if chosen.far:
        yield from far_cases(kernel.cuda)


class Interrupted(KeyboardInterrupt):
    """The run was ended while a failure was made smaller; `report` has the smallest one found until then."""

    def __init__(self, report: KernelReport) -> None:
        super().__init__()
        self.report = report


class _Failed(Exception):
    def __init__(self, failure: Failure) -> None:
        self.failure = failure


def steps(kernel: CompiledKernel, chosen: Settings) -> int:
    """How often `check_kernel` reports progress when nothing fails."""
    fixed = systematic(kernel.spec, kernel.launch_plan, chosen.work)
    odd_calls = len(list(_odd_calls(kernel, chosen)))
    return len(chosen.replay) + len(fixed) + chosen.examples + odd_calls


def check_kernel(
    kernel: CompiledKernel, chosen: Settings = Settings(), progress: Progress = lambda count: None
) -> KernelReport:
    """Run all tests of one kernel; `progress` is called with the number of tests done since the last call.

    Raises ToolError when there is no compiler or it does not accept the text, GpuError for a GPU's failures,
    Interrupted where a KeyboardInterrupt comes when a failure is known.
    """
    run = _Run(kernel, chosen, progress)
    started = time.perf_counter()
    failure: Failure | None = None
    try:
        run.all()
    except _Failed as failed:
        failure = failed.failure
    seconds = time.perf_counter() - started
    paths = {entry.path for entry in kernel.launch_plan.entries}
    unmet = tuple(sorted(paths - run.paths.keys())) if failure is None else ()
    report = KernelReport(kernel, run.paths, run.calls, run.drifting, seconds, failure, unmet)
    if run.interrupted:
        raise Interrupted(report)
    return report


def assert_kernel_matches_numpy(
    kernel: CompiledKernel,
    examples: int = 100,
    seed: int = 0,
    device: Device = "cpu",
    *,
    failures: str | PathLike[str] = FAILURES,
) -> None:
    """AssertionError with a small failing case and how to repeat it, when a kernel is wrong anywhere.

    What no file has, the text of a kernel that was edited or a schedule that was loaded from a string, is
    kept in the folder `failures` for the command that repeats it.
    """
    report = check_kernel(kernel, Settings(examples=examples, seed=seed, device=device))
    if (failure := report.failure) is None:
        return
    spec = kernel.spec
    lines = [f"{spec.schedule.name} for {spec.target.name}: {failure}"]
    if failure.case is not None:
        lines.append(f"  {failure.case}")
        lines.append(f"repeat with: {_repeated(kernel, failure.case, failure, device, Path(failures))}")
    raise AssertionError("\n".join(lines))


def _repeated(kernel: CompiledKernel, case: Case, failure: Failure, device: Device, folder: Path) -> str:
    """The command that repeats a failure, after what it needs is in files."""
    spec, text = kernel.spec, kernel.cuda.schedule
    on_gpu = " --device gpu" if device == "gpu" else ""
    edited = kernel.source if kernel.is_edited else ""
    if edited or text is None or not Path(text.source.name).is_file():
        return save(folder, spec, case, failure.findings, edited).command + on_gpu
    names, target = (text.source.name, spec.schedule.name), spec.target.name
    return command(spec.problem, case, *names, target=target, sanitize=failure.sanitize) + on_gpu


class _Run:
    def __init__(self, kernel: CompiledKernel, chosen: Settings, progress: Progress) -> None:
        self.kernel, self.chosen, self.progress = kernel, chosen, progress
        self.paths: Counter[str] = Counter()
        self.calls = self.drifting = 0
        self.interrupted = False

    def all(self) -> None:
        spec, plan, chosen = self.kernel.spec, self.kernel.launch_plan, self.chosen
        self._each(case for case in chosen.replay if case.allowed(plan))
        self._each(systematic(spec, plan, chosen.work))
        if chosen.examples:
            self._drawn()
        for odd in _odd_calls(self.kernel, chosen):
            if findings := odd.check(self.kernel.cuda, cached=chosen.cached, sanitize=chosen.sanitize):
                raise _Failed(Failure(findings))
            self.calls += 1
            self.progress(1)

    def _drawn(self) -> None:
        spec, plan, chosen = self.kernel.spec, self.kernel.launch_plan, self.chosen

        @seed(chosen.seed)
        @settings(
            max_examples=chosen.examples,
            phases=(Phase.generate,),
            database=None,
            deadline=None,
            derandomize=False,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(cases(spec, plan, chosen.work))
        def examples(case: Case) -> None:
            # A wrong kernel need not be wrong each time, so that hypothesis is not to try it again.
            if not stopped:
                try:
                    self._one(case)
                except Exception as reason:
                    stopped.append(reason)

        stopped: list[Exception] = []
        examples()
        if stopped:
            raise stopped[0]

    def _each(self, found: Iterable[Case]) -> None:
        for case in found:
            self._one(case)

    def _one(self, case: Case) -> None:
        outcome = self._try(case)
        if not outcome.ok:
            raise _Failed(self._smallest(case, outcome))
        self.paths[outcome.path] += 1
        self.drifting += outcome.drift
        self.progress(1)

    def _smallest(self, case: Case, outcome: Outcome) -> Failure:
        """A small case that fails in the same way."""
        if not self.chosen.shrink:
            return Failure(outcome.findings, case)
        kind = outcome.findings[0].kind
        smallest = Failure(outcome.findings, case)

        def fails(smaller: Case) -> bool:
            nonlocal smallest
            findings = self._try(smaller).findings
            if not any(finding.kind == kind for finding in findings):
                return False
            smallest = Failure(findings, smaller)
            return True

        try:
            shrink(case, self.kernel.spec.problem, self.kernel.launch_plan, fails)
        except KeyboardInterrupt:
            self.interrupted = True
        return smallest

    def _try(self, case: Case) -> Outcome:
        chosen = self.chosen
        try:
            return run_case(
                self.kernel.cuda, case, sanitize=chosen.sanitize, cached=chosen.cached, device=chosen.device
            )
        except LaunchError as refused:
            # Cases are ones that the launcher has to accept.
            message = f"refused: {refused.diagnostics[0].message}"
            return Outcome("", 0.0, (Finding("status", message),))
