"""Tables for docs/performance.md from what the evidence wrote: `python -m tests.gpu.tables times.json`.

The file is `times.json`, `suite.json` or `candidates.json`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

SQUARES = ((512,) * 3, (1024,) * 3, (2048,) * 3, (4096,) * 3, (8192,) * 3)
AWKWARD = ((1000,) * 3, (1023,) * 3, (4097,) * 3, (35, 79, 19), (30000, 64, 64))
Row = dict[str, Any]


def tables(times: dict[str, Any]) -> Iterator[str]:
    """Lines of Markdown: every schedule at the squares, then at the awkward shapes."""
    timed: dict[tuple[str, str], dict[tuple[int, ...], Row]] = {}
    for row in times["rows"]:
        if row["status"] == "timed":
            timed.setdefault((row["file"], row["schedule"]), {})[tuple(row["shape"])] = row
    yield from _table(timed, SQUARES, "regs")
    yield ""
    yield from _table(timed, AWKWARD, "")


def _table(
    timed: dict[tuple[str, str], dict[tuple[int, ...], Row]], shapes: Iterable[tuple[int, ...]], extra: str
) -> Iterator[str]:
    shapes = tuple(shapes)
    names = [str(s[0]) if len(set(s)) == 1 else "x".join(map(str, s)) for s in shapes]
    yield "| schedule | " + " | ".join(names) + (f" | {extra} |" if extra else " |")
    yield "|---|" + "---|" * (len(names) + bool(extra))
    baseline = [next((by[s] for by in timed.values() if s in by), None) for s in shapes]
    cells = [f"{row['baseline_tflops']:.1f}" if row else "" for row in baseline]
    yield "| cuBLAS FP32, TFLOP/s | " + " | ".join(cells) + (" | |" if extra else " |")
    for (file, schedule), by in timed.items():
        cells = [_cell(by.get(shape)) for shape in shapes]
        registers = f" | {max(row['registers'] for row in by.values())} |" if extra else " |"
        yield f"| {file.removesuffix('.gemm')} `{schedule}` | " + " | ".join(cells) + registers


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    path = "" if row["entry"] == "fast" else f" {row['entry'][0]}"
    return (
        f"{row['tflops']:.1f} ({row['ratio']:.2f}{path})"
        if row["tflops"] >= 1
        else f"({row['ratio']:.2f}{path})"
    )


def suite(data: dict[str, Any]) -> Iterator[str]:
    """Lines of Markdown: what the suite is from, a row for each product, and the mean."""
    origin = [f"{data['device']}", f"driver {data['driver']}", f"CUDA {data['toolkit']}", data["against"]]
    origin += [f"gemmdsl {data['gemmdsl']} at {data['commit']}", data["date"]]
    ceilings = data["ceilings"]
    yield ", ".join(origin) + "."
    yield (
        f"In the same run, FMAs reach {ceilings['flops'] / 1e12:.1f} TFLOP/s, a copy"
        f" {ceilings['bytes'] / 1e12:.2f} TB/s, and a launch takes {ceilings['launch_seconds'] * 1e6:.2f} us."
    )
    yield ""
    yield "| product | schedule | path | us | TFLOP/s | TB/s | x cuBLAS | bound | of it |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for entry in data["entries"]:
        row, name = entry["row"], entry["product"]["name"]
        if entry["bound"] is None:
            told = f"{row['status']}: {row['reason']}"
            yield f"| {name} | `{row['schedule']}` | {row['entry']} | {told} | | | | | |"
            continue
        cells = [name, f"`{row['schedule']}`", row["entry"], f"{row['seconds'] * 1e6:.2f}"]
        cells += [f"{row['tflops']:.2f}", f"{entry['traffic_tbs']:.2f}"]
        cells += [f"{row['ratio']:.3f}", entry["bound"], f"{entry['share']:.0%}"]
        yield "| " + " | ".join(cells) + " |"
    yield ""
    yield f"Geometric mean {data['geometric_mean']:.3f}; the worst is {data['worst']}."


if __name__ == "__main__":
    read = json.loads(Path(sys.argv[1]).read_text())
    print("\n".join(suite(read) if read.get("schema", "").startswith("gemmdsl.suite/") else tables(read)))
