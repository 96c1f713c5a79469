"""How fast the emulator is, in figures that hardly depend on what else the machine does.

    python -m gemmdsl.bench.emulator
    python -m gemmdsl.bench.emulator examples/*.gemm     # and every schedule of these files

All times are processor time of one core, the best of several runs.  Exits with 1 when a figure misses its
limit; schedules of files have none.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import gemmdsl
from gemmdsl.cuda_source import CudaSource
from gemmdsl.emulator.library import RunOptions
from gemmdsl.emulator.run import arguments_of, launch, store

_PROGRAM = """gemm 1

problem sgemm {
  A: f32[M, K]
  B: f32[K, N]
  C: f32[M, N] = alpha * A @ B + beta * C
}

schedule v3_2 for sgemm on sm_75 {
  block  128 x 128 x 8
  thread 8 x 8 as 4 x 4
  stage A { vector 4  transpose  pad 4 }
  stage B { vector 4 }
  buffers 2
}

schedule micro for sgemm on sm_75 {
  block  16 x 16 x 16
  thread 2 x 2
}
"""
_SIZE = 256
_MICRO = 16


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; `good` says whether it keeps to the limit that is given in words."""

    name: str
    value: float
    unit: str
    limit: str
    good: bool

    def __str__(self) -> str:
        verdict = "" if self.good else "  MISSED"
        return f"{self.name:<42} {self.value:>9.4g} {self.unit:<16} {self.limit}{verdict}"


@dataclass(frozen=True, slots=True)
class Speed:
    """Multiply-adds that a kernel does per second unchecked, and how many times as long it takes checked."""

    name: str
    rate: float
    ratio: float

    def __str__(self) -> str:
        return (
            f"{self.name:<42} {self.rate / 1e6:>9.4g} million FMA/s  {self.ratio:>9.3g} times as long checked"
        )


def processor_seconds(work: Callable[[], None]) -> float:
    """The processor time that `work` takes, that of processes that it starts included."""

    def spent() -> float:
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    before = spent()
    work()
    return spent() - before


def multiply(
    source: CudaSource, size: int, *, launches: int = 1, checked: bool = False, cached: bool = True
) -> float:
    """Processor seconds of a launch of `size` cubed multiply-adds on one core.

    The first launch compiles the kernel, if no cache has it, and counts only when there is no other.
    """
    stored = store(source, size, size, size)
    stored["A"].fill(np.ones((size, size)))
    stored["B"].fill(np.ones((size, size)))
    arguments = arguments_of(stored, size, size, size)

    def run(times: int) -> None:
        for _ in range(times):
            launch(source, arguments, options=RunOptions(workers=1), checked=checked, cached=cached)

    if launches == 1:
        return processor_seconds(lambda: run(1))
    run(1)
    return processor_seconds(lambda: run(launches)) / launches


def speed(name: str, source: CudaSource, repeats: int) -> Speed:
    """The best of several measurements of a kernel at 256 cubed."""
    plain, checked = (
        min(multiply(source, _SIZE, launches=10, checked=watched) for _ in range(repeats))
        for watched in (False, True)
    )
    return Speed(name, _SIZE**3 / plain, checked / plain)


def speeds(files: Sequence[str], repeats: int) -> Iterator[Speed]:
    """Every schedule of every file; GemmError for a file that is wrong, ToolError without a compiler."""
    for file in files:
        program = gemmdsl.load(file)
        for schedule in program.schedules:
            yield speed(f"{Path(file).name} {schedule}", program.compile(schedule).cuda, repeats)


def figures(repeats: int) -> list[Figure]:
    """All figures; ToolError when there is no compiler."""
    program = gemmdsl.loads(_PROGRAM, "benchmark.gemm")
    v3_2, micro = program.compile("v3_2").cuda, program.compile("micro").cuda
    large = speed("v3_2", v3_2, repeats)
    multiply(micro, _MICRO)  # the emulator itself is compiled once for all kernels
    fresh = (replace(micro, text=f"{micro.text}// {number}\n") for number in range(repeats))
    whole = min(multiply(kernel, _MICRO, cached=False) for kernel in fresh)
    rate, ratio = large.rate / 1e6, large.ratio
    return [
        Figure(f"v3_2, {_SIZE} x {_SIZE} x {_SIZE}", rate, "million FMA/s", ">= 300", rate >= 300),
        Figure("the same, checked / unchecked", ratio, "times as long", "<= 5", ratio <= 5),
        Figure(f"{_MICRO} x {_MICRO} kernel, compiled and run", whole, "seconds", "< 0.3", whole < 0.3),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; 0 when all keep to their limits, else 1."""
    parser = argparse.ArgumentParser(prog="python -m gemmdsl.bench.emulator", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="whose schedules are timed as well")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of which the best counts")
    chosen = parser.parse_args(arguments)
    repeats = max(1, chosen.repeats)
    found = figures(repeats)
    for figure in found:
        print(figure)
    for one in speeds(chosen.files, repeats):
        print(one)
    return 0 if all(figure.good for figure in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
