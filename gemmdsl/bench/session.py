"""Verifies kernels at each shape, then times them in turns with cuBLAS.

Kernels of the same layouts share operands, reference and baseline, and are timed in the same turns.  Before a
kernel runs, C is poison; it must then equal the product of small integers in every element, and agree with
the product of full-precision numbers within the worst case of FP32's rounding: tensor cores, which round
their operands, pass the first test and not the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal

from gemmdsl.api import CompiledKernel
from gemmdsl.bench.baseline import Baseline, Buffers, leading, prepared
from gemmdsl.bench.support import Ceilings, Support, strides
from gemmdsl.bench.timing import Enqueue, Samples, interleaved
from gemmdsl.cuda_source import EntryPoint
from gemmdsl.diagnostics import GemmError
from gemmdsl.launch_errors import LaunchError
from gemmdsl.occupancy import occupancy
from gemmdsl.reference import POISON
from gemmdsl.runtime.device import Gpu
from gemmdsl.runtime.errors import UNSUPPORTED
from gemmdsl.runtime.kernel import Kernel, choose, load
from gemmdsl.spec import Problem
from gemmdsl.wording import several

Shape = tuple[int, int, int]
Status = Literal["timed", "verified", "wrong", "spills", "impossible", "unfit", "broken", "unverified"]
_SEEDS = (11, 12, 13)
_UNIT_ROUNDOFF = 2.0**-24
_EXACT = 2**24
_LARGEST = 8
_MOST_SETS = 64
_SET_UNIT = 64
# Clocks move between the measurement of a ceiling and that of a kernel; reading alone is faster than a copy.
_TOLERANCE = 1.05


@dataclass(frozen=True, slots=True)
class Settings:
    """How to measure.

    `batches` batches of about `batch_seconds`; operands are rotated until they are `l2_times` as large as the
    L2 cache.  With `time` off kernels are verified and no more.
    """

    batches: int = 7
    batch_seconds: float = 0.02
    l2_times: float = 3.0
    allow_spills: bool = False
    time: bool = True


@dataclass(frozen=True, slots=True)
class Subject:
    """A schedule to measure; `file` is the file it is from."""

    file: str
    kernel: CompiledKernel

    @property
    def schedule(self) -> str:
        return self.kernel.spec.schedule.name


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel at one shape.

    Without a time, `reason` says why: the result is wrong, registers spill, the schedule's assumptions do not
    hold for the shape or the device lacks something ("unfit"), it cannot be compiled or loaded ("broken"), a
    figure is above what the device can do ("impossible").  `error` is the
    largest error of the comparison in full precision.  `cold` says that operands did not stay in L2.
    Leading dimensions are `pad` more than the least ones.
    """

    file: str
    schedule: str
    shape: Shape
    status: Status
    reason: str = ""
    entry: str = ""
    registers: int = 0
    spilled: int = 0
    shared: int = 0
    blocks_per_sm: int = 0
    error: float = 0.0
    samples: Samples | None = None
    baseline: Samples | None = None
    sets: int = 1
    cold: bool = True
    share_of_peak: float = 0.0
    pad: int = 0

    @property
    def flops(self) -> float:
        """FLOP/s of the median batch."""
        return work_of(self.shape) / self.samples.median if self.samples else 0.0

    @property
    def ratio(self) -> float:
        """Speed relative to cuBLAS; 0 when it was not measured."""
        return self.baseline.median / self.samples.median if self.samples and self.baseline else 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """All rows, the device and its ceilings; `against` is the baseline's title, "" without one."""

    device: str
    target: str
    driver: str
    ceilings: Ceilings
    against: str
    rows: tuple[Row, ...] = field(default=())


def measure(
    gpu: Gpu,
    subjects: Sequence[Subject],
    shapes: Sequence[Shape],
    baseline: Baseline | None = None,
    chosen: Settings = Settings(),
    progress: Callable[[str], None] = lambda title: None,
) -> Report:
    """A row for each subject and shape; `progress` is called before each of them.

    Errors that concern one kernel are in its row.  GemmError when the device fails, or nothing can be
    compiled at all.
    """
    support = Support(gpu)
    ceilings = support.ceilings()
    session = Session(gpu, support, ceilings, baseline, chosen, progress)
    rows: dict[tuple[int, int], Row] = {}
    numbered = sorted(enumerate(subjects), key=lambda pair: layouts_of(pair[1].kernel.spec.problem))
    for number, shape in enumerate(shapes):
        for _, group in groupby(numbered, key=lambda pair: layouts_of(pair[1].kernel.spec.problem)):
            members = list(group)
            found = session.run([subject for _, subject in members], shape)
            rows |= {(place, number): row for (place, _), row in zip(members, found, strict=True)}
    release = gpu.limits.release
    return Report(
        gpu.limits.name,
        gpu.limits.target,
        f"CUDA {release}",
        ceilings,
        baseline.title if baseline else "",
        tuple(row for _, row in sorted(rows.items())),
    )


@dataclass
class _Member:
    """A kernel on its way to a row."""

    row: Row
    kernel: Kernel | None = None
    entry: EntryPoint | None = None


class Session:
    """Measures groups of kernels with what is made once for all of them."""

    def __init__(
        self,
        gpu: Gpu,
        support: Support,
        ceilings: Ceilings,
        baseline: Baseline | None,
        chosen: Settings,
        progress: Callable[[str], None],
    ) -> None:
        self._gpu, self._support, self._ceilings = gpu, support, ceilings
        self._baseline, self._chosen, self._progress = baseline, chosen, progress

    def run(self, subjects: Sequence[Subject], shape: Shape, pad: int = 0) -> list[Row]:
        """Rows of subjects that have the same layouts; leading dimensions are `pad` more than the least."""
        problem = subjects[0].kernel.spec.problem
        # Each set starts where vectors may lie, as set 0 does.
        pitch = {name: _up(count) for name, count in _counts(problem, shape, pad).items()}
        sets = self._sets(shape, 4 * sum(pitch.values()))
        memory = {name: self._gpu.allocate(4 * sets * count, name) for name, count in pitch.items()}
        firsts = {name: int(block) for name, block in memory.items()}
        places = [
            {name: firsts[name] + 4 * turn * count for name, count in pitch.items()} for turn in range(sets)
        ]
        buffers = tuple(Buffers(place["A"], place["B"], place["C"], shape, pad) for place in places)
        members = [self._member(subject, buffers[0]) for subject in subjects]
        self._verify(problem, [member for member in members if member.kernel], buffers[0])
        sound = [member for member in members if member.row.status == "verified"]
        if self._chosen.time and sound:
            for seed, (name, count) in zip(_SEEDS, pitch.items(), strict=True):
                self._support.fill(firsts[name], sets * count, seed)
            self._time(problem, sound, buffers)
        return [member.row for member in members]

    def _sets(self, shape: Shape, size: int) -> int:
        """How many sets of operands, of `size` bytes each."""
        wanted = int(self._chosen.l2_times * self._gpu.limits.l2 // max(1, bytes_of(shape))) + 1
        fitting = int(self._gpu.free_memory() * 0.8 // max(1, size + 16 * shape[0] * shape[1]))
        return max(1, min(wanted, fitting, _MOST_SETS)) if self._chosen.time else 1

    def _member(self, subject: Subject, buffers: Buffers) -> _Member:
        """The loaded kernel, or a row that says why there is none."""
        self._progress(f"{subject.schedule} {'x'.join(map(str, buffers.shape))}")
        row = Row(subject.file, subject.schedule, buffers.shape, "unverified", pad=buffers.pad)
        source = subject.kernel.cuda
        try:
            entry = choose(source, _arguments(source.problem, buffers))
        except LaunchError as unfit:
            return _Member(replace(row, status="unfit", reason=unfit.diagnostics[0].message))
        if entry is None:
            return _Member(replace(row, status="unfit", reason="nothing has to be computed"))
        try:
            kernel = load(self._gpu, source)
        except GemmError as problem:
            found = problem.diagnostics[0]
            status: Status = "unfit" if found.code == UNSUPPORTED else "broken"
            return _Member(replace(row, status=status, reason=found.message))
        row = replace(row, entry=entry.path)
        usage = next((used for used in kernel.cubin.usage if used.entry == entry.name), None)
        shared = source.plan.static_shared_bytes + source.plan.dynamic_shared_bytes
        if usage is not None:
            spilled = usage.spill_stores + usage.spill_loads
            row = replace(
                row,
                registers=usage.registers,
                spilled=spilled,
                shared=shared,
                blocks_per_sm=occupancy(
                    self._gpu.limits.row, source.plan.threads, usage.registers, max(shared, usage.shared)
                ).blocks,
            )
            if spilled and not self._chosen.allow_spills:
                told = f"{entry.name} spills {several(usage.spill_stores, 'byte')} of registers"
                return _Member(replace(row, status="spills", reason=told))
        return _Member(row, kernel, entry)

    def _verify(self, problem: Problem, members: list[_Member], buffers: Buffers) -> None:
        """Give each member a verdict: verified, or wrong."""
        m, n, k = buffers.shape
        total, size = (self._gpu.allocate(8 * m * n, "a reference") for _ in range(2))
        places = (int(total), int(size))
        largest = _LARGEST
        while largest > 1 and largest * largest * k > _EXACT:
            largest -= 1
        for exact in (True, False):
            if exact and largest * largest * k > _EXACT:
                continue
            counts = _counts(problem, buffers.shape, buffers.pad)
            self._support.fill(buffers.a, counts["A"], _SEEDS[0], largest if exact else 0)
            self._support.fill(buffers.b, counts["B"], _SEEDS[1], largest if exact else 0)
            a = (buffers.a, *strides(problem.a, buffers.ld(problem.a)))
            b = (buffers.b, *strides(problem.b, buffers.ld(problem.b)))
            self._support.reference(buffers.shape, a, b, *places)
            for member in members:
                if member.row.status != "wrong":
                    self._compare(member, buffers, places, exact)

    def _compare(self, member: _Member, buffers: Buffers, places: tuple[int, int], exact: bool) -> None:
        assert member.kernel is not None
        problem = member.kernel.source.problem
        m, n, k = buffers.shape
        count = _counts(problem, buffers.shape, buffers.pad)["C"]
        alpha = 0.75 if problem.alpha and not exact else 1.0
        beta = -1.25 if problem.beta and not exact else 0.0
        if beta:
            self._support.fill(buffers.c, count, _SEEDS[2])
        else:
            self._gpu.fill_words(buffers.c, int(POISON), count)
        member.kernel.launch(_arguments(problem, buffers), alpha, beta)
        member.kernel.wait()
        gamma = 0.0 if exact else (k + 2) * _UNIT_ROUNDOFF / (1 - (k + 2) * _UNIT_ROUNDOFF)
        c = (buffers.c, *strides(problem.c, buffers.ld(problem.c)))
        tally = self._support.check((m, n), c, *places, (alpha, beta), gamma, _SEEDS[2])
        if tally.wrong:
            row, col = tally.first
            kind = "small integers" if exact else "numbers in [-1, 1)"
            share = f"{tally.wrong:,} of {several(m * n, 'element')}"
            told = f"{share} are wrong for {kind}, the first C[{row}, {col}]"
            member.row = replace(member.row, status="wrong", reason=told)
        else:
            member.row = replace(member.row, status="verified", error=tally.largest)

    def _time(self, problem: Problem, members: list[_Member], buffers: tuple[Buffers, ...]) -> None:
        sets = len(buffers)
        self._gpu.synchronize()
        stream = self._gpu.stream()
        works: dict[str, Enqueue] = {}
        if self._baseline is not None:
            works[""] = prepared(self._baseline, self._gpu, stream, problem, buffers)
        for number, member in enumerate(members):
            works[str(number)] = _enqueuer(member, buffers, stream)
        samples = interleaved(
            self._gpu,
            stream,
            works,
            batches=self._chosen.batches,
            batch_seconds=self._chosen.batch_seconds,
            sets=sets,
            graphs=self._baseline is None or self._baseline.capturable,
        )
        cold = sets * bytes_of(buffers[0].shape) > self._gpu.limits.l2
        for number, member in enumerate(members):
            row = replace(
                member.row,
                status="timed",
                samples=samples[str(number)],
                baseline=samples.get(""),
                sets=sets,
                cold=cold,
            )
            member.row = self._plausible(row)

    def _plausible(self, row: Row) -> Row:
        """The row with its share of the peak; without its time if no device could be so fast."""
        share = row.flops / self._ceilings.flops
        row = replace(row, share_of_peak=share)
        assert row.samples is not None
        if share > _TOLERANCE:
            told = (
                f"{row.flops / 1e12:.1f} TFLOP/s are above the {self._ceilings.flops / 1e12:.1f} of all FMAs"
            )
            return replace(row, status="impossible", reason=told, samples=None)
        traffic = bytes_of(row.shape) / row.samples.median
        if (
            row.cold
            and bytes_of(row.shape) > self._gpu.limits.l2
            and traffic > _TOLERANCE * self._ceilings.bytes
        ):
            told = f"{traffic / 1e12:.2f} TB/s are above the {self._ceilings.bytes / 1e12:.2f} of a copy"
            return replace(row, status="impossible", reason=told, samples=None)
        return row


def _enqueuer(member: _Member, buffers: tuple[Buffers, ...], stream: Any) -> Enqueue:
    kernel, entry = member.kernel, member.entry
    assert kernel is not None
    assert entry is not None
    values = [{**_arguments(kernel.source.problem, one), "alpha": 1.0, "beta": 0.0} for one in buffers]
    memory = kernel.reserve(*buffers[0].shape[:2])
    parts = kernel.source.plan.workspace
    own = {parts.parameter.name: int(memory)} if parts is not None else {}

    # It is freed when nobody holds it, and graphs that are made of this use it.
    def enqueue(turn: int, held: object = memory) -> None:
        kernel.start(entry, {**values[turn], **own}, stream)

    return enqueue


def _arguments(problem: Problem, buffers: Buffers) -> dict[str, int]:
    m, n, k = buffers.shape
    arguments = {"M": m, "N": n, "K": k, "A": buffers.a, "B": buffers.b, "C": buffers.c}
    for operand in (problem.a, problem.b, problem.c):
        arguments[operand.ld] = buffers.ld(operand)
    return arguments


def layouts_of(problem: Problem) -> tuple[str, ...]:
    """The orders of A, B and C."""
    return tuple(operand.order.value for operand in (problem.a, problem.b, problem.c))


def work_of(shape: Shape) -> float:
    """FLOP of a product."""
    return 2.0 * shape[0] * shape[1] * shape[2]


def _counts(problem: Problem, shape: Shape, pad: int) -> dict[str, int]:
    """Elements that each operand takes, its padding included."""
    extents = dict(zip(("M", "N", "K"), shape, strict=True))
    return {
        operand.name: extents[operand.strided] * leading(operand, shape, pad)
        for operand in (problem.a, problem.b, problem.c)
    }


def _up(count: int) -> int:
    return -(-count // _SET_UNIT) * _SET_UNIT


def bytes_of(shape: Shape) -> int:
    """Bytes of the three matrices without padding, which a product has to move at least."""
    m, n, k = shape
    return 4 * (m * k + k * n + m * n)
