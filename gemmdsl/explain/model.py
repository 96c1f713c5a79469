"""All that a report shows of one schedule at one shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gemmdsl.analysis.access import Access
from gemmdsl.analysis.compiled import Compiled
from gemmdsl.analysis.lines import source_map
from gemmdsl.analysis.registers import estimated_registers
from gemmdsl.analysis.roofline import Roofline, roofline
from gemmdsl.analysis.shape import Shape, path_for
from gemmdsl.analysis.sweeps import Swept, swept
from gemmdsl.analysis.written import written
from gemmdsl.checker import Program
from gemmdsl.cuda_source import CudaSource
from gemmdsl.diagnostics import GemmError, error
from gemmdsl.emit import emit
from gemmdsl.explain.advice import Suggestion, Want, mended, suggestions
from gemmdsl.explain.compiling import Mend, Trials, machine_code
from gemmdsl.explain.findings import Finding, findings
from gemmdsl.ir import Kernel, Path
from gemmdsl.occupancy import Occupancy, occupancy
from gemmdsl.passes import steps
from gemmdsl.spec import Spec
from gemmdsl.target import MAX_BLOCKS, TARGETS

# How many changes were tried, of how many.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Model:
    """One schedule at one shape.

    `machine` is None when the machine code was not asked for or cannot be had; `no_machine` says why.
    `registers` is ptxas's figure, or the estimate.  `occupancies` has every target, this one's first.
    `suggested` is None when no suggestions were asked for.  All but `sweeps` is about the main kernel of a
    call; those are the kernels around it.
    """

    spec: Spec
    kernel: Kernel
    source: CudaSource
    shape: Shape
    path: Path
    accesses: tuple[Access, ...]
    sweeps: tuple[Swept, ...]
    machine: Compiled | None
    no_machine: str
    estimated: int
    registers: int
    occupancies: tuple[Occupancy, ...]
    roofline: Roofline
    findings: tuple[Finding, ...]
    suggested: tuple[Suggestion, ...] | None

    @property
    def occupancy(self) -> Occupancy:
        return self.occupancies[0]

    @property
    def counted(self) -> tuple[Access, ...]:
        """The accesses that a profiler would see: as compiled, or as written where that is not known."""
        return self.machine.accesses if self.machine is not None else self.accesses


def model(
    program: Program,
    spec: Spec,
    shape: Shape,
    *,
    compile: bool = True,
    suggest: bool = False,
    progress: Progress = lambda done, of: None,
) -> Model:
    """The model of a checked schedule of `program`.

    With `compile`, machine code is looked at too if there is a toolkit; with `suggest` also that of changes
    which mend something, so that none is praised that gains nothing: `progress` is told how many of them are
    done.  GemmError when an assumption of the schedule does not hold for the shape, or a grid cannot have as
    many blocks.
    """
    last = steps(spec)[-1]
    kernel = last.kernel
    path = path_for(kernel, shape)
    if path is None:
        broken = [str(condition) for condition in kernel.preconditions if not condition.holds(shape.sizes)]
        raise GemmError(
            [
                error(
                    "G731", f"schedule `{spec.schedule.name}` assumes {', '.join(broken)}, not so for {shape}"
                )
            ]
        )
    source = emit(kernel, last.proofs)
    needed = source.plan.grid(shape.m, shape.n)[0]
    if needed > MAX_BLOCKS:
        text = f"{shape} needs {needed:,} blocks, more than a grid can have"
        raise GemmError([error("G733", text, most=f"{MAX_BLOCKS:,}")])
    places = source_map(source.text)
    accesses = written(kernel, shape, places)
    machine, reason = machine_code(kernel, source, shape) if compile else (None, "it was not asked for")
    mends = {want: found for want, found in mended(program, spec, accesses).items() if found}
    neighbours = suggestions(program, spec) if suggest else ()
    if suggest:
        trials = Trials(kernel, shape, machine)
        best, better = _tried(trials, mends, neighbours, progress)
    else:
        best, better = {want: Mend(found[0]) for want, found in mends.items()}, None
    estimated = estimated_registers(kernel)
    registers = machine.usage.registers if machine is not None else estimated
    occupied = occupancies(kernel, registers)
    roof = roofline(
        kernel,
        shape,
        occupied[0],
        machine.accesses if machine is not None else accesses,
        machine.instructions if machine is not None else None,
    )
    return Model(
        spec=spec,
        kernel=kernel,
        source=source,
        shape=shape,
        path=path,
        accesses=accesses,
        sweeps=swept(kernel, source.plan, shape, places),
        machine=machine,
        no_machine=reason,
        estimated=estimated,
        registers=registers,
        occupancies=occupied,
        roofline=roof,
        findings=findings(
            kernel,
            accesses,
            machine,
            occupied[0],
            roof,
            best,
        ),
        suggested=better,
    )


def _tried(
    trials: Trials,
    mends: Mapping[Want, tuple[Suggestion, ...]],
    neighbours: Sequence[Suggestion],
    progress: Progress,
) -> tuple[dict[Want, Mend], tuple[Suggestion, ...]]:
    """The best change for each access, and the neighbours that are better as compiled, too."""
    of = len(mends) + len(neighbours)
    best: dict[Want, Mend] = {}
    for want, found in mends.items():
        progress(len(best), of)
        best[want] = trials.mend(want, found)
    better = []
    for done, neighbour in enumerate(neighbours, start=len(best)):
        progress(done, of)
        if trials.better(neighbour):
            better.append(neighbour)
    progress(of, of)
    return best, tuple(better)


def occupancies(kernel: Kernel, registers: int) -> tuple[Occupancy, ...]:
    """Of the schedule's target first, then of the others in the order of the table."""
    own = kernel.spec.target
    others = (target for target in TARGETS.values() if target != own)
    threads = kernel.threads.threads.value
    return tuple(occupancy(target, threads, registers, kernel.shared_bytes) for target in (own, *others))
