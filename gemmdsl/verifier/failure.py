"""The rules that every kernel has to keep after every pass, and what a broken one looks like.

A refuted proof is a bug of the compiler, never of the schedule: `gemmdsl.rules` has accepted the schedule.
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


OUTPUTS = Rule("G401", "outputs", "each element of the block tile belongs to exactly one (thread, i, j)")
OUTPUT_VECTORS = Rule(
    "G402", "output-vectors", "a vector of C is of neighbours, from a multiple of its width on"
)
COPY_COVERAGE = Rule("G411", "copy-coverage", "each element of a staged tile is copied exactly once")
COPY_VECTORS = Rule("G412", "copy-vectors", "a global vector starts at a multiple of its width in its row")
PLACEMENT = Rule("G413", "placement", "elements have distinct words within the used part of a shared row")
SHARED_STORES = Rule("G414", "shared-stores", "a shared vector store writes neighbouring, aligned words")
ASYNC_WIDTH = Rule("G415", "async-width", "an asynchronous copy is as wide in shared as in global memory")
READS = Rule("G421", "reads", "a thread reads the words that hold the fragments of its own outputs")
READ_VECTORS = Rule("G422", "read-vectors", "a shared vector read covers neighbouring, aligned words")
GUARDS = Rule("G431", "guards", "an axis without guard is a multiple of the block tile by condition")
ALIGNMENT = Rule("G432", "alignment", "an operand accessed in vectors is aligned by condition")
LAST_RESORT = Rule("G433", "last-resort", "the last path requires the schedule's assumptions and no more")
UNIFORM = Rule("G441", "uniform", "every thread of a block takes the same way through the program")
TILE_RANGE = Rule("G442", "tile-range", "0 <= tile < k_tiles wherever a tile is copied")
SLOT_RANGE = Rule("G443", "slot-range", "a slot expression names one of the slots that the tile has")
REGISTERS = Rule("G444", "registers", "staging registers are loaded before they are stored")
TILE_ORDER = Rule(
    "G445", "tile-order", "tiles 0, 1, ... k_tiles - 1 are multiplied, each from slots that hold it"
)
AWAITED = Rule("G446", "awaited", "the issuing thread waits for an asynchronous copy before its data is used")
STORED_ONCE = Rule("G447", "stored-once", "C is stored exactly once, after the last product")
STEADY = Rule("G448", "steady", "the state of the K loop repeats itself once the pipeline is full")
HAZARD = Rule("G451", "hazard", "two threads touch the same word, one writing, only with a barrier between")
LIMITS = Rule("G461", "limits", "the block fits the target")

RULES: tuple[Rule, ...] = (
    OUTPUTS,
    OUTPUT_VECTORS,
    COPY_COVERAGE,
    COPY_VECTORS,
    PLACEMENT,
    SHARED_STORES,
    ASYNC_WIDTH,
    READS,
    READ_VECTORS,
    GUARDS,
    ALIGNMENT,
    LAST_RESORT,
    UNIFORM,
    TILE_RANGE,
    SLOT_RANGE,
    REGISTERS,
    TILE_ORDER,
    AWAITED,
    STORED_ONCE,
    STEADY,
    HAZARD,
    LIMITS,
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
