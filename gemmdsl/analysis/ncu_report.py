"""Reads what Nsight Compute prints: counters of launches (raw page) and counts by instruction (source page).

A text may hold several tables of both kinds, one after the other, and what programs said in between.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

SharedOp = Literal["load", "store", "copy"]
# Copies are asynchronous: one instruction reads global memory and writes shared memory.
_SHARED_OPS: Mapping[str, SharedOp] = {"LDS": "load", "STS": "store", "LDGSTS": "copy"}
_INSTRUCTION = re.compile(r"^\s*(?:@!?U?P\w+\s+)?(?P<mnemonic>[A-Z]\w*)")
# Columns of the source page go by their labels or by the names of their metrics, as the version likes.
_KERNEL = ("Kernel Name", "Function Name")
_TEXT = ("Source", "SASS")
_EXECUTED = ("Instructions Executed", "inst_executed")
_WAVEFRONTS = ("L1 Wavefronts Shared", "memory_l1_wavefronts_shared")
_IDEAL = ("L1 Wavefronts Shared Ideal", "memory_l1_wavefronts_shared_ideal")


@dataclass(frozen=True, slots=True)
class SharedCount:
    """Instructions of one kind over a launch: warps' executions, wavefronts and the profiler's ideal."""

    executed: int = 0
    wavefronts: int = 0
    ideal: int = 0

    def __add__(self, other: SharedCount) -> SharedCount:
        return SharedCount(
            self.executed + other.executed, self.wavefronts + other.wavefronts, self.ideal + other.ideal
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """One launch: counters by metric, and shared memory by kind of instruction.

    `shared` is None where no source page was read; kinds without an instruction are left out.
    """

    counters: Mapping[str, float]
    shared: Mapping[SharedOp, SharedCount] | None = None


@dataclass(slots=True)
class _Tables:
    """What the tables read so far say of each kernel; the last launch of a kernel counts."""

    counters: dict[str, dict[str, float]] = field(default_factory=dict)
    shared: dict[str, dict[SharedOp, SharedCount]] = field(default_factory=dict)


def read_report(text: str, kernel: str) -> Measured:
    """The last launch of `kernel` in what ncu printed with --csv; ValueError when there is none.

    The pages `raw` and, if it is there, `source` (with --print-source sass) are read, in any order.
    """
    tables = _Tables()
    rows = list(_rows(text))
    _raw(rows, tables)
    _source(rows, tables)
    if not tables.counters:
        raise ValueError("there is no table of counters in it")
    if kernel not in tables.counters:
        raise ValueError(f"no launch of {kernel} was profiled, but {', '.join(sorted(tables.counters))}")
    return Measured(tables.counters[kernel], tables.shared.get(kernel))


def _raw(rows: Sequence[Sequence[str]], tables: _Tables) -> None:
    """A table has names in its first row, units in its second; then comes one launch per row."""
    head: Sequence[str] = ()
    for row in rows:
        if row[:1] == ["ID"]:
            head = row
        elif head and len(row) == len(head) and row[0].isdigit():
            named = dict(zip(head, row, strict=True))
            numbers = ((name, _number(value)) for name, value in named.items())
            tables.counters[_plain(named.get(_KERNEL[0], ""))] = {
                name: value for name, value in numbers if value is not None
            }


def _source(rows: Sequence[Sequence[str]], tables: _Tables) -> None:
    """A table begins with the kernel's name, then come columns and instructions."""
    kernel = ""
    columns: dict[str, int] = {}
    width = 0
    for row in rows:
        if len(row) >= 2 and row[0] in _KERNEL:
            kernel, columns = _plain(row[1]), {}
        elif kernel and not columns and _column(row, _TEXT) is not None:
            width = len(row)
            wanted = {"text": _TEXT, "executed": _EXECUTED, "wavefronts": _WAVEFRONTS, "ideal": _IDEAL}
            columns = {key: at for key, names in wanted.items() if (at := _column(row, names)) is not None}
            if "wavefronts" in columns:
                tables.shared[kernel] = {}
        elif "wavefronts" in columns and len(row) == width:
            _instruction(row, columns, tables.shared[kernel])


def _instruction(row: Sequence[str], columns: Mapping[str, int], found: dict[SharedOp, SharedCount]) -> None:
    match = _INSTRUCTION.match(row[columns["text"]])
    op = _SHARED_OPS.get(match["mnemonic"]) if match else None
    if op is not None:
        executed, wavefronts, ideal = (
            int(_number(row[columns[key]]) or 0) if key in columns else 0
            for key in ("executed", "wavefronts", "ideal")
        )
        found[op] = found.get(op, SharedCount()) + SharedCount(executed, wavefronts, ideal)


def shared_rows(text: str) -> Iterator[str]:
    """The lines of source pages that speak of shared memory, with the names of kernels and columns.

    Whole pages have a hundred columns for each of thousands of instructions; this is all that
    `read_report` needs of them.
    """
    keep: list[int] = []
    width = 0
    for row in _rows(text):
        if len(row) >= 2 and row[0] in _KERNEL:
            keep = []
            yield _line(row[:2])
        elif not keep and _column(row, _TEXT) is not None:
            width = len(row)
            places = (_column(row, names) for names in (_TEXT, _EXECUTED, _WAVEFRONTS, _IDEAL))
            keep = [at for at in places if at is not None]
            yield _line([row[at] for at in keep])
        elif keep and len(row) == width:
            match = _INSTRUCTION.match(row[keep[0]])
            if match and match["mnemonic"] in _SHARED_OPS:
                yield _line([row[at] for at in keep])


def _rows(text: str) -> Iterator[list[str]]:
    """Every line as a row of cells; ValueError where one is longer than any page's."""
    try:
        # Line by line: what programs say between tables may have quotes of its own.
        for line in text.splitlines():
            yield next(csv.reader([line]), [])
    except csv.Error as problem:
        raise ValueError(str(problem)) from problem


def _line(cells: Sequence[str]) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


def _column(row: Sequence[str], names: Sequence[str]) -> int | None:
    return next((row.index(name) for name in names if name in row), None)


def _plain(kernel: str) -> str:
    """A kernel's name without return type and parameters."""
    return kernel.removeprefix("void ").partition("(")[0].strip()


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
