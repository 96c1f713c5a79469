"""The rules that every kernel has to keep after every pass, and what a broken one looks like.

A refuted proof is a bug of the compiler, never of the schedule: `gemmdsl.rules` has accepted the schedule.
Codes start with P, so that nobody looks for the mistake in a file: `P1xx` outputs, `P2xx` staged tiles,
`P3xx` paths, `P4xx` the program, `P5xx` hazards, `P6xx` limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gemmdsl.diagnostics import Diagnostic, GemmError, Note


@dataclass(frozen=True, slots=True)
class Rule:
    """One proof obligation; `formula` is what holds of a right kernel."""

    code: str
    name: str
    formula: str


OUTPUTS = Rule("P101", "outputs", "each element of the block tile belongs to exactly one (thread, i, j)")
OUTPUT_VECTORS = Rule(
    "P102", "output-vectors", "a vector of C is of neighbours, from a multiple of its width on"
)
BLOCKS = Rule("P103", "blocks", "each tile of C belongs to exactly one block of the grid")
K_PARTS = Rule("P111", "k-parts", "the parts of K are whole tiles, disjoint, and cover it, for every K")
SUMS = Rule("P112", "sums", "C is scaled by beta once, and each part of K is added once, after that")
WORKSPACE = Rule(
    "P113",
    "workspace",
    "each element of a part has its own word of the workspace, and is added up from where it was stored",
)
SWEEPS = Rule("P114", "sweeps", "a kernel that goes through C meets each element once, whatever C's extents")
COPY_COVERAGE = Rule("P201", "copy-coverage", "each element of a staged tile is copied exactly once")
COPY_VECTORS = Rule("P202", "copy-vectors", "a global vector starts at a multiple of its width in its row")
PLACEMENT = Rule("P203", "placement", "elements have distinct words within the used part of a shared row")
SHARED_STORES = Rule("P204", "shared-stores", "a shared vector store writes neighbouring, aligned words")
ASYNC_WIDTH = Rule("P205", "async-width", "an asynchronous copy is as wide in shared as in global memory")
STEPS = Rule("P206", "steps", "first place plus way is, for each copy, the place that was enumerated")
READS = Rule("P211", "reads", "a thread reads the words that hold the fragments of its own outputs")
READ_VECTORS = Rule("P212", "read-vectors", "a shared vector read covers neighbouring, aligned words")
GUARDS = Rule("P301", "guards", "an axis without guard is a multiple of the block tile by condition")
ALIGNMENT = Rule("P302", "alignment", "an operand accessed in vectors is aligned by condition")
LAST_RESORT = Rule("P303", "last-resort", "the last path requires the schedule's assumptions and no more")
UNIFORM = Rule("P401", "uniform", "every thread of a block takes the same way through the program")
TILE_RANGE = Rule("P402", "tile-range", "0 <= tile < k_tiles wherever a tile is copied")
SLOT_RANGE = Rule("P403", "slot-range", "a slot expression names one of the slots that the tile has")
REGISTERS = Rule("P404", "registers", "staging registers are loaded before they are stored")
TILE_ORDER = Rule(
    "P405", "tile-order", "tiles 0, 1, ... k_tiles - 1 are multiplied, each from slots that hold it"
)
AWAITED = Rule("P406", "awaited", "the issuing thread waits for an asynchronous copy before its data is used")
STORED_ONCE = Rule("P407", "stored-once", "C is stored exactly once, after the last product")
STEADY = Rule(
    "P408",
    "steady",
    "larger numbers of K tiles repeat what was run: one turn of the slots later, all is the same",
)
SEQUENCE = Rule(
    "P409", "sequence", "tiles of an operand are copied one after the other: its pointer moves on by one tile"
)
FRAGMENTS = Rule(
    "P410", "fragments", "fragment registers hold step k of both operands where step k is multiplied"
)
COUNTERS = Rule("P411", "counters", "a counter that runs along with a loop has the value its formula says")
NAMES = Rule("P412", "names", "a name stands for one value, and a counter belongs to a loop around its use")
REGISTER_SETS = Rule(
    "P413",
    "register-sets",
    "which fragment registers a step uses is the same in each turn of its loop as it is unrolled",
)
HAZARD = Rule("P501", "hazard", "two threads touch the same word, one writing, only with a barrier between")
EXPRESSED = Rule(
    "P304", "expressed", "a path guards and vectorises all that can be, or what the last path does"
)
WHOLE_VECTORS = Rule(
    "P305", "whole-vectors", "an asynchronous vector lies inside the matrix or outside, by condition"
)
LIMITS = Rule("P601", "limits", "the block fits the target")
AS_ASKED = Rule("P602", "as-asked", "the finished kernel has what the schedule asks for")

RULES: tuple[Rule, ...] = (
    OUTPUTS,
    OUTPUT_VECTORS,
    BLOCKS,
    K_PARTS,
    SUMS,
    WORKSPACE,
    SWEEPS,
    COPY_COVERAGE,
    COPY_VECTORS,
    PLACEMENT,
    SHARED_STORES,
    ASYNC_WIDTH,
    STEPS,
    READS,
    READ_VECTORS,
    GUARDS,
    ALIGNMENT,
    LAST_RESORT,
    EXPRESSED,
    WHOLE_VECTORS,
    UNIFORM,
    TILE_RANGE,
    SLOT_RANGE,
    REGISTERS,
    TILE_ORDER,
    AWAITED,
    STORED_ONCE,
    STEADY,
    SEQUENCE,
    FRAGMENTS,
    COUNTERS,
    NAMES,
    REGISTER_SETS,
    HAZARD,
    LIMITS,
    AS_ASKED,
)

Witness = Mapping[str, int | str]


class Refuted(Exception):
    """A proof found a counterexample; `verify` adds the pass and raises ProofError."""

    def __init__(self, rule: Rule, message: str, **witness: int | str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.witness: Witness = witness


class ProofError(GemmError):
    """A kernel that breaks a rule: which rule, after which pass, and one counterexample."""

    def __init__(self, after: str, refuted: Refuted) -> None:
        self.rule = refuted.rule
        self.after = after
        self.witness = refuted.witness
        values = ", ".join(f"{name} = {value}" for name, value in refuted.witness.items())
        notes = [Note("rule", f"{refuted.rule.name}: {refuted.rule.formula}"), Note("after pass", after)]
        if values:
            notes.append(Note("witness", values))
        notes.append(Note("note", "a bug in gemmdsl, not in your file; please report it with the file"))
        super().__init__([Diagnostic(refuted.rule.code, refuted.message, notes=tuple(notes))])
