"""What a rule is, and what it is asked about.

A rule looks at a resolved Schedule with its problem and target, and yields the words that break it with the
values for its message.  Words are written `block`, `thread`, `A.load`, `C.vector`, `assume.M`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from gemmdsl.spec import Problem, Schedule, Stage, StagedName, TileShape
from gemmdsl.target import MAX_REGISTERS_PER_THREAD, REGISTERS_PER_SM, WARP_SIZE, Target

# Registers are handed out per thread in steps of this many.
REGISTER_STEP = 8
# Registers of a thread beside what it computes with, by nvcc 13: for pointers, counters and guards; for
# each copy with an address of its own; for an asynchronous one that is a step from the copy before.
_AROUND = 24
_ADDRESS = 4
_STEP = 1

Words = tuple[str, ...]
Values = Mapping[str, object]
Findings = Iterator[tuple[Words, Values]]


class Case:
    """A schedule with its problem and target, and what the rules derive from them.

    `staged` operands with their tile in shared memory, none without a K extent; `shared_bytes` of all
    buffers; `copies` that a thread makes of each K tile; `registers` it needs, and those it may have.
    Extents are clamped to 1 where they divide, so that every rule can be asked about any schedule.
    """

    __slots__ = (
        "copies",
        "problem",
        "registers",
        "registers_available",
        "schedule",
        "shared_bytes",
        "staged",
        "target",
    )

    def __init__(self, schedule: Schedule, problem: Problem, target: Target) -> None:
        s = schedule
        self.schedule, self.problem, self.target = schedule, problem, target
        self.staged: tuple[tuple[StagedName, Stage, TileShape], ...] = ()
        if s.staged:
            tile_a = problem.a.tile(s.extents, s.stage_a.transpose, s.stage_a.pad)
            tile_b = problem.b.tile(s.extents, s.stage_b.transpose, s.stage_b.pad)
            self.staged = (("A", s.stage_a, tile_a), ("B", s.stage_b, tile_b))
        self.shared_bytes = sum(tile.bytes * s.buffers for _, _, tile in self.staged)
        threads = max(1, s.threads)
        self.copies = addresses = prefetched = 0
        for _, stage, tile in self.staged:
            load = max(1, stage.load)
            rounds = -(-tile.rows * tile.cols // (load * threads))
            # Whole rows per round: a copy lies a fixed number of rows behind the one before.
            in_rows = threads % max(1, tile.load_extent // load) == 0
            addresses += rounds * (_STEP * s.asynchronous if in_rows else _ADDRESS)
            self.copies += rounds
            if s.buffers == 2 and not s.asynchronous:
                # Ping-pong keeps the next tile of both operands in registers until its buffer is free.
                prefetched += rounds * load
        fragments = max(1, s.fragments) * (s.thread_m + s.thread_n)
        self.registers = s.outputs + fragments + prefetched + addresses + _AROUND
        whole_warps = -(-threads // WARP_SIZE) * WARP_SIZE
        share = REGISTERS_PER_SM // (whole_warps * max(1, s.min_blocks))
        self.registers_available = min(MAX_REGISTERS_PER_THREAD, share // REGISTER_STEP * REGISTER_STEP)


@dataclass(frozen=True, slots=True)
class Rule:
    """One constraint: a stable code, its formula, and the message of a violation.

    `words` are the words of the language that it involves, `message` a format string of what `check` yields.
    A `basic` rule bounds single values; other rules are not asked about words that break a basic one.  What a
    rule is about may only be told where others hold, such as a number of threads where tiles divide: `needs`
    are the codes of these, which stand before it in the table.  Nothing is said of words that break one.
    """

    code: str
    formula: str
    message: str
    words: Words
    check: Callable[[Case], Findings] = field(repr=False)
    basic: bool = False
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule: the words that break it, the likeliest cause first, and the values of its message."""

    rule: Rule
    words: Words
    values: Values = field(hash=False)

    @property
    def message(self) -> str:
        return self.rule.message.format_map(self.values)


def rule(
    code: str, formula: str, message: str, words: Words, basic: bool = False, needs: tuple[str, ...] = ()
) -> Callable[[Callable[[Case], Findings]], Rule]:
    """Makes a Rule of the function below it, which becomes its check."""
    return lambda check: Rule(code, formula, message, words, check, basic, needs)


def extents(*numbers: int) -> str:
    """As the language writes them: `128 x 8`."""
    return " x ".join(map(str, numbers))
