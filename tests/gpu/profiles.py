"""Counters of every example schedule: gathered on a GPU, compared with the model on any machine.

    python -m tests.gpu.profiles --out out            # needs a GPU, ncu, nvcc and pycuda
    python -m tests.gpu.profiles --compare out        # needs nvcc and nvdisasm

The first command writes raw.csv (a row of counters for each launch), source.csv (shared memory by
instruction) and profiles.log; `gemmdsl profile --report raw.csv --report source.csv` reads them as well.
A few schedules at a time are launched by one process under ncu, which is faster than a program for each.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import gemmdsl
from gemmdsl import checker
from gemmdsl.analysis.ncu import arbitration, by_instruction, collecting, compare, exports, metrics
from gemmdsl.analysis.ncu_report import read_report, shared_rows
from gemmdsl.analysis.shape import Shape, tight
from gemmdsl.cubins import cached_cubin
from gemmdsl.diagnostics import GemmError
from gemmdsl.explain.model import model
from gemmdsl.toolchain import find_tool
from gemmdsl.toolchain.process import run_tool
from tests import examples

CHUNK = 8
CHUNK_SECONDS = 120.0
# Hundreds of millions of accesses, each of which is instrumented to be counted.
HEAVY = ("v0_naive", "v1_shared", "v2_column")
# Asked for where this ncu and GPU know them: other ways to count the same wavefronts, and the same additions.
OTHERS = (
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared",
    "l1tex__data_pipe_lsu_wavefronts",
    "l1tex__data_bank_reads",
    "l1tex__data_bank_writes",
    "smsp__inst_executed_op_global_red",
    "smsp__sass_inst_executed_op_global_red",
    "l1tex__lsu_writeback_active_mem_global_op_red",
    "lts__t_requests_srcunit_tex_op_red",
    "lts__t_sectors_srcunit_tex_op_red",
)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Subject:
    """A schedule of an example for one target, and the entry that takes a shape."""

    file: str
    schedule: str
    kernel: gemmdsl.CompiledKernel
    shape: Shape
    entry: str


def subjects(target: str, size: int, names: tuple[str, ...] = ()) -> list[Subject]:
    """Every schedule of every example that fits the target and the shape: the ladder first, HEAVY last."""
    found = []
    for file, schedule in sorted(
        examples.schedules(), key=lambda pair: (pair[1] in HEAVY, pair[0] != "ladder.gemm")
    ):
        if names and schedule not in names:
            continue
        try:
            kernel = examples.kernel(file, schedule, target)
        except GemmError:
            continue
        shape = tight(kernel.spec.problem, size, size, size)
        entry = kernel.launch_plan.select(shape.sizes)
        if entry is not None:
            found.append(Subject(file, schedule, kernel, shape, entry.name))
    entries = [subject.entry for subject in found]
    assert len(set(entries)) == len(entries), "names of kernels tell their schedules"
    return found


def launch(size: int, names: tuple[str, ...]) -> None:
    """Launch each schedule once, with alpha 1 and beta 0; what ncu watches.

    Kernels around the main one are launched, too, but go by other names than those that ncu looks for.
    """
    from gemmdsl.runtime import Gpu
    from gemmdsl.runtime.kernel import load

    with Gpu() as device:
        held: dict[str, Any] = {name: device.allocate(4 * size * size, name) for name in "ABC"}
        arguments = {name: int(memory) for name, memory in held.items()}
        for name in "AB":
            device.fill_words(arguments[name], 0x3F800000, size * size)
        sizes = dict.fromkeys(("M", "N", "K", "lda", "ldb", "ldc"), size)
        for subject in subjects(device.limits.target, size, names):
            try:
                loaded = load(device, subject.kernel.cuda)
                loaded.launch({**arguments, **sizes})
                loaded.wait()
            except GemmError as problem:
                click.echo(f"{subject.schedule}: {problem}", err=True)


def gather(out: Path, size: int, names: tuple[str, ...], seconds: float, processes: int, say: Say) -> bool:
    """Profile schedules, all by default; begins nothing new after `seconds`.  Whether all were profiled."""
    from gemmdsl.runtime import Gpu

    started = time.perf_counter()
    with Gpu() as device:
        target = device.limits.target
    tool = str(find_tool("ncu").path)
    every = subjects(target, size, names)
    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(lambda subject: _compiled(subject, target), every))
    plain = metrics(asynchronous=True, adding=True)
    asked = (*plain, *_known(tool, say))
    say(f"{len(every)} schedules for {target}, {len(asked)} counters")
    done = 0
    for start in range(0, len(every), CHUNK):
        chunk = every[start : start + CHUNK]
        titles = ", ".join(subject.schedule for subject in chunk)
        if time.perf_counter() - started > seconds:
            say(f"no time left for {titles}")
            continue
        try:
            found = _chunk(tool, asked, size, chunk, out, say)
            if not found and asked != plain:
                say("again, without other counters")
                asked = plain
                found = _chunk(tool, asked, size, chunk, out, say)
            done += found
            say(f"{titles}: {found} of {len(chunk)} profiled")
        except GemmError as problem:
            say(f"{titles}: {problem}")
    say(f"{done} of {len(every)} schedules profiled")
    return done == len(every)


def _compiled(subject: Subject, target: str) -> None:
    """Into the cache; what cannot be compiled is found again when it is launched."""
    try:
        cached_cubin(subject.kernel.source, target)
    except GemmError:
        return


def _known(tool: str, say: Say) -> list[str]:
    """The counters of OTHERS that there are, as sums."""
    try:
        listed = run_tool((tool, "--query-metrics"), None, 60.0).text.split()
    except GemmError as problem:
        say(str(problem))
        return []
    found = [f"{name}.sum" for name in OTHERS if name in listed]
    say(f"other counters: {', '.join(found) or 'none'}")
    return found


def _chunk(tool: str, asked: tuple[str, ...], size: int, chunk: list[Subject], out: Path, say: Say) -> int:
    """Profile some schedules and add to the files; how many of them are in what ncu printed."""
    entries = "|".join(subject.entry for subject in chunk)
    names = tuple(subject.schedule for subject in chunk)
    with tempfile.TemporaryDirectory() as folder:
        kept = str(Path(folder) / "chunk.ncu-rep")
        program = (sys.executable, "-m", "tests.gpu.profiles", "--size", str(size), "--launch", *names)
        words = (*collecting(tool, asked, kept), "--kernel-name", f"regex:^({entries})$", *program)
        # The process under ncu finds this package where it is started.
        outcome = run_tool(("/usr/bin/env", "-C", os.getcwd(), *words), Path(folder), CHUNK_SECONDS)
        if outcome.status != 0 or not Path(kept).exists():
            say(f"ncu ended with {outcome.status}: {(outcome.messages + outcome.text)[-3000:]}")
        if not Path(kept).exists():
            return 0
        raw, source = (run_tool(page, Path(folder), CHUNK_SECONDS) for page in exports(tool, kept))
    with (out / "raw.csv").open("a", encoding="utf-8") as file:
        file.write(raw.text)
    with (out / "source.csv").open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in shared_rows(source.text))
    # What the pages look like, should they not be understood.
    say(f"pages: {len(raw.text)} and {len(source.text)} bytes; the latter begins {source.text[:2500]!r}")
    return sum(f'"{subject.entry}' in raw.text for subject in chunk)


def compare_all(folder: Path, target: str, size: int, names: tuple[str, ...], say: Say) -> bool:
    """Prediction against measurement, by default for every schedule; whether all counters agree."""
    pages = [folder / name for name in ("raw.csv", "source.csv")]
    text = "\n".join(page.read_text(encoding="utf-8", errors="replace") for page in pages if page.exists())
    every = subjects(target, size, names)
    unknown = set(names) - {subject.schedule for subject in every}
    if unknown:
        say(f"no such schedule for {target} at {size}: {', '.join(sorted(unknown))}")
    good = not unknown
    counters = agreeing = 0
    for subject in every:
        program = checker.load(examples.FOLDER / subject.file)
        found = model(program, program.spec(subject.schedule, target), subject.shape)
        try:
            measured = read_report(text, subject.entry)
        except ValueError as problem:
            say(f"{subject.file} {subject.schedule}: {problem}")
            good = False
            continue
        rows = compare(found.machine, found.counted, found.occupancy, measured)
        judged = [row for row in rows if row.equal is not None]
        wrong = [row for row in judged if not row.equal]
        counters += len(judged)
        agreeing += len(judged) - len(wrong)
        # Where nothing was measured, nothing agrees.
        good = good and bool(judged) and not wrong and found.machine is not None
        added = ", ".join(f"{one.kind}s {one.share:+.3%}" for one in arbitration(measured))
        by = "by the pipe" if by_instruction("load", measured) is None else "by instruction"
        say(
            f"{subject.file} {subject.schedule}: {len(judged) - len(wrong)} of {len(judged)} counters agree,"
            f" wavefronts {by}; arbitration: {added or 'not known'} {found.no_machine}"
        )
        for row in wrong:
            say(f"    {row.name}: predicted {row.predicted:,.0f}, measured {row.measured:,.0f}")
    say(f"{agreeing} of {counters} counters agree")
    return good


@click.command()
@click.argument("names", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), help="Profile, and write the counters there.")
@click.option("--compare", "folder", type=click.Path(path_type=Path), help="Compare what lies there.")
@click.option("--launch", "launching", is_flag=True, help="Launch the named schedules, and no more.")
@click.option("--size", type=int, default=2048, show_default=True, help="M, N and K.")
@click.option("--target", default="sm_90", show_default=True, help="What the counters were measured on.")
@click.option("--seconds", type=float, default=100.0, show_default=True, help="Begin nothing new after that.")
@click.option("--processes", type=int, default=os.cpu_count() or 1, show_default=True)
def main(
    names: tuple[str, ...],
    out: Path | None,
    folder: Path | None,
    launching: bool,
    size: int,
    target: str,
    seconds: float,
    processes: int,
) -> None:
    """Gather counters of the named schedules of the examples, or compare them with the model."""
    if launching:
        launch(size, names)
    elif folder is not None:
        sys.exit(not compare_all(folder, target, size, names, click.echo))
    elif out is not None:
        out.mkdir(parents=True, exist_ok=True)
        started = time.perf_counter()
        with (out / "profiles.log").open("a", encoding="utf-8") as log:

            def say(line: str) -> None:
                stamped = f"[{time.perf_counter() - started:6.1f} s] {line}"
                click.echo(stamped)
                log.write(stamped + "\n")
                log.flush()

            sys.exit(not gather(out, size, names, seconds, processes, say))
    else:
        raise click.UsageError("say --out or --compare")


if __name__ == "__main__":
    main()
