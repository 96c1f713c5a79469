"""Counters of the examples, measured once and kept beside the tests, and tables of the docs made of them.

    python -m tests.gpu.profiles --out out                   # on a GPU
    python -m tests.gpu.measured out --date 2026-11-29       # anywhere with nvcc and nvdisasm
    GEMMDSL_UPDATE_GOLDENS=1 pytest tests/analysis/test_measured.py

The second command rewrites tests/analysis/data/counters_h200.csv, the third the tables in docs/ladder.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from hashlib import sha256
from pathlib import Path

import click

from gemmdsl.analysis.compiled import Compiled, build, compiled
from gemmdsl.analysis.ncu import Comparison, compare
from gemmdsl.analysis.ncu_report import Measured, read_report
from gemmdsl.analysis.sass import Function
from gemmdsl.emit import emit
from gemmdsl.occupancy import occupancy
from gemmdsl.passes import steps
from tests import examples
from tests.gpu.profiles import Subject, subjects

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "analysis" / "data" / "counters_h200.csv"
PAGES = ROOT / "docs" / "ladder"
TARGET, SIZE = "sm_90", 2048
# What the text alone does not decide: these hold for the machine code that was measured, and no other.
OF_CODE = ("instructions", "registers", "blocks per SM")
# Own counters of asynchronous copies lose or repeat some of them, others from run to run, at most this part.
# Requests, and the sectors of all loads, are exact.
OF_COPIES = ("async copy sectors", "async copy wavefronts", "async copy bank conflicts")
LOST_OR_REPEATED = 0.05
_SECTION = re.compile(r"^## Measured\n.*?(?=^## |^Next: |\Z)", re.MULTILINE | re.DOTALL)
_AFTER = re.compile(r"^(?:## Counters|Next: )", re.MULTILINE)
_FMAS = SIZE**3


@dataclass(frozen=True, slots=True)
class Kept:
    """One counter of a schedule; `measured` may be `allowed` off.  `code` is a digest of the machine code."""

    file: str
    schedule: str
    code: str
    counter: str
    predicted: int
    measured: int
    allowed: int


def predicted(subject: Subject, measured: Measured | None = None) -> tuple[str, tuple[Comparison, ...]]:
    """(digest of the machine code, counters as compiled beside measured ones)."""
    last = steps(examples.program(subject.file).spec(subject.schedule, TARGET))[-1]
    source = emit(last.kernel, last.proofs)
    binary = build(source)
    machine: Compiled = compiled(last.kernel, source, binary, subject.shape)
    registers, threads = machine.usage.registers, last.kernel.threads.threads.value
    resident = occupancy(last.kernel.spec.target, threads, registers, last.kernel.shared_bytes)
    rows = compare(machine, machine.accesses, resident, measured or Measured({}))
    return _digest(binary.functions[machine.entry]), rows


def _digest(function: Function) -> str:
    lines = (f"{one.opcode} {one.operands} {one.negated} {one.predicate}" for one in function.code)
    return sha256("\n".join(lines).encode()).hexdigest()[:12]


def read() -> tuple[str, tuple[Kept, ...]]:
    """(what was measured on which machine, when and how, the counters that are kept)."""
    with DATA.open(encoding="utf-8", newline="") as file:
        told = file.readline().removeprefix("# ").strip()
        return told, tuple(
            Kept(
                *(row["file"], row["schedule"], row["code"], row["counter"]),
                *(int(row[name]) for name in ("predicted", "measured", "allowed")),
            )
            for row in csv.DictReader(file)
        )


def _keep(text: str) -> Iterator[Kept]:
    """The counters of a report, beside those of the model."""
    for subject in subjects(TARGET, SIZE):
        try:
            found = read_report(text, subject.entry)
        except ValueError:
            click.echo(f"{subject.file} {subject.schedule} was not profiled", err=True)
            continue
        code, rows = predicted(subject, found)
        for row in rows:
            if row.measured is not None:
                numbers = (round(row.predicted), round(row.measured), int(row.tolerance * row.scale))
                yield Kept(subject.file, subject.schedule, code, row.name, *numbers)


# Tables


def speeds() -> dict[str, tuple[str, str]]:
    """For each rung, TFLOP/s at 4096 and the ratio to cuBLAS, from docs/performance.md."""
    lines = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8").splitlines()
    head = next(line for line in lines if line.startswith("| schedule |"))
    column = [cell.strip() for cell in head.split("|")].index("4096")
    found: dict[str, tuple[str, str]] = {}
    for line in lines:
        if match := re.match(r"\| ladder `(\w+)` \|", line):
            tflops, _, ratio = line.split("|")[column].strip().partition(" ")
            found.setdefault(match[1], (tflops, ratio.strip("()")))
    return found


def of_rung(schedule: str, kept: Iterable[Kept]) -> dict[str, Kept]:
    return {one.counter: one for one in kept if (one.file, one.schedule) == ("ladder.gemm", schedule)}


def page(schedules: tuple[str, ...]) -> str:
    """The section of a rung's page."""
    told, kept = read()
    lines = ["## Measured", "", *_told(told)]
    for schedule in schedules:
        tflops, ratio = speeds()[schedule]
        lines += ["", f"| `{schedule}` | predicted | measured |", "|---|--:|--:|"]
        lines.append(f"| TFLOP/s (ratio to cuBLAS) | | {tflops} ({ratio}) |")
        lines += [
            f"| {name} | {one.predicted:,} | {one.measured:,} |"
            for name, one in of_rung(schedule, kept).items()
            if one.predicted or one.measured
        ]
    return "\n".join(lines) + "\n"


def _told(told: str) -> tuple[str, ...]:
    return (
        f"{told}; speed at 4096, from [the tables](../performance.md#squares).",
        "Bank conflicts are measured as well as [arbitration](../analysis.md#which-wavefronts) repeats.",
        "Registers are those of the `fast` path, which whole tiles of this size take.",
    )


def overview(schedules: Iterable[str]) -> str:
    """The section of the ladder's first page."""
    told, kept = read()
    lines = ["## Measured", "", *_told(told), ""]
    lines.append(
        "| Rung | TFLOP/s | of cuBLAS | Registers | Blocks per SM | Instructions per FFMA |"
        " Load wavefronts | Store and copy wavefronts | Sectors loaded |"
    )
    lines.append("|---|" + "--:|" * 8)
    for schedule in schedules:
        found = of_rung(schedule, kept)
        tflops, ratio = speeds()[schedule]
        stores = _sum(found, "shared store wavefronts", "async copy wavefronts")
        issued = 32 * _sum(found, "instructions") / _FMAS
        numbers = (
            *(f"{_sum(found, name):,}" for name in ("registers", "blocks per SM")),
            f"{issued:.3f}",
            *(f"{_sum(found, 'shared load wavefronts'):,}", f"{stores:,}"),
            f"{_sum(found, 'global load sectors'):,}",
        )
        lines.append(f"| {schedule} | {tflops} | {ratio} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def _sum(found: Mapping[str, Kept], *counters: str) -> int:
    return sum(found[counter].measured for counter in counters if counter in found)


def with_section(text: str, section: str) -> str:
    """A page with its measured section replaced, or added where there is none."""
    if _SECTION.search(text):
        text = _SECTION.sub("", text)
    after = _AFTER.search(text)
    place = after.start() if after else len(text)
    head, tail = text[:place].rstrip("\n"), text[place:]
    return f"{head}\n\n{section}" + (f"\n{tail}" if tail else "")


def _earlier(told: str) -> str:
    """The date of what was told of counters that are kept."""
    found = re.search(r"\d{4}-\d\d-\d\d", told)
    assert found is not None, told
    return found[0]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--date", required=True, help="When the counters were gathered, such as 2026-11-29.")
@click.option("--machine", default="One NVIDIA H200, nvcc 13.0", show_default=True)
def main(folder: Path, date: str, machine: str) -> None:
    """Keep what `python -m tests.gpu.profiles --out FOLDER` gathered."""
    pages = [folder / name for name in ("raw.csv", "source.csv")]
    text = "\n".join(one.read_text(encoding="utf-8") for one in pages if one.exists())
    told, before = read()
    rows = list(_keep(text))
    profiled = {(row.file, row.schedule) for row in rows}
    existing = set(examples.schedules())
    older = [
        row
        for row in before
        if (row.file, row.schedule) in existing and (row.file, row.schedule) not in profiled
    ]
    if older:
        names = ", ".join(dict.fromkeys(row.schedule for row in older))
        date = f"{date} ({names}: {_earlier(told)})"
    rows = [*older, *rows]
    with DATA.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# {machine}, {date}: counters at M = N = K = {SIZE}, compiled for `{TARGET}`\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Kept))
        writer.writerows(astuple(row) for row in rows)
    wrong = [row for row in rows if abs(row.predicted - row.measured) > row.allowed]
    click.echo(f"{len(rows) - len(wrong)} of {len(rows)} counters agree")


if __name__ == "__main__":
    main()
