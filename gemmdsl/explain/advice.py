"""Better neighbours of a schedule: fewer wavefronts at equal resources, found in the model alone."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gemmdsl.analysis.access import Access, summed
from gemmdsl.analysis.lines import source_map
from gemmdsl.analysis.occupancy import estimated_registers, occupancy
from gemmdsl.analysis.shape import tight
from gemmdsl.analysis.written import written
from gemmdsl.checker import Program, loads
from gemmdsl.diagnostics import GemmError
from gemmdsl.explain.moves import Move, moves, schedule_text
from gemmdsl.inheritance import options_of
from gemmdsl.ir import Kernel
from gemmdsl.lowering import lower
from gemmdsl.passes import PIPELINE
from gemmdsl.rules import violations
from gemmdsl.rules_options import Options, derive
from gemmdsl.spec import Spec

_MOST_CHANGES = 3
_KEPT = 6
_SUFFIX = "_suggested"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a schedule costs for one block and K tile; smaller is better, the first number first."""

    wavefronts: int
    conflicts: int
    sectors: int
    requests: int

    @property
    def rank(self) -> tuple[int, int, int]:
        return (self.wavefronts, self.sectors, self.requests)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A neighbour: its changes, its cost, and shared memory in bytes; `text` is the schedule to add.

    `spec` is that schedule, checked.
    """

    name: str
    changes: tuple[Move, ...]
    cost: Cost
    shared_bytes: int
    registers: int
    text: str
    spec: Spec


@dataclass(frozen=True, slots=True)
class _Candidate:
    options: Options
    changes: tuple[Move, ...]
    kernel: Kernel
    cost: Cost


def build_kernel(spec: Spec) -> Kernel:
    """The finished kernel without its proofs, which `steps` makes when it is compiled."""
    kernel = lower(spec)
    for apply in PIPELINE:
        changed = apply(kernel)
        if changed is not kernel:
            kernel = replace(changed, applied=(*kernel.applied, apply.__name__))
    return kernel


def cost_of(kernel: Kernel) -> Cost:
    """Shared wavefronts and global sectors of one block over one K tile, as written."""
    depth = kernel.block_k.value if kernel.block_k is not None else 1
    shape = tight(kernel.spec.problem, kernel.block_m.value, kernel.block_n.value, depth)
    # The one tile of a small matrix; its leading dimensions keep the alignment that large ones have.
    shape = replace(shape, lda=-(-shape.lda // 8) * 8, ldb=-(-shape.ldb // 8) * 8, ldc=-(-shape.ldc // 8) * 8)
    accesses = written(kernel, shape, source_map(""))
    shared = [summed(accesses, "shared", kind, None) for kind in ("load", "store")]
    return Cost(
        wavefronts=sum(count.cost for count in shared),
        conflicts=sum(count.excess for count in shared),
        sectors=sum(summed(accesses, "global", kind, None).cost for kind in ("load", "store")),
        requests=sum(access.total.requests for access in accesses),
    )


def suggestions(program: Program, spec: Spec) -> tuple[Suggestion, ...]:
    """The best neighbours with one, two and three changes; each better than those with fewer.

    Threads, block tile and buffers stay; the estimates of registers and of resident blocks get no worse.
    """
    declared = program.declared[spec.schedule.name]
    start_options = options_of(declared.entries)
    base = build_kernel(spec)
    start = _Candidate(start_options, (), base, cost_of(base))
    level, best, found = [start], start, []
    for _ in range(_MOST_CHANGES):
        level = sorted(_neighbours(level, spec, base), key=_order)[:_KEPT]
        if not level:
            break
        if level[0].cost.rank < best.cost.rank:
            best = level[0]
            found.append(_suggestion(program, spec, best))
    return tuple(suggestion for suggestion in found if suggestion is not None)


def _order(candidate: _Candidate) -> tuple[object, ...]:
    """Cheapest first; then the smallest shared tile and the shortest text."""
    words = sum(len(move.word) for move in candidate.changes)
    return (*candidate.cost.rank, candidate.kernel.shared_bytes, words, str(candidate.changes[0].word))


def _neighbours(level: Sequence[_Candidate], spec: Spec, base: Kernel) -> Iterator[_Candidate]:
    seen: set[frozenset[str]] = set()
    for candidate in level:
        schedule = derive(spec.schedule.name, candidate.options, spec.problem)
        for move in moves(schedule, candidate.options):
            if any(move.key == before.key for before in candidate.changes):
                continue
            changes = (*candidate.changes, move)
            words = frozenset(f"{change.key} {change.word}" for change in changes)
            if words in seen:
                continue
            seen.add(words)
            made = _made(spec, move.change(candidate.options), changes, base)
            if made is not None and made.cost.rank < candidate.cost.rank:
                yield made


def _made(spec: Spec, options: Options, changes: tuple[Move, ...], base: Kernel) -> _Candidate | None:
    """The candidate, unless it breaks a rule or takes more of an SM than `base`."""
    schedule = derive(spec.schedule.name, options, spec.problem)
    if violations(schedule, spec.problem, spec.target):
        return None
    kernel = build_kernel(replace(spec, schedule=schedule))
    if _resident(kernel) < _resident(base) or estimated_registers(kernel) > estimated_registers(base):
        return None
    return _Candidate(options, changes, kernel, cost_of(kernel))


def _resident(kernel: Kernel) -> int:
    threads = kernel.threads.threads.value
    return occupancy(kernel.spec.target, threads, estimated_registers(kernel), kernel.shared_bytes).blocks


def _suggestion(program: Program, spec: Spec, candidate: _Candidate) -> Suggestion | None:
    """The candidate as a schedule of the file, if the front end accepts that text."""
    name = _free_name(program, spec.schedule.name)
    text = schedule_text(name, spec.schedule.name, candidate.changes)
    try:
        checked = loads(_with(program, text), program.source.name).spec(name, spec.target.name)
    except GemmError:
        return None
    return Suggestion(
        name,
        candidate.changes,
        candidate.cost,
        candidate.kernel.shared_bytes,
        estimated_registers(candidate.kernel),
        text,
        checked,
    )


def _free_name(program: Program, parent: str) -> str:
    name, number = f"{parent}{_SUFFIX}", 2
    while name in program.declared:
        name, number = f"{parent}{_SUFFIX}_{number}", number + 1
    return name


def _with(program: Program, text: str) -> str:
    source = program.source.text
    return f"{source}{'' if source.endswith(chr(10)) else chr(10)}\n{text}"


def as_diff(program: Program, suggestion: Suggestion) -> str:
    """The change of the file that adds the suggested schedule, as a unified diff."""
    old, new = program.source.text, _with(program, suggestion.text)
    name = program.source.name
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), name, name, n=2
    )
    return "".join(lines)


def mended(program: Program, spec: Spec, accesses: Sequence[Access]) -> dict[tuple[str, str], Suggestion]:
    """(operand, kind) of each shared access with conflicts -> the smallest change that rids it of them."""
    declared = program.declared[spec.schedule.name]
    options, base = options_of(declared.entries), build_kernel(spec)
    wanted: set[tuple[str, str]] = {
        (access.operand, access.kind)
        for access in accesses
        if access.space == "shared" and access.total.excess and access.operand is not None
    }
    found: dict[tuple[str, str], _Candidate] = {}
    if not wanted:
        return {}
    schedule = derive(spec.schedule.name, options, spec.problem)
    worst = cost_of(base)
    for move in moves(schedule, options):
        made = _made(spec, move.change(options), (move,), base)
        if made is None or made.cost.wavefronts >= worst.wavefronts:
            continue
        for key in wanted & _free_of_conflicts(made.kernel):
            if key not in found or _order(made) < _order(found[key]):
                found[key] = made
    result: dict[tuple[str, str], Suggestion] = {}
    for key, candidate in found.items():
        suggestion = _suggestion(program, spec, candidate)
        if suggestion is not None:
            result[key] = suggestion
    return result


def _free_of_conflicts(kernel: Kernel) -> set[tuple[str, str]]:
    assert kernel.block_k is not None
    shape = tight(kernel.spec.problem, kernel.block_m.value, kernel.block_n.value, kernel.block_k.value)
    excess: dict[tuple[str, str], int] = {}
    for access in written(kernel, shape, source_map("")):
        if access.space == "shared" and access.operand is not None:
            key: tuple[str, str] = (access.operand, access.kind)
            excess[key] = excess.get(key, 0) + access.total.excess
    return {key for key, count in excess.items() if count == 0}
