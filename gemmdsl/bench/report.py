"""Rows as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from gemmdsl.bench.session import Report, Row, Shape

SCHEMA = "gemmdsl.bench/1"
_COLUMNS = ("schedule", "shape", "path", "TFLOP/s", "spread", "x cuBLAS", "of peak", "regs", "blocks/SM")
_WORDS = 3


def table(report: Report) -> str:
    """A line for each row below a heading, ending in a newline."""
    ceilings = report.ceilings
    lines = [
        f"{report.device} ({report.target}), {report.driver}: {ceilings.flops / 1e12:.1f} TFLOP/s of FMAs,"
        f" {ceilings.bytes / 1e12:.2f} TB/s copied",
        f"against {report.against}" if report.against else "against nothing",
        "",
    ]
    lines += aligned([_COLUMNS, *(_cells(row, bool(report.against)) for row in report.rows)], _WORDS)
    return "\n".join(lines) + "\n"


def aligned(rows: Sequence[tuple[str, ...]], words: int) -> Iterator[str]:
    """Lines of columns as wide as they have to be, the first `words` of them set to the left.

    The first row is the heading; a row that is shorter has a sentence after its words.
    """
    full = [row for row in rows if len(row) == len(rows[0])]
    widths = [
        max(len(row[column]) for row in (rows if column < words else full)) for column in range(len(rows[0]))
    ]
    for row in rows:
        padded = [
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        sentence = (*padded[:words], row[-1])
        yield "  ".join(padded if len(row) == len(rows[0]) else sentence).rstrip()


def summary(rows: Sequence[Row]) -> str:
    """How many kernels were timed or verified, and how many were not and why."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.status] = counts.get(row.status, 0) + 1
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "nothing measured"


def failed(rows: Sequence[Row]) -> bool:
    """Whether a kernel is wrong, spills without leave, does not compile, or shows a figure that cannot be."""
    return any(row.status in ("wrong", "spills", "impossible", "broken", "unverified") for row in rows)


def to_json(report: Report) -> str:
    """The report with its form in `schema`, every sample included; times in seconds, rates per second."""
    data = {
        "schema": SCHEMA,
        "device": report.device,
        "target": report.target,
        "driver": report.driver,
        "ceilings": asdict(report.ceilings),
        "against": report.against,
        "rows": [row_data(row) for row in report.rows],
    }
    return json.dumps(data, indent=1)


def shape_text(shape: Shape) -> str:
    """One number for a cube, else MxNxK."""
    return str(shape[0]) if len(set(shape)) == 1 else "x".join(map(str, shape))


def _cells(row: Row, compared: bool) -> tuple[str, ...]:
    head = (row.schedule, shape_text(row.shape), row.entry)
    if row.samples is None:
        told = f"{row.status}: {row.reason}" if row.reason else f"{row.status}, largest error {row.error:.2g}"
        return (*head, told)
    spilled = "*" if row.spilled else ""
    return (
        *head,
        f"{row.flops / 1e12:.2f}",
        f"{row.samples.spread:.1%}",
        f"{row.ratio:.3f}" if compared else "",
        f"{row.share_of_peak:.1%}",
        f"{row.registers}{spilled}",
        str(row.blocks_per_sm),
    )


def row_data(row: Row) -> dict[str, Any]:
    """A row as JSON has it, with the figures that are made of its samples."""
    return {
        **asdict(row),
        "tflops": row.flops / 1e12,
        "ratio": row.ratio,
        "seconds": row.samples.median if row.samples else None,
        "spread": row.samples.spread if row.samples else None,
        "baseline_tflops": row.flops / row.ratio / 1e12 if row.ratio else None,
    }
