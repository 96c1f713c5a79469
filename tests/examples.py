"""The schedules of every example, for tests that go through all of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import gemmdsl
from gemmdsl.target import TARGETS

FOLDER = Path(__file__).parent.parent / "examples"


@cache
def program(file: str) -> gemmdsl.Program:
    """An example, loaded once."""
    return gemmdsl.load(FOLDER / file)


def files() -> list[str]:
    return sorted(path.name for path in FOLDER.glob("*.gemm"))


def schedules() -> list[tuple[str, str]]:
    """(file, schedule) of every example."""
    return [(file, schedule) for file in files() for schedule in program(file).schedules]


@cache
def kernel(file: str, schedule: str, target: str | None = None) -> gemmdsl.CompiledKernel:
    """An example's schedule, compiled once."""
    return program(file).compile(schedule, target)


def kernel_on(file: str, schedule: str, target: str) -> gemmdsl.CompiledKernel:
    """An example's schedule for a device of `target`: for its own target, unless the device is older."""
    own = kernel(file, schedule)
    device = TARGETS[target]
    return own if own.spec.target.number <= device.number else kernel(file, schedule, target)
