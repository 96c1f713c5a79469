"""A suite's report as a table for people, as JSON for programs, and as a picture."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from gemmdsl.bench.plot import bars
from gemmdsl.bench.report import aligned, failed, row_data, shape_text, summary
from gemmdsl.bench.session import Row, bytes_of
from gemmdsl.bench.suite import Entry, SuiteReport

SCHEMA = "gemmdsl.suite/1"
_COLUMNS = ("product", "schedule", "path", "us", "rate", "", "x cuBLAS", "bound", "of it")
_WORDS = 3


def suite_table(report: SuiteReport) -> str:
    """A line for each product below what the figures are from, then the mean; ends in a newline."""
    origin, ceilings = report.origin, report.ceilings
    parts = (
        f"{origin.device} ({origin.target})",
        f"driver {origin.driver}" if origin.driver else "",
        f"CUDA {origin.toolkit}" if origin.toolkit else "",
        f"gemmdsl {origin.gemmdsl}" + (f" at {origin.commit}" if origin.commit else ""),
        origin.date,
    )
    lines = [
        ", ".join(filter(None, parts)),
        f"{ceilings.flops / 1e12:.1f} TFLOP/s of FMAs, {ceilings.bytes / 1e12:.2f} TB/s copied,"
        f" {report.launch * 1e6:.2f} us a launch, all measured in this run",
        f"{report.table} against {report.against or 'nothing'}",
        "",
        *aligned([_COLUMNS, *(_cells(entry, bool(report.against)) for entry in report.entries)], _WORDS),
        "",
        verdict(report),
    ]
    if any(entry.candidates for entry in report.entries):
        lines += ["", "Candidates, the fastest first:", *map(_ranking, report.entries)]
        lines += ["", "The fastest of each as a table:", *_suggested(report.entries)]
    return "\n".join(lines) + "\n"


def verdict(report: SuiteReport) -> str:
    """The geometric mean, the worst product, and how many were timed."""
    counted = summary([entry.row for entry in report.entries])
    worst = report.worst
    if worst is None:
        return counted
    return (
        f"geometric mean {report.mean:.3f} x cuBLAS,"
        f" worst {worst.row.ratio:.3f} ({worst.product.name}); {counted}"
    )


def suite_failed(report: SuiteReport) -> bool:
    """Whether a kernel failed, or the schedule of a product does not fit it."""
    rows = [row for entry in report.entries for row in (entry.row, *entry.candidates)]
    return failed(rows) or any(entry.row.status == "unfit" for entry in report.entries)


def suite_json(report: SuiteReport) -> str:
    """The report with its schema and every sample; times in seconds, rates per second."""
    worst = report.worst
    data = {
        "schema": SCHEMA,
        **asdict(report.origin),
        "table": report.table,
        "against": report.against,
        "ceilings": {**asdict(report.ceilings), "launch_seconds": report.launch},
        "geometric_mean": report.mean or None,
        "worst": worst.product.name if worst else None,
        "entries": [_entry(entry) for entry in report.entries],
    }
    return json.dumps(data, indent=1)


def suite_plot(report: SuiteReport, form: str) -> bytes:
    """Bars of the ratios, `form` being svg or png; GemmError as for `bars`."""
    compared = [(entry.product.name, entry.row.ratio) for entry in report.entries if entry.row.ratio]
    mean = f"geometric mean {report.mean:.3f}"
    return bars(compared, f"{report.origin.device}, FP32, speed relative to cuBLAS: {mean}", form)


def _cells(entry: Entry, compared: bool) -> tuple[str, ...]:
    row = entry.row
    head = (entry.product.name, row.schedule, row.entry)
    if row.samples is None or entry.bound is None:
        return (*head, f"{row.status}: {row.reason}")
    memory = entry.bound == "DRAM"
    rate = bytes_of(row.shape) / row.samples.median if memory else row.flops
    return (
        *head,
        f"{row.samples.median * 1e6:.2f}",
        f"{rate / 1e12:.2f}",
        "TB/s" if memory else "TFLOP/s",
        f"{row.ratio:.3f}" if compared else "",
        entry.bound,
        f"{entry.share:.1%}",
    )


def _entry(entry: Entry) -> dict[str, Any]:
    row = entry.row
    return {
        "product": asdict(entry.product),
        "bound": entry.bound,
        "share": entry.share if entry.bound else None,
        "traffic_tbs": bytes_of(row.shape) / row.samples.median / 1e12 if row.samples else None,
        "row": row_data(row),
        "candidates": [row_data(candidate) for candidate in entry.candidates],
    }


def _ranking(entry: Entry) -> str:
    fitting = (row for row in entry.candidates if row.status != "unfit")
    return f"  {entry.product.name}: " + ", ".join(map(_candidate, fitting))


def _candidate(row: Row) -> str:
    if row.samples is None:
        return f"{row.schedule} {row.status}"
    return f"{row.schedule} {f'{row.ratio:.3f}' if row.ratio else f'{row.samples.median * 1e6:.2f} us'}"


def _suggested(entries: Sequence[Entry]) -> Iterator[str]:
    """Lines of a table in which each product has its fastest schedule."""
    for entry in entries:
        product = entry.product
        best = next((row.schedule for row in entry.candidates if row.samples), product.schedule)
        words = [f'shape = "{shape_text(product.shape)}"']
        words += [f'layout = "{product.layout}"'] if product.layout != "NN" else []
        words += [f"pad = {product.pad}"] if product.pad else []
        # TOML has no pairs of escapes for one character, as JSON's ASCII has.
        name = json.dumps(product.name, ensure_ascii=False)
        words += [f"name = {name}"] if product.name != product.described else []
        yield f'  {{ {", ".join(words)}, schedule = "{best}" }},'
