"""Runs one case, on the CPU emulator or on a GPU, and says everything that is wrong with what the kernel did.

What a kernel must not look at is poison: the padding, what lies around the operands, C when beta is 0, A and
B when alpha is 0.  What it must not write is compared afterwards.  A second writing of an element shows where
beta is not 0, a missing one where C was poison.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from gemmdsl.cuda_source import CudaSource, Status
from gemmdsl.diagnostics import Diagnostic
from gemmdsl.emulator.checker import Sanitizer
from gemmdsl.emulator.library import RunOptions
from gemmdsl.emulator.run import arguments_of, launch
from gemmdsl.launch_errors import LaunchError, check_sizes, extent, scalars, unusable
from gemmdsl.memory import require
from gemmdsl.reference import (
    Floats,
    InexactError,
    StoredMatrix,
    Verdict,
    compare,
    compare_bytes,
    rounded,
)
from gemmdsl.spec import OperandName
from gemmdsl.testing.case import NAMES, Case
from gemmdsl.testing.operands import Operands, draw, place
from gemmdsl.testing.outcome import Finding, Outcome, kind_of

if TYPE_CHECKING:
    from gemmdsl.runtime import Launch as GpuLaunch

Device = Literal["cpu", "gpu"]
# Multiply-adds of a case whose blocks run one after the other.
_SMALL = 200_000


def run_case(
    source: CudaSource,
    case: Case,
    *,
    sanitize: Collection[Sanitizer] = (),
    cached: bool = True,
    device: Device = "cpu",
) -> Outcome:
    """Run the case; what the kernel did wrong is in the outcome.

    With `sanitize` every access is watched, and the first one that is wrong in one of these ways ends the
    run.  `cached` keeps the compiled kernel for other processes.  Raises LaunchError when the case is
    not one for this kernel (a precondition does not hold, no such entry point) or memory cannot hold it,
    ToolError when the text cannot be compiled, and GpuError for what fails on a GPU, where `sanitize` and
    `cached` have no meaning.
    """
    check_sizes(source, case.conditions())
    scalars(source.problem, case.alpha, case.beta)
    shape = f"{case.m} x {case.n} x {case.k}"
    require(_needed(source, case, checked=bool(sanitize)), f"operands of {shape}, and comparing them,")
    try:
        return _run(source, case, sanitize, cached, device)
    except MemoryError as too_large:
        raise unusable("", f"no memory for operands of {shape}: {too_large}") from too_large


def _needed(source: CudaSource, case: Case, *, checked: bool) -> int:
    """Bytes of memory that a run takes."""
    needed = compare_bytes(case.m, case.n, case.k)
    for name in NAMES:
        operand = source.problem.operand(name)
        words = extent(operand, case.conditions()) + case.offset(name)
        # A and B are kept twice; of C it is noted what was touched, and by the checker who wrote.
        stored = 8 * words if name != "C" else (4 + 1 + 8 * checked) * words
        needed += stored + 4 * case.extents[operand.rows] * case.extents[operand.cols]
    return needed


def _run(
    source: CudaSource, case: Case, sanitize: Collection[Sanitizer], cached: bool, device: Device
) -> Outcome:
    operands = draw(case)
    stored = _store(source, case, operands)
    before = {name: stored[name].buffer.copy() for name in NAMES if name != "C"}
    # Threads of the operating system do not pay for a few blocks.
    workers = 1 if case.m * case.n * case.k < _SMALL else 0
    options = RunOptions(case.order, case.seed, case.landing, workers, wanted=tuple(sanitize))
    try:
        launched = (
            _launch_on_gpu(source, case, stored)
            if device == "gpu"
            else launch(
                source,
                arguments_of(stored, case.m, case.n, case.k),
                case.alpha,
                case.beta,
                entry=case.entry or None,
                options=options,
                cached=cached,
                checked=bool(sanitize),
            )
        )
    except LaunchError as refused:
        if refused.status is not Status.LAUNCH_FAILED:
            raise
        told = refused.diagnostics[0]
        kind = kind_of(told.message)
        message = told.message.removeprefix(f"{source.plan.launcher}: ")
        return Outcome("", 0.0, (Finding(kind, message, (*map(str, told.notes), *_cause(told))),))
    result = stored["C"].matrix
    verdict, exact = _judge(source, case, operands, result)
    findings = [] if verdict.ok else [Finding("result", _explain(case, verdict, result))]
    if stray := stored["C"].stray_writes():
        findings.append(Finding("memory", stray))
    for name, words in before.items():
        if not np.array_equal(words, stored[name].buffer):
            findings.append(Finding("memory", f"{name} was written to"))
    path = launched.entry.path if launched.entry else ""
    return Outcome(path, launched.seconds, tuple(findings), str(verdict), exact, verdict.drift)


def _cause(told: Diagnostic) -> tuple[str, ...]:
    """The line of the schedule that a finding follows from, where it is known."""
    if told.source is None or told.position is None:
        return ()
    line, column = told.position
    return (f"follows from: {told.source.name}:{line}:{column}: {told.source.line(line).strip()}",)


def _launch_on_gpu(source: CudaSource, case: Case, stored: dict[OperandName, StoredMatrix]) -> GpuLaunch:
    from gemmdsl.runtime import gpu, run_stored

    sizes = (case.m, case.n, case.k)
    return run_stored(gpu(), source, stored, sizes, case.alpha, case.beta, entry=case.entry or None)


def _store(source: CudaSource, case: Case, operands: Operands) -> dict[OperandName, StoredMatrix]:
    """The operands in memory; those that the kernel must not read are left poisoned."""
    values = dict(zip(NAMES, operands, strict=True))
    product = rounded(case.alpha) != 0
    read = {"A": product, "B": product, "C": rounded(case.beta) != 0}
    stored: dict[OperandName, StoredMatrix] = {}
    for name in NAMES:
        operand = source.problem.operand(name)
        rows, cols = case.extents[operand.rows], case.extents[operand.cols]
        stored[name] = StoredMatrix(operand, rows, cols, ld=case.ld(name), offset=case.offset(name))
        if read[name]:
            stored[name].fill(values[name])
    return stored


def _judge(source: CudaSource, case: Case, operands: Operands, result: Floats) -> tuple[Verdict, bool]:
    """The verdict, and whether it is exact, as it is wherever FP32 holds every sum."""
    shared = source.plan.parts
    judge = partial(
        compare,
        source.problem,
        result,
        *operands,
        case.alpha,
        case.beta,
        parts=shared.ends(case.k) if shared is not None and shared.atomic else (),
    )
    try:
        if case.operands == "special":
            raise InexactError
        return judge(exact=True), True
    except InexactError:
        return judge(flushed=source.plan.flushes), False


def _explain(case: Case, verdict: Verdict, result: Floats) -> str:
    """The verdict; and, where the elements tell their places, which one was used in place of which."""
    text = str(verdict)
    used, right = place(case, verdict.got), place(case, verdict.want)
    if used and right:
        text += f": it is {used[0]}[{used[1]}, {used[2]}] where {right[0]}[{right[1]}, {right[2]}] belongs"
    unknown = int(np.isnan(result).sum())
    if unknown and not np.isnan(verdict.want):
        text += f"; {unknown} of {result.size} are NaN"
    return text
