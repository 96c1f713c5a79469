"""Measures the products of a suite's table, each by the schedule that the table names.

What goes wrong with one product is told in its row, and the others are measured all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import exp, inf, log
from typing import Literal

from gemmdsl.bench.baseline import Baseline
from gemmdsl.bench.origin import Origin, origin_of
from gemmdsl.bench.session import Row, Session, Settings, Subject, bytes_of, work_of
from gemmdsl.bench.suite_table import Product, Table
from gemmdsl.bench.support import Ceilings, Support
from gemmdsl.bench.timing import interleaved
from gemmdsl.diagnostics import GemmError
from gemmdsl.runtime.device import Gpu

Ceiling = Literal["FMA", "DRAM", "launch"]
_CANDIDATES_HURRY = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """A product and what was measured of it.

    `bound` is the ceiling that takes longest, and `share` its time over the measured one; they are None and 0
    without a time.  `candidates` are rows of all schedules for the product's layout, the fastest first, if
    they were asked for.
    """

    product: Product
    row: Row
    bound: Ceiling | None = None
    share: float = 0.0
    candidates: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """All entries, the ceilings that were measured with them, and where they are from.

    `launch` is the time, in seconds, of a kernel that does nothing, launched as the others are.
    """

    table: str
    origin: Origin
    against: str
    ceilings: Ceilings
    launch: float
    entries: tuple[Entry, ...]

    @property
    def mean(self) -> float:
        """The geometric mean of the ratios to the baseline; 0 without any."""
        ratios = [entry.row.ratio for entry in self.entries if entry.row.ratio]
        return exp(sum(map(log, ratios)) / len(ratios)) if ratios else 0.0

    @property
    def worst(self) -> Entry | None:
        """The entry of the smallest ratio."""
        compared = [entry for entry in self.entries if entry.row.ratio]
        return min(compared, key=lambda entry: entry.row.ratio, default=None)


@dataclass(frozen=True, slots=True)
class Task:
    """A product and the schedules to measure on it, compiled: the table's choice among them."""

    product: Product
    subjects: tuple[Subject, ...]


def tasks_of(table: Table, products: Sequence[Product], candidates: bool = False) -> tuple[Task, ...]:
    """A task for each product; with `candidates`, of all schedules for its layout."""

    @cache
    def compiled(name: str) -> Subject:
        listed = table.schedules[name]
        return Subject(listed.file, listed.program.compile(name))

    def names(product: Product) -> list[str]:
        if not candidates:
            return [product.schedule]
        return [name for name, listed in table.schedules.items() if listed.layout == product.layout]

    return tuple(Task(product, tuple(map(compiled, names(product)))) for product in products)


def hurried(chosen: Settings) -> Settings:
    """The settings for many candidates of each product: shorter batches, to rank them by."""
    return replace(chosen, batch_seconds=chosen.batch_seconds / _CANDIDATES_HURRY)


def run_suite(
    gpu: Gpu,
    table: str,
    tasks: Sequence[Task],
    baseline: Baseline | None,
    chosen: Settings,
    progress: Callable[[str], None] = lambda title: None,
    commit: str = "",
) -> SuiteReport:
    """An entry for each task; `progress` is called before each of its subjects.

    `table` is the name under which the report tells where the products are from.  GemmError when nothing can
    be measured at all.
    """
    support = Support(gpu)
    ceilings = support.ceilings()
    stream = gpu.stream()
    launch = interleaved(
        gpu,
        stream,
        {"launch": lambda turn: support.idle(stream)},
        batches=chosen.batches,
        batch_seconds=chosen.batch_seconds,
        graphs=baseline is None or baseline.capturable,
    )["launch"].median
    session = Session(gpu, support, ceilings, baseline, chosen, progress)
    entries = []
    for task in tasks:
        product = task.product
        try:
            rows = session.run(task.subjects, product.shape, product.pad)
        except GemmError as problem:
            rows = [_broken(subject, product, problem) for subject in task.subjects]
        row = next(row for row in rows if row.schedule == product.schedule)
        ranked = sorted(rows, key=lambda row: row.samples.median if row.samples else inf)
        bound, share = _bound(row, ceilings, launch)
        entries.append(Entry(product, row, bound, share, tuple(ranked) if len(rows) > 1 else ()))
    title = baseline.title if baseline else ""
    return SuiteReport(table, origin_of(gpu, commit), title, ceilings, launch, tuple(entries))


def _broken(subject: Subject, product: Product, problem: GemmError) -> Row:
    reason = problem.diagnostics[0].message
    return Row(subject.file, subject.schedule, product.shape, "broken", reason, pad=product.pad)


def _bound(row: Row, ceilings: Ceilings, launch: float) -> tuple[Ceiling | None, float]:
    """The ceiling that takes longest, and its share; operands that stay in L2 have none of DRAM."""
    if row.samples is None:
        return None, 0.0
    seconds: dict[Ceiling, float] = {"FMA": work_of(row.shape) / ceilings.flops, "launch": launch}
    if row.cold:
        seconds["DRAM"] = bytes_of(row.shape) / ceilings.bytes
    bound = max(seconds, key=lambda name: seconds[name])
    return bound, seconds[bound] / row.samples.median
