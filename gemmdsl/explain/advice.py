"""Better neighbours of a schedule: fewer wavefronts at equal resources, found in the model alone."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from itertools import count

from gemmdsl.analysis.access import Access, Count, Kind, Space
from gemmdsl.analysis.banks import BANKS
from gemmdsl.analysis.lines import source_map
from gemmdsl.analysis.registers import estimated_registers
from gemmdsl.analysis.shape import tight
from gemmdsl.analysis.written import written
from gemmdsl.checker import Program, loads
from gemmdsl.diagnostics import GemmError
from gemmdsl.explain.moves import Move, moves, schedule_text
from gemmdsl.ir import Kernel
from gemmdsl.names import MAX_NAME
from gemmdsl.occupancy import occupancy
from gemmdsl.passes import build
from gemmdsl.rules import violations
from gemmdsl.rules_options import Options, derive
from gemmdsl.spec import OperandName, Spec

# Whose access to which memory, and in which direction.
Want = tuple[Space, OperandName, Kind]

# Losses of sectors below this share are not worth a word.
SMALL = 0.02
_MOST_CHANGES = 3
_KEPT = 6
_MENDS = 3
_SUFFIX = "_suggested"
# What a diff says below a line that ends with the file.
_NO_END = "\n\\ No newline at end of file\n"


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


def cost_of(kernel: Kernel) -> Cost:
    """Shared wavefronts and global sectors of one block over one K tile, as written."""
    counts = [(want[0], count) for want, count in _by_want(kernel).items()]
    return Cost(
        wavefronts=sum(count.cost for space, count in counts if space == "shared"),
        conflicts=sum(count.excess for space, count in counts if space == "shared"),
        sectors=sum(count.cost for space, count in counts if space == "global"),
        requests=sum(count.requests for _, count in counts),
    )


def _one_tile(kernel: Kernel) -> tuple[Access, ...]:
    """What one block does over one K tile on the path for whole, aligned tiles, as written.

    Larger multiples that the schedule assumes are left out: they change nothing of one tile.
    """
    depth = kernel.block_k.value if kernel.block_k is not None else 1
    shape = tight(kernel.spec.problem, kernel.block_m.value, kernel.block_n.value, depth)
    # The tile of a small matrix; its leading dimensions keep the alignment that large ones mostly have.
    shape = replace(shape, **{ld: -(-getattr(shape, ld) // BANKS) * BANKS for ld in ("lda", "ldb", "ldc")})
    whole = replace(kernel, paths=(replace(kernel.paths[0], requires=()),))
    return written(whole, shape, source_map(""))


def suggestions(program: Program, spec: Spec) -> tuple[Suggestion, ...]:
    """The best neighbours with one, two and three changes; each better than those with fewer.

    Threads, block tile and buffers stay; the estimates of registers and of resident blocks get no worse.
    """
    base = build(spec)
    start = _Candidate(program.options(spec.schedule.name, spec.target), (), base, cost_of(base))
    level, best = [start], start
    found: list[Suggestion] = []
    for _ in range(_MOST_CHANGES):
        level = sorted(_neighbours(level, spec, base), key=_order)[:_KEPT]
        if not level:
            break
        if level[0].cost.rank < best.cost.rank:
            best = level[0]
            suggestion = _suggestion(program, spec, best, [one.name for one in found])
            if suggestion is not None:
                found.append(suggestion)
    return tuple(found)


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
    kernel = build(replace(spec, schedule=schedule))
    if _resident(kernel) < _resident(base) or estimated_registers(kernel) > estimated_registers(base):
        return None
    return _Candidate(options, changes, kernel, cost_of(kernel))


def _resident(kernel: Kernel) -> int:
    threads = kernel.threads.threads.value
    return occupancy(kernel.spec.target, threads, estimated_registers(kernel), kernel.shared_bytes).blocks


def _suggestion(
    program: Program, spec: Spec, candidate: _Candidate, taken: Collection[str] = ()
) -> Suggestion | None:
    """The candidate as a schedule of the file, if the front end reads that text as what was tried.

    Names that are `taken` are those of suggestions that are to stand beside it.
    """
    name = _free_name(program, spec, taken)
    # What another target has room for, or can do, need not be legal on the one that the file names.
    own = program.declared[spec.schedule.name].target
    target = "" if spec.target == own else spec.target.name
    text = schedule_text(name, spec.schedule.name, candidate.changes, target)
    try:
        checked = loads(_with(program, text), program.source.name).spec(name, spec.target.name)
    except GemmError:
        return None
    if checked.schedule != replace(candidate.kernel.spec.schedule, name=name):
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


def _free_name(program: Program, spec: Spec, taken: Collection[str]) -> str:
    """A name made of the schedule's, cut where it would be too long, whose function no other one has."""
    problem = spec.problem.name
    functions = {f"{declared.problem.name}_{name}" for name, declared in program.declared.items()}
    functions |= {f"{problem}_{name}" for name in taken}
    for number in count(1):
        end = f"{_SUFFIX}_{number}"
        name = spec.schedule.name[: MAX_NAME - len(end)].rstrip("_") + end
        if name not in program.declared and f"{problem}_{name}" not in functions:
            return name
    raise AssertionError("numbers do not end")


def _with(program: Program, text: str) -> str:
    source = program.source.text
    return f"{source}{'' if source.endswith(chr(10)) else chr(10)}\n{text}"


def as_diff(program: Program, suggestion: Suggestion) -> str:
    """The change of the file that adds the suggested schedule, as a unified diff that tools can apply."""
    newline = program.source.newline
    old, new = (
        # A diff has lines of the file, whatever else in one may look like the end of a line.
        list(StringIO(text.replace("\n", newline), newline="\n"))
        for text in (program.source.text, _with(program, suggestion.text))
    )
    # Without a tab, tools take a name to end at its first space.
    name = program.source.name + ("\t" if " " in program.source.name else "")
    lines = difflib.unified_diff(old, new, name, name, n=2)
    return "".join(line if line.endswith("\n") else f"{line}{_NO_END}" for line in lines)


def wants(accesses: Sequence[Access]) -> set[Want]:
    """The accesses that cost more than they must: bank conflicts, sectors that are hardly used."""
    return {
        (access.space, access.operand, access.kind)
        for access in accesses
        if access.operand is not None and access.total.share > (0.0 if access.space == "shared" else SMALL)
    }


def mended(program: Program, spec: Spec, accesses: Sequence[Access]) -> dict[Want, tuple[Suggestion, ...]]:
    """For each access that costs too much, the best single changes as written, at most three.

    In shared memory those are the smallest ones that rid the access of its conflicts, in global memory those
    with the fewest sectors; wavefronts and resources get no worse.
    """
    wanted = wants(accesses)
    if not wanted:
        return {}
    options = program.options(spec.schedule.name, spec.target)
    base = build(spec)
    before, now = _by_want(base), cost_of(base)
    found: dict[Want, list[tuple[tuple[object, ...], _Candidate]]] = {}
    for move in moves(derive(spec.schedule.name, options, spec.problem), options):
        made = _made(spec, move.change(options), (move,), base)
        if made is None or made.cost.wavefronts > now.wavefronts:
            continue
        after = _by_want(made.kernel)
        for want in wanted:
            if _mends(want, before.get(want, Count()), after.get(want, Count()), made.cost, now):
                touched = after.get(want, Count()).cost if want[0] == "global" else 0
                found.setdefault(want, []).append(((touched, *_order(made)), made))
    return {
        want: tuple(
            suggestion
            for _, candidate in sorted(candidates, key=lambda pair: pair[0])[:_MENDS]
            if (suggestion := _suggestion(program, spec, candidate)) is not None
        )
        for want, candidates in found.items()
    }


def _mends(want: Want, before: Count, after: Count, cost: Cost, now: Cost) -> bool:
    if want[0] == "shared":
        return after.excess == 0 and cost.wavefronts < now.wavefronts
    return after.cost < before.cost


def _by_want(kernel: Kernel) -> dict[Want, Count]:
    """What one block does to each memory over one K tile, as written."""
    found: dict[Want, Count] = {}
    for access in _one_tile(kernel):
        if access.operand is not None:
            want = (access.space, access.operand, access.kind)
            # With fragments in turns a launch reads a few more than its tiles have; every tile does not.
            found[want] = found.get(want, Count()) + (access.per_tile or access.total)
    return found
