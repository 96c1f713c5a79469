"""What has to be shown on a GPU once for each release, in a few minutes: `python -m tests.gpu.evidence PART`.

    times       every example schedule verified and timed at eleven shapes; the ladder and its plot
    suite       the suite of examples/suite.toml, as JSON, as a table and as a plot
    candidates  the same with every schedule for each product, ranked
    ablations   what each line of the fast schedules buys
    drawn       200 drawn schedules times 20 cases, right on the GPU and equal to the emulator bit by bit, but
                where blocks add to C as they come
    sanitize    every entry point of every example under the four tools of compute-sanitizer
    repeat      100 runs of every other example give the same bits; a product of more than 2^31 elements
    tests       the tests of tests/gpu

Each part writes a log, and what else it makes, into the folder --out, and ends with one line that says what
came of it.  Exit status 1 when something is not as it must be.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings

from gemmdsl.api import compile_spec
from gemmdsl.bench import Row, Settings, Subject, measure, report, suite_report
from gemmdsl.bench.baseline import cublas
from gemmdsl.bench.plot import drawn as draw_plot
from gemmdsl.bench.suite import hurried, run_suite, tasks_of
from gemmdsl.bench.suite_table import load_table
from gemmdsl.bench.support import text as support_text
from gemmdsl.cubins import cached_cubin
from gemmdsl.cuda_source import CudaSource
from gemmdsl.diagnostics import GemmError
from gemmdsl.emulator.run import arguments_of, launch
from gemmdsl.reference import StoredMatrix
from gemmdsl.rules import violations
from gemmdsl.runtime import Gpu, gpu, run_stored
from gemmdsl.runtime.kernel import load
from gemmdsl.runtime.sanitize import TOOLS, Tool, sanitized
from gemmdsl.spec import OperandName, Spec
from gemmdsl.target import TARGETS
from gemmdsl.testing import cases, run_case, specs
from gemmdsl.testing.case import NAMES, Case, make_case
from gemmdsl.testing.edges import multiples, systematic, up
from gemmdsl.testing.operands import draw
from tests import examples
from tests.gpu.ablations import ABLATIONS
from tests.gpu.ablations import subjects as ablated
from tests.gpu.ablations import table as ablation_table

SHAPES = [
    *((size, size, size) for size in (512, 1000, 1023, 1024, 2048, 4096, 4097, 8192)),
    (35, 79, 19),
    (30000, 64, 64),
]
SUITE = examples.FOLDER / "suite.toml"
LARGE = (46_400, 46_400, 32)
REPEATS = 100
CHUNK = 2
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of one drawn schedule: cases run, and what was wrong, in words."""

    cases: int
    wrong: tuple[str, ...]


def sources(target: str, files: tuple[str, ...] = ()) -> list[CudaSource]:
    """Every example, or those of some files or of the suite's table, as a device of `target` runs it."""
    winners = {product.schedule for product in load_table(SUITE).products} if SUITE.name in files else set()
    return [
        examples.kernel_on(file, schedule, target).cuda
        for file, schedule in examples.schedules()
        if not files or file in files or schedule in winners
    ]


def compile_all(texts: list[str], target: str, processes: int) -> None:
    """Fill the cache of cubins, many at a time; what cannot be compiled is found again when it is used."""
    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(partial(_compiled, target=target), texts))


def _compiled(text: str, target: str) -> None:
    try:
        cached_cubin(text, target)
    except GemmError:
        return


def draw_specs(count: int, number: int, target: str) -> list[Spec]:
    """Different specs for one target that every rule accepts."""
    found: dict[str, Spec] = {}

    @seed(number)
    @settings(
        max_examples=3 * count,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(specs())
    def collect(spec: Spec) -> None:
        spec = replace(spec, target=TARGETS[target])
        if len(found) < count and not violations(spec.schedule, spec.problem, spec.target):
            found.setdefault(repr(spec.schedule) + repr(spec.problem), spec)

    collect()
    return list(found.values())


def draw_cases(spec: Spec, source: CudaSource, count: int, number: int) -> list[Case]:
    """Different cases of a kernel: the fixed ones at the edges of its tiles, then drawn ones."""
    fixed = systematic(spec, source.plan)
    found = dict.fromkeys(fixed[:: max(1, 2 * len(fixed) // count)][: count // 2])

    @seed(number)
    @settings(
        max_examples=4 * count,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(spec, source.plan))
    def collect(case: Case) -> None:
        if len(found) < count:
            found[case] = None

    collect()
    return list(found)


def both(spec: Spec, count: int, number: int) -> Compared:
    """Run cases of one spec on the GPU and on the emulator; whatever goes wrong is told, not raised."""
    try:
        return _both(spec, count, number)
    except Exception as problem:
        # Exceptions do not all survive the way to another process.
        return Compared(0, (f"{type(problem).__name__}: {problem}",))


def _both(spec: Spec, count: int, number: int) -> Compared:
    source = compile_spec(spec)
    chosen = draw_cases(spec, source, count, number)
    wrong = []
    for case in chosen:
        outcome = run_case(source, case, device="gpu")
        if not outcome.ok:
            wrong.append(f"{case}: {outcome.findings}")
            continue
        on_gpu, on_cpu = (_stored(source, case) for _ in range(2))
        run_stored(
            gpu(), source, on_gpu, (case.m, case.n, case.k), case.alpha, case.beta, entry=case.entry or None
        )
        launch(
            source,
            arguments_of(on_cpu, case.m, case.n, case.k),
            case.alpha,
            case.beta,
            entry=case.entry or None,
            cached=False,
        )
        # Blocks that add to C as they come round differently from call to call.
        if source.plan.repeatable and not _same_bits(on_gpu["C"], on_cpu["C"]):
            wrong.append(f"{case}: the GPU's bits differ from the emulator's")
    return Compared(len(chosen), tuple(wrong))


def _stored(source: CudaSource, case: Case) -> dict[OperandName, StoredMatrix]:
    stored: dict[OperandName, StoredMatrix] = {}
    for name, values in zip(NAMES, draw(case), strict=True):
        operand = source.problem.operand(name)
        rows, cols = case.extents[operand.rows], case.extents[operand.cols]
        stored[name] = StoredMatrix(operand, rows, cols, ld=case.ld(name), offset=case.offset(name)).fill(
            values
        )
    return stored


def _same_bits(one: StoredMatrix, other: StoredMatrix) -> bool:
    """Equal but for the bits of NaN, which processors choose for themselves."""
    a, b = one.matrix, other.matrix
    equal = np.ascontiguousarray(a).view(np.uint32) == np.ascontiguousarray(b).view(np.uint32)
    return bool((equal | (np.isnan(a) & np.isnan(b))).all())


def times(out: Path, say: Say, processes: int) -> bool:
    with Gpu() as device:
        target = device.limits.target
        compile_all([support_text(), *(source.text for source in sources(target))], target, processes)
        say("compiled")
        subjects = [
            Subject(file, examples.kernel_on(file, name, target)) for file, name in examples.schedules()
        ]
        # What spills is marked in the table.
        chosen = Settings(batches=5, batch_seconds=0.01, allow_spills=True)
        found = measure(device, subjects, SHAPES, cublas(), chosen)
    (out / "times.json").write_text(report.to_json(found))
    (out / "times.txt").write_text(report.table(found))
    ladder = replace(found, rows=tuple(row for row in found.rows if row.file == "ladder.gemm"))
    try:
        (out / "ladder.svg").write_bytes(draw_plot(ladder, "svg"))
    except GemmError as problem:
        say(str(problem))
    for size in (1024, 4096, 8192):
        at = replace(ladder, rows=tuple(row for row in ladder.rows if row.shape == (size, size, size)))
        say(report.table(at))
    for row in found.rows:
        if row.status not in ("timed", "unfit"):
            say(f"{row.schedule} {row.shape}: {row.status}: {row.reason}")
    say(f"times: {report.summary(found.rows)}")
    return not report.failed(found.rows)


def suite(out: Path, say: Say, processes: int, commit: str = "") -> bool:
    return _suite(out, say, processes, commit, "suite", Settings())


def candidates(out: Path, say: Say, processes: int, commit: str = "") -> bool:
    return _suite(out, say, processes, commit, "candidates", hurried(Settings(batches=5)), every=True)


def _suite(
    out: Path, say: Say, processes: int, commit: str, name: str, chosen: Settings, every: bool = False
) -> bool:
    table = load_table(SUITE)
    tasks = tasks_of(table, table.products, every)
    texts = dict.fromkeys(subject.kernel.source for task in tasks for subject in task.subjects)
    with Gpu() as device:
        compile_all([support_text(), *texts], device.limits.target, processes)
        say("compiled")
        found = run_suite(device, SUITE.name, tasks, cublas(), chosen, commit=commit)
    (out / f"{name}.json").write_text(suite_report.suite_json(found))
    (out / f"{name}.txt").write_text(suite_report.suite_table(found))
    try:
        (out / f"{name}.svg").write_bytes(suite_report.suite_plot(found, "svg"))
    except GemmError as problem:
        say(str(problem))
    say(suite_report.suite_table(found))
    say(f"{name}: {suite_report.verdict(found)}")
    return not suite_report.suite_failed(found)


def ablations(out: Path, say: Say, processes: int) -> bool:
    good = True
    lines: list[str] = []
    rows: list[Row] = []
    with Gpu() as device:
        listed = [(ablation, list(ablated(ablation))) for ablation in ABLATIONS]
        texts = [subject.kernel.source for _, pairs in listed for _, subject in pairs]
        compile_all([support_text(), *texts], device.limits.target, processes)
        say("compiled")
        for ablation, pairs in listed:
            chosen = Settings(batches=9, batch_seconds=0.02, allow_spills=True)
            found = measure(device, [subject for _, subject in pairs], [ablation.shape], cublas(), chosen)
            lines += [*ablation_table(ablation, [said for said, _ in pairs], list(found.rows)), ""]
            rows += found.rows
            good = good and not report.failed(found.rows)
    (out / "ablations.md").write_text("\n".join(lines))
    say("\n".join(lines))
    say(f"ablations: {report.summary(tuple(rows))}")
    return good


def drawn(out: Path, say: Say, processes: int, count: int = 200, per_spec: int = 20) -> bool:
    with Gpu() as device:
        target = device.limits.target
    found = draw_specs(count, 2026, target)
    say(f"{len(found)} schedules drawn")
    wrong = total = 0
    # Each process has a context of its own.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(both, spec, per_spec, number) for number, spec in enumerate(found)]
        for spec, future in zip(found, futures, strict=True):
            compared = future.result()
            total += compared.cases
            wrong += len(compared.wrong)
            for told in compared.wrong:
                say(f"{spec}: {told}")
    say(f"drawn: {len(found)} schedules, {total} cases on GPU and emulator, {wrong} wrong or different")
    return wrong == 0 and total == count * per_spec


def sanitize(
    out: Path, say: Say, processes: int, files: tuple[str, ...] = (), tools: tuple[Tool, ...] = TOOLS
) -> bool:
    with Gpu() as device:
        target = device.limits.target
    every = sources(target, files)
    compile_all([source.text for source in every], target, processes)
    say("compiled")
    chunks = [every[start : start + CHUNK] for start in range(0, len(every), CHUNK)]
    jobs: list[tuple[list[CudaSource], Tool]] = [(chunk, tool) for tool in tools for chunk in chunks]
    clean = dict.fromkeys(tools, 0)
    with ThreadPoolExecutor(processes) as pool:
        running = {pool.submit(sanitized, chunk, tool): (chunk, tool) for chunk, tool in jobs}
        # As they come, so that a run that is cut short has told what it found.
        for future in as_completed(running):
            chunk, tool = running[future]
            names = ", ".join(source.plan.launcher for source in chunk)
            found = future.result()
            if found.clean:
                clean[tool] += len(chunk)
                say(f"{tool} clean on {names}")
            else:
                say(f"{tool} on {names}: {found.title}\n{found.text}")
    told = ", ".join(f"{tool} {count} of {len(every)}" for tool, count in clean.items())
    say(f"sanitize: clean examples: {told}")
    return all(count == len(every) for count in clean.values())


def repeat(out: Path, say: Say, processes: int) -> bool:
    different = 0
    with Gpu() as device:
        target = device.limits.target
        compile_all([support_text(), *(source.text for source in sources(target))], target, processes)
        steady = [pair for pair in examples.schedules() if examples.kernel(*pair).launch_plan.repeatable]
        for file, schedule in steady:
            try:
                different += not _repeats(device, file, schedule, say)
            except GemmError as problem:
                different += 1
                say(f"{file} {schedule}: {problem}")
        say(f"repeat: {REPEATS} runs of {len(steady)} schedules, {different} with other bits")
        large = [("ladder.gemm", "v3_2"), ("ladder.gemm", "v5_async"), ("layouts.gemm", "fast_fortran")]
        subjects = [Subject(file, examples.kernel(file, name)) for file, name in large]
        found = measure(device, subjects, [LARGE], None, Settings(time=False))
    say(report.table(found))
    elements = LARGE[0] * LARGE[1]
    say(f"large: C has {elements} elements, 2^31 are {2**31}: {report.summary(found.rows)}")
    return different == 0 and all(row.status == "verified" for row in found.rows)


def _repeats(device: Gpu, file: str, schedule: str, say: Say) -> bool:
    """Whether many runs give one result."""
    kernel = examples.kernel_on(file, schedule, device.limits.target)
    needed = multiples(kernel.launch_plan.preconditions)
    m, n, k = (up(size, needed[axis]) for size, axis in ((700, "M"), (612, "N"), (500, "K")))  # type: ignore[index]
    case = make_case(kernel.spec.problem, m, n, k, operands="uniform")
    stored = _stored(kernel.cuda, case)
    loaded = load(device, kernel.cuda)
    memory: dict[str, Any] = {
        name: device.allocate(matrix.buffer.nbytes, name) for name, matrix in stored.items()
    }
    arguments = {"M": m, "N": n, "K": k}
    for name, matrix in stored.items():
        # Addresses here need only be aligned; what surrounds the operands is not looked at.
        lines = np.ascontiguousarray(matrix.matrix if matrix.matrix.strides[1] == 4 else matrix.matrix.T)
        device.upload(int(memory[name]), lines)
        arguments[name], arguments[matrix.operand.ld] = int(memory[name]), matrix.ld
    seen = set()
    result = np.empty(m * n, np.float32)
    for _ in range(REPEATS):
        device.fill_words(arguments["C"], 0x7FC00000, m * n)
        loaded.launch(arguments)
        loaded.wait()
        device.download(result, arguments["C"])
        seen.add(sha256(result.tobytes()).hexdigest())
    if len(seen) > 1:
        say(f"{file} {schedule}: {len(seen)} different results")
    return len(seen) == 1 and not bool(np.isnan(result).any())


def tests(out: Path, say: Say, processes: int) -> bool:
    import subprocess

    target = _target()
    compile_all([support_text(), *(source.text for source in sources(target))], target, processes)
    words = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-s", "-p", "no:cacheprovider", "tests/gpu"]
    # Other libraries' warnings are not ours to mend.
    words += ["-W", "default"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    (out / "pytest.log").write_text(done.stdout + done.stderr)
    say(done.stdout[-3000:] + done.stderr[-1000:])
    return done.returncode == 0


def _target() -> str:
    with Gpu() as device:
        return device.limits.target


PARTS: dict[str, Callable[[Path, Say, int], bool]] = {
    "times": times,
    "suite": suite,
    "candidates": candidates,
    "ablations": ablations,
    "drawn": drawn,
    "sanitize": sanitize,
    "repeat": repeat,
    "tests": tests,
}


@click.command()
@click.argument("parts", nargs=-1, required=True, type=click.Choice(list(PARTS)))
@click.option("--out", type=click.Path(path_type=Path), default=Path("out"), show_default=True)
@click.option("--processes", type=int, default=os.cpu_count() or 1, show_default=True)
@click.option("--commit", default="", help="What the suite names as its commit, where git does not tell.")
@click.option(
    "--file",
    "files",
    multiple=True,
    help="Sanitize the examples of this file, or of suite.toml, only; repeatable.",
)
@click.option(
    "--tool", "tools", multiple=True, type=click.Choice(TOOLS), help="Sanitize with this tool only."
)
def main(
    parts: tuple[str, ...],
    out: Path,
    processes: int,
    commit: str,
    files: tuple[str, ...],
    tools: tuple[Tool, ...],
) -> None:
    """Run parts of the evidence."""
    named = {
        "suite": partial(suite, commit=commit),
        "candidates": partial(candidates, commit=commit),
        "sanitize": partial(sanitize, files=files, tools=tools or TOOLS),
    }
    out.mkdir(parents=True, exist_ok=True)
    good = True
    with (out / "evidence.log").open("a", encoding="utf-8") as log:

        def say(line: str) -> None:
            stamped = f"[{time.perf_counter() - started:6.1f} s] {line}"
            click.echo(stamped)
            log.write(stamped + "\n")
            log.flush()

        for part in parts:
            started = time.perf_counter()
            try:
                right = (PARTS | named)[part](out, say, processes)
            except Exception as problem:
                # The other parts are worth their time all the same.
                right = False
                say(f"{part}: {type(problem).__name__}: {problem}")
                if os.environ.get("GEMMDSL_DEBUG") == "1":
                    import traceback

                    say(traceback.format_exc())
            say(f"{part}: {'as it must be' if right else 'NOT as it must be'}")
            good = good and right
    sys.exit(not good)


if __name__ == "__main__":
    main()
