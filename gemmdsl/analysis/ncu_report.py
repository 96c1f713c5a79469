"""Reads what Nsight Compute prints: counters of launches (raw page) and counts by instruction (source page).

A text may hold several tables of both kinds, one after the other, and what programs said in between.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
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
_NUMBER = re.compile(r"-?(?:[0-9][0-9,]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# The profiler scales numbers unless it is asked for base units; those of times are nanoseconds.
_SCALED = re.compile(r"(?P<prefix>[KMGT])[a-z]")
_PREFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_TIMES = {"n": 1.0, "u": 1e3, "m": 1e6, "": 1e9}
_TIME = re.compile(r"(?P<prefix>[num]?)s(?:econd)?")


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
    """One launch: counters by metric, shared memory by kind of instruction, and instructions by mnemonic.

    `shared` is None where no source page was read; kinds without an instruction are left out.  `executed` is
    None where no page has all instructions.
    """

    counters: Mapping[str, float]
    shared: Mapping[SharedOp, SharedCount] | None = None
    executed: Mapping[str, int] | None = None


@dataclass(slots=True)
class _Tables:
    """What the tables read so far say of each kernel; the last launch of a kernel counts.

    `begun` says whether there was a table of counters at all.
    """

    counters: dict[str, dict[str, float]] = field(default_factory=dict)
    shared: dict[str, dict[SharedOp, SharedCount]] = field(default_factory=dict)
    executed: dict[str, dict[str, int]] = field(default_factory=dict)
    begun: bool = False


def read_report(text: str, kernel: str) -> Measured:
    """The last launch of `kernel` in what ncu printed with --csv; ValueError when there is none.

    The pages `raw` and, if it is there, `source` (with --print-source sass) are read, in any order.
    """
    tables = _Tables()
    rows = list(_rows(text))
    _raw(rows, tables)
    _source(rows, tables)
    if not tables.counters:
        cut_off = "its table of counters has no whole row"
        raise ValueError(cut_off if tables.begun else "there is no table of counters in it")
    if kernel not in tables.counters:
        raise ValueError(f"no launch of {kernel} was profiled, but {', '.join(sorted(tables.counters))}")
    executed = tables.executed.get(kernel, {})
    # Pages that are kept may be those of shared memory alone; every kernel has an end.
    return Measured(
        tables.counters[kernel], tables.shared.get(kernel), executed if "EXIT" in executed else None
    )


def _raw(rows: Sequence[Sequence[str]], tables: _Tables) -> None:
    """A table has names in its first row, units in its second; then comes one launch per row."""
    head: Sequence[str] = ()
    units: Sequence[str] = ()
    for row in rows:
        if row[:1] == ["ID"]:
            head, units = row, [""] * len(row)
            tables.begun = True
        elif head and len(row) == len(head) and row[0] == "":
            units = row
        elif head and len(row) == len(head) and row[0].isdigit():
            named = dict(zip(head, row, strict=True))
            numbers = (
                (name, number * _unit(unit))
                for name, value, unit in zip(head, row, units, strict=True)
                if (number := _number(value)) is not None
            )
            tables.counters[_plain(named.get(_KERNEL[0], ""))] = dict(numbers)


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
            tables.executed[kernel] = {}
        elif columns and len(row) == width:
            match = _INSTRUCTION.match(row[columns["text"]])
            if match and "wavefronts" in columns:
                _shared(match["mnemonic"], row, columns, tables.shared[kernel])
            if match and "executed" in columns:
                executed = tables.executed[kernel]
                count = _count(row[columns["executed"]])
                executed[match["mnemonic"]] = executed.get(match["mnemonic"], 0) + count


def _shared(
    mnemonic: str, row: Sequence[str], columns: Mapping[str, int], found: dict[SharedOp, SharedCount]
) -> None:
    op = _SHARED_OPS.get(mnemonic)
    if op is not None:
        executed, wavefronts, ideal = (
            _count(row[columns[key]]) if key in columns else 0 for key in ("executed", "wavefronts", "ideal")
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
            yield next(csv.reader([line.removeprefix("\ufeff")]), [])
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
    """What a cell holds, thousands separated by commas; None for anything but a finite number."""
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text.replace(",", ""))
    return value if isfinite(value) else None


def _count(text: str) -> int:
    """What a cell of the source page holds; nothing counts as 0, ValueError for what is no number."""
    value = _number(text) if text else 0.0
    if value is None:
        raise ValueError(f"`{text}` is no number of wavefronts or instructions")
    return int(value)


def _unit(text: str) -> float:
    """By what a number is to be multiplied to be one of base units."""
    if match := _TIME.fullmatch(text):
        return _TIMES[match["prefix"]]
    match = _SCALED.match(text)
    return _PREFIXES[match["prefix"]] if match else 1.0
