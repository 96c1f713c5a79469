"""Nsight Compute: which counters to ask for, and how they compare with the model.

Counters of the L1 cache's data pipe count wavefronts that wait for others, too: ones that no address pattern
explains, different from run to run and from pass to pass of one run.  Counts by instruction do not, so those
are compared with the model, and what the pipe has beyond them is told apart, as arbitration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gemmdsl.analysis.access import Access, Kind, summed
from gemmdsl.analysis.compiled import Compiled, by_kind
from gemmdsl.analysis.ncu_report import Measured, SharedOp
from gemmdsl.occupancy import Occupancy

# Parts of all wavefronts, or sectors, of the same kind.
WAVEFRONT_TOLERANCE = 1e-3
SECTOR_TOLERANCE = 5e-3
# Part of the arbitration by which it differs from one pass of the profiler to the next.
ARBITRATION_NOISE = 0.1

_L1 = "l1tex__{}_pipe_lsu_mem_{}_op_{}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_ASYNC = "sm__sass_l1tex_t_{}_pipe_lsu_mem_global_op_ldgsts_cache_{}.sum"
_CODES: tuple[tuple[Literal["load", "store"], str], ...] = (("load", "ld"), ("store", "st"))
# Atomic additions whose result nobody reads are reductions; either name may be theirs.
_GLOBAL_CODES: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    *((kind, (code,)) for kind, code in _CODES),
    ("add", ("red", "atom")),
)
_CONFLICTS = _L1.format("data_bank_conflicts", "shared", "{}")
# By instruction: where the profiler has such counters.
_OWN = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_OWN_CODES: Mapping[SharedOp, str] = {**dict(_CODES), "copy": "ldgsts"}
_COPY_CONFLICTS = "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum"
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


Words = tuple[str, ...]


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


def metrics(asynchronous: bool, adding: bool) -> tuple[str, ...]:
    """The counters to ask for; those of asynchronous copies exist only where there can be some.

    `adding`: also those of atomic additions.
    """
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
        found.append(_CONFLICTS.format(code))
    for kind, codes in _GLOBAL_CODES:
        if adding or kind != "add":
            found += [
                _L1.format(what, "global", code) for code in codes for what in ("t_requests", "t_sectors")
            ]
    if asynchronous:
        for what in ("requests", "sectors"):
            found += [_ASYNC.format(what, cache) for cache in ("access", "bypass")]
        found += [_OWN.format(_OWN_CODES["copy"]), _COPY_CONFLICTS]
    return tuple(found)


def collect(tool: str, entry: str, accesses: Sequence[Access], report: str, program: Sequence[str]) -> Words:
    """The words that profile the second launch of `entry`, the first one that reads no C (beta is 0).

    Counters are those that the predicted `accesses` have.  Other kernels of a call have other names.

    The clocks stay as they are: counts do not depend on them, and times are then those of other runs.
    """
    launches = ("--kernel-name", f"regex:^{entry}$", "--launch-skip", "1", "--launch-count", "1")
    asynchronous = any(access.asynchronous for access in accesses)
    adding = any(access.kind == "add" for access in accesses)
    return (*collecting(tool, metrics(asynchronous, adding), report), *launches, *program)


def collecting(tool: str, asked: Sequence[str], report: str) -> Words:
    """The words that gather counters and counts by instruction into a report; launches and program follow."""
    what = ("--section", "SourceCounters", "--metrics", ",".join(asked))
    return (tool, "--clock-control", "none", *what, "--force-overwrite", "--export", report)


def exports(tool: str, report: str) -> tuple[Words, Words]:
    """The words that print a report's two pages: counters of each launch, and counts by instruction."""
    raw = ("--page", "raw", "--print-units", "base")
    source = ("--page", "source", "--print-source", "sass")
    return (tool, "--import", report, "--csv", *raw), (tool, "--import", report, "--csv", *source)


def compare(
    machine: Compiled | None, accesses: Sequence[Access], occupancy: Occupancy, measured: Measured
) -> tuple[Comparison, ...]:
    """Every counter that the model predicts, beside its measurement.

    `accesses` are the ones to predict from: as compiled where `machine` is known, else as written.
    """
    return (
        *_shared(machine, accesses, measured),
        *_global(accesses, measured.counters),
        *_copies(accesses, measured),
        *_resources(machine, occupancy, measured.counters),
        *_mix(machine, measured),
    )


def _shared(machine: Compiled | None, accesses: Sequence[Access], measured: Measured) -> Iterator[Comparison]:
    """Loads and stores; copies that pass the registers by have counters of their own."""
    counters = measured.counters
    for kind, code in _CODES:
        predicted = summed(accesses, "shared", kind)
        issued = machine.mix.get(f"shared {kind}s", 0) if machine is not None else predicted.requests
        name = f"smsp__inst_executed_op_shared_{code}.sum"
        yield _exact(f"shared {kind} instructions", issued, counters.get(name))
        pipe, conflicts = counters.get(_WAVEFRONTS.format(code)), counters.get(_CONFLICTS.format(code))
        own = by_instruction(kind, measured)
        yield _within(
            f"shared {kind} wavefronts", predicted.cost, pipe if own is None else own, WAVEFRONT_TOLERANCE
        )
        added = 0.0 if own is None or pipe is None else pipe - own
        # Arbitration is in both counters of the pipe, but they may stem from two passes, in which it differs.
        noise = abs(added) * ARBITRATION_NOISE / predicted.cost if predicted.cost else 0.0
        yield Comparison(
            f"shared {kind} bank conflicts",
            predicted.excess,
            None if conflicts is None else conflicts - added,
            WAVEFRONT_TOLERANCE + noise,
            predicted.cost,
        )


def by_instruction(op: SharedOp, measured: Measured) -> float | None:
    """Wavefronts of the instructions of one kind, without arbitration; None where they were not measured."""
    if measured.shared is not None and (op != "copy" or op in measured.shared):
        return measured.shared[op].wavefronts if op in measured.shared else 0
    return measured.counters.get(_OWN.format(_OWN_CODES[op]))


def _global(accesses: Sequence[Access], counters: Mapping[str, float]) -> Iterator[Comparison]:
    """Requests and sectors; asynchronous copies are loads from global memory like any others."""
    for kind, codes in _GLOBAL_CODES:
        moved = summed(accesses, "global", kind, None)
        if kind == "add" and not moved.requests:
            continue
        requests, sectors = (_counted(counters, what, codes) for what in ("t_requests", "t_sectors"))
        yield _exact(f"global {kind} requests", moved.requests, requests)
        yield _within(f"global {kind} sectors", moved.cost, sectors, SECTOR_TOLERANCE)


def _counted(counters: Mapping[str, float], what: str, codes: tuple[str, ...]) -> float | None:
    """The sum of the counters of these operations on global memory; None where none of them was measured."""
    names = [_L1.format(what, "global", code) for code in codes]
    found = [counters[name] for name in names if name in counters]
    return sum(found) if found else None


def _copies(accesses: Sequence[Access], measured: Measured) -> Iterator[Comparison]:
    """The part of the above that asynchronous copies have, and what they do to shared memory."""
    loads = summed(accesses, "global", "load", True)
    if not loads.requests:
        return
    for what, predicted in (("requests", loads.requests), ("sectors", loads.cost)):
        names = [_ASYNC.format(what, cache) for cache in ("access", "bypass")]
        parts = [measured.counters[name] for name in names if name in measured.counters]
        yield _within(f"async copy {what}", predicted, sum(parts) if parts else None, SECTOR_TOLERANCE)
    stores = summed(accesses, "shared", "store", True)
    # Some versions of the profiler attribute no wavefronts to copies.
    wavefronts = by_instruction("copy", measured) or None
    yield _within("async copy wavefronts", stores.cost, wavefronts, WAVEFRONT_TOLERANCE)
    conflicts = measured.counters.get(_COPY_CONFLICTS)
    # What passes the L1 cache by may take more wavefronts than it need; that is not called a conflict.
    excess = sum(
        access.total.excess
        for access in accesses
        if access.space == "shared" and access.asynchronous and not access.passes_by
    )
    yield Comparison("async copy bank conflicts", excess, conflicts, WAVEFRONT_TOLERANCE, stores.cost)


def _resources(
    machine: Compiled | None, occupancy: Occupancy, counters: Mapping[str, float]
) -> Iterator[Comparison]:
    if machine is not None:
        yield _exact("registers", machine.usage.registers, counters.get("launch__registers_per_thread"))
        yield _exact("instructions", machine.instructions, counters.get("smsp__inst_executed.sum"))
        yield _within("FFMAs of threads", machine.thread_ffmas, counters.get(_FFMA), WAVEFRONT_TOLERANCE)
    limits = [counters[name] for limit in _LIMITS if (name := _LIMIT.format(limit)) in counters]
    yield _exact("blocks per SM", occupancy.blocks, min(limits, default=None))


def _mix(machine: Compiled | None, measured: Measured) -> Iterator[Comparison]:
    """Instructions by kind, where the profiler has printed how often each was executed."""
    if machine is None or measured.executed is None:
        return
    made = by_kind(measured.executed.items())
    for kind in dict.fromkeys((*machine.mix, *made)):
        yield _exact(f"instructions: {kind}", machine.mix.get(kind, 0), made.get(kind, 0.0))


def _exact(name: str, predicted: int, measured: float | None) -> Comparison:
    return _within(name, predicted, measured, 0.0)


def _within(name: str, predicted: int, measured: float | None, tolerance: float) -> Comparison:
    return Comparison(name, predicted, measured, tolerance, predicted)


@dataclass(frozen=True, slots=True)
class Arbitration:
    """Wavefronts of one kind that the pipe counted beyond its instructions' own.

    `share` is a part of the instructions' own wavefronts.
    """

    kind: Literal["load", "store"]
    wavefronts: float
    share: float


def arbitration(measured: Measured) -> tuple[Arbitration, ...]:
    """What the pipe counted beyond the counts by instruction; empty where one of the two was not measured."""
    found = []
    for kind, code in _CODES:
        pipe, own = measured.counters.get(_WAVEFRONTS.format(code)), by_instruction(kind, measured)
        if pipe is not None and own:
            found.append(Arbitration(kind, pipe - own, (pipe - own) / own))
    return tuple(found)


def stalls(measured: Measured) -> tuple[tuple[str, float], ...]:
    """(what warps wait for, warps waiting per issued instruction), the largest first; zeros are left out."""
    found = ((words, measured.counters.get(_STALL.format(stall), 0.0)) for stall, words in STALLS.items())
    return tuple(sorted((pair for pair in found if pair[1] > 0), key=lambda pair: -pair[1]))
