"""Nsight Compute: which counters to ask for, how to read its report, and how they compare with the model."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gemmdsl.analysis.access import Access, Kind, summed
from gemmdsl.analysis.compiled import Compiled
from gemmdsl.analysis.occupancy import Occupancy

Report = Mapping[str, float]

# Arbitration among the accesses of several warps makes wavefronts differ by less than this.
WAVEFRONT_TOLERANCE = 1e-3
SECTOR_TOLERANCE = 5e-3

_L1 = "l1tex__{}_pipe_lsu_mem_{}_op_{}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_ASYNC = "sm__sass_l1tex_t_{}_pipe_lsu_mem_global_op_ldgsts_cache_{}.sum"
_CODES: tuple[tuple[Kind, str], ...] = (("load", "ld"), ("store", "st"))
_LIMITS = ("registers", "shared_mem", "warps", "blocks")
_LIMIT = "launch__occupancy_limit_{}"
_FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"

# What a stalled warp waits for, in words.
STALLS: Mapping[str, str] = {
    "barrier": "other warps at a barrier",
    "branch_resolving": "the target of a branch",
    "dispatch_stall": "the dispatcher",
    "drain": "its last stores",
    "imc_miss": "constants that are not in the cache",
    "lg_throttle": "room in the queue for global memory",
    "long_scoreboard": "data from global memory",
    "math_pipe_throttle": "a free FMA pipe",
    "membar": "a memory fence",
    "mio_throttle": "room in the queue for shared memory",
    "misc": "something else",
    "no_instruction": "its next instruction to be fetched",
    "not_selected": "its turn: another warp was issued",
    "short_scoreboard": "data from shared memory",
    "sleeping": "the end of a sleep",
    "tex_throttle": "room in the queue for textures",
    "wait": "the fixed delay of its last instruction",
}
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"

# Shown without a prediction.
SPEEDS: Mapping[str, str] = {
    "gpu__time_duration.sum": "time",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "cycles with an instruction issued, %",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy reached, %",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SM, % of its speed of light",
    "l1tex__throughput.avg.pct_of_peak_sustained_active": "L1 and shared memory, %",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "L2 cache, %",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM, %",
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One counter: predicted and measured (None: not in the report), and how far apart they may be.

    `tolerance` is a part of `scale`, which is the wavefronts for conflicts and the prediction otherwise.
    """

    name: str
    predicted: float
    measured: float | None
    tolerance: float
    scale: float

    @property
    def difference(self) -> float | None:
        """Measured minus predicted, as a part of the scale; None without a measurement."""
        if self.measured is None:
            return None
        return (self.measured - self.predicted) / self.scale if self.scale else self.measured - self.predicted

    @property
    def equal(self) -> bool | None:
        """Whether they agree within the tolerance; None without a measurement."""
        difference = self.difference
        return None if difference is None else abs(difference) <= self.tolerance


def metrics(asynchronous: bool) -> tuple[str, ...]:
    """The counters to ask for; those of asynchronous copies exist only where there can be some."""
    found = [
        "launch__registers_per_thread",
        *(_LIMIT.format(limit) for limit in _LIMITS),
        "smsp__inst_executed.sum",
        _FFMA,
        *SPEEDS,
        *(_STALL.format(stall) for stall in STALLS),
    ]
    for _, code in _CODES:
        found.append(f"smsp__inst_executed_op_shared_{code}.sum")
        found.append(_WAVEFRONTS.format(code))
        found.append(_L1.format("data_bank_conflicts", "shared", code))
        found.append(_L1.format("t_requests", "global", code))
        found.append(_L1.format("t_sectors", "global", code))
    if asynchronous:
        for what in ("requests", "sectors"):
            found += [_ASYNC.format(what, cache) for cache in ("access", "bypass")]
    return tuple(found)


def command(tool: str, entry: str, asynchronous: bool, program: Sequence[str]) -> tuple[str, ...]:
    """The words that profile the second launch of `entry`, the first one that reads no C (beta is 0)."""
    return (
        tool,
        *("--csv", "--page", "raw", "--print-units", "base"),
        *("--kernel-name", f"regex:^{entry}$", "--launch-skip", "1", "--launch-count", "1"),
        *("--metrics", ",".join(metrics(asynchronous))),
        *program,
    )


def read_report(text: str) -> tuple[Report, ...]:
    """The numbers of each kernel in what `ncu --csv --page raw` printed; ValueError if there are none."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        raise ValueError("there is no table of counters in it")
    rows = list(csv.reader(io.StringIO("\n".join(lines[start:]))))
    head = rows[0]
    found = [
        {name: value for name, text in zip(head, row, strict=False) if (value := _number(text)) is not None}
        # The second row has units, and what the program printed may follow the table.
        for row in rows[2:]
        if len(row) == len(head) and row[0].isdigit()
    ]
    if not found:
        raise ValueError("no kernel was profiled")
    return tuple(found)


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def compare(
    machine: Compiled | None, accesses: Sequence[Access], occupancy: Occupancy, report: Report
) -> tuple[Comparison, ...]:
    """Every counter that the model predicts, beside its measurement.

    `accesses` are the ones to predict from: as compiled where `machine` is known, else as written.
    """
    return tuple(_comparisons(machine, accesses, occupancy, report))


def _comparisons(
    machine: Compiled | None, accesses: Sequence[Access], occupancy: Occupancy, report: Report
) -> Iterator[Comparison]:
    for kind, code in _CODES:
        # Copies that pass the registers by have counters of their own.
        shared = summed(accesses, "shared", kind)
        issued = machine.mix.get(f"shared {kind}s", 0) if machine is not None else shared.requests
        yield _exact(
            f"shared {kind} instructions", issued, report, f"smsp__inst_executed_op_shared_{code}.sum"
        )
        wavefronts = _WAVEFRONTS.format(code)
        yield Comparison(
            f"shared {kind} wavefronts",
            shared.cost,
            report.get(wavefronts),
            WAVEFRONT_TOLERANCE,
            shared.cost,
        )
        conflicts = _L1.format("data_bank_conflicts", "shared", code)
        yield Comparison(
            f"shared {kind} bank conflicts",
            shared.excess,
            report.get(conflicts),
            WAVEFRONT_TOLERANCE,
            shared.cost,
        )
    for kind, code in _CODES:
        moved = summed(accesses, "global", kind)
        yield _exact(
            f"global {kind} requests", moved.requests, report, _L1.format("t_requests", "global", code)
        )
        sectors = _L1.format("t_sectors", "global", code)
        yield Comparison(
            f"global {kind} sectors", moved.cost, report.get(sectors), SECTOR_TOLERANCE, moved.cost
        )
    copies = summed(accesses, "global", "load", True)
    if copies.requests:
        for what, predicted in (("requests", copies.requests), ("sectors", copies.cost)):
            names = [_ASYNC.format(what, cache) for cache in ("access", "bypass")]
            parts = [report[name] for name in names if name in report]
            measured = sum(parts) if parts else None
            yield Comparison(f"async copy {what}", predicted, measured, SECTOR_TOLERANCE, predicted)
    if machine is not None:
        yield _exact("registers", machine.usage.registers, report, "launch__registers_per_thread")
        yield _exact("instructions", machine.instructions, report, "smsp__inst_executed.sum")
        threads = report.get(_FFMA)
        ffmas = None if threads is None else threads / 32
        predicted = machine.mix.get("FFMA", 0)
        yield Comparison("FFMA instructions", predicted, ffmas, WAVEFRONT_TOLERANCE, predicted)
    limits = [report[name] for limit in _LIMITS if (name := _LIMIT.format(limit)) in report]
    yield Comparison("blocks per SM", occupancy.blocks, min(limits, default=None), 0.0, occupancy.blocks)


def _exact(name: str, predicted: int, report: Report, metric: str) -> Comparison:
    return Comparison(name, predicted, report.get(metric), 0.0, predicted)


def stalls(report: Report) -> tuple[tuple[str, float], ...]:
    """(what warps wait for, warps waiting per issued instruction), the largest first; zeros are left out."""
    found = [
        (words, report[name]) for stall, words in STALLS.items() if (name := _STALL.format(stall)) in report
    ]
    return tuple(sorted((pair for pair in found if pair[1] > 0), key=lambda pair: -pair[1]))
