"""`gemmdsl bench --suite`: the products of a table, each by the schedule that the table names."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from gemmdsl.cli.measuring import baseline_of, check_plot, steps_shown
from gemmdsl.cli.options import shortened

if TYPE_CHECKING:
    from gemmdsl.bench.suite_table import Product, Table

# What the table says, or what it makes no sense with.
_TABLES_OWN = {"files": "FILE", "names": "--schedule", "shapes": "--shapes", "verify_only": "--verify-only"}


@dataclass(frozen=True, slots=True)
class Asked:
    """Values of the options; `table` is "" for the checkout's own."""

    table: str
    only: tuple[str, ...]
    candidates: bool
    against: str
    batches: int
    allow_spills: bool
    index: int
    plot: Path | None
    output_format: str


def refuse_with_suite(ctx: click.Context) -> None:
    """UsageError when something is given that the table decides."""
    for name, title in _TABLES_OWN.items():
        given = ctx.get_parameter_source(name) not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
        if given and ctx.params[name]:
            raise click.UsageError(f"{title} does not go with --suite: its table says what is measured")


def run(asked: Asked) -> bool:
    """Measure and print; False when a kernel failed.  UsageError when there is no table, or nothing is left
    of it; GemmError for what is wrong with it, or with the GPU."""
    from gemmdsl.bench import suite_report
    from gemmdsl.bench.session import Settings
    from gemmdsl.bench.suite import hurried, run_suite, tasks_of
    from gemmdsl.bench.suite_table import load_table
    from gemmdsl.files import write_bytes
    from gemmdsl.runtime import Gpu

    if asked.plot is not None and asked.against == "none":
        raise click.UsageError("--plot shows ratios of a suite, and --against none takes none")
    # A picture of nothing would come to light when all is measured.
    against = "cublas" if asked.plot is not None else asked.against
    path = _table(asked.table)
    table = load_table(path)
    folder = Path(path).parent
    check_plot(asked.plot, [path, *(str(folder / one.file) for one in table.schedules.values())])
    tasks = tasks_of(table, _chosen(table, asked.only), asked.candidates)
    settings = Settings(batches=asked.batches, allow_spills=asked.allow_spills)
    if asked.candidates:
        settings = hurried(settings)
    with Gpu(asked.index) as gpu:
        baseline = baseline_of(against)
        with steps_shown(sum(len(task.subjects) for task in tasks)) as step:
            found = run_suite(gpu, table.source.file, tasks, baseline, settings, step)
    if asked.output_format == "json":
        click.echo(suite_report.suite_json(found))
    else:
        click.echo(suite_report.suite_table(found), nl=False)
    if asked.plot is not None:
        form = asked.plot.suffix.removeprefix(".")
        write_bytes(asked.plot, suite_report.suite_plot(found, form))
    return not suite_report.suite_failed(found)


def _table(name: str) -> str:
    from gemmdsl.resources import suite_table

    if name:
        return name
    own = suite_table()
    if own is None:
        raise click.UsageError("an installed gemmdsl has no suite of its own: name a table, --suite TABLE")
    return str(own)


def _chosen(table: Table, patterns: tuple[str, ...]) -> list[Product]:
    """The products of such names; UsageError when a pattern fits none."""
    for pattern in patterns:
        if not any(fnmatchcase(product.name, pattern) for product in table.products):
            names = ", ".join(product.name for product in table.products)
            raise click.UsageError(f"no product is called {shortened(pattern)}: there are {names}")
    return [
        product
        for product in table.products
        if not patterns or any(fnmatchcase(product.name, pattern) for pattern in patterns)
    ]
