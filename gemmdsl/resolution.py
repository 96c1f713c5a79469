"""A declared schedule held against the rules: what it comes to, and every rule that it breaks.

A schedule that is not known in full is judged as far as it is known: of a rule on a word that is in doubt,
nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from gemmdsl import syntax
from gemmdsl.diagnostics import Diagnostic, Note, Severity
from gemmdsl.inheritance import STAGED, Entries, Entry, Words, locate, options_of
from gemmdsl.rules import Violation, find, violations
from gemmdsl.rules_options import Extents, Options, derive
from gemmdsl.rules_repair import Adviser
from gemmdsl.source import Source
from gemmdsl.spec import Problem, Schedule
from gemmdsl.target import Target


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule as declared, with what it inherits.

    It is `sound` unless there is something wrong with its structure, or with that of one it extends.  Then
    `words` may be in doubt, and so may `problem` and `target`: of these, stand-ins.
    """

    decl: syntax.ScheduleDecl
    problem: Problem
    target: Target
    words: Words
    sound: bool = True

    @property
    def name(self) -> str:
        return self.decl.name.text

    @property
    def entries(self) -> Entries:
        return self.words.entries


@dataclass(frozen=True, slots=True)
class Outcome:
    """A schedule after fallbacks, the words that are left of it, and what there is to say about it."""

    schedule: Schedule
    options: Options
    errors: tuple[Diagnostic, ...]
    notes: tuple[Diagnostic, ...]


def resolve(source: Source, declared: Declared, target: Target, adviser: Adviser) -> Outcome:
    """Derives the schedule and asks the rules, dropping preferred words that break one."""
    entries, doubt = dict(declared.entries), declared.words.doubtful
    notes: list[Diagnostic] = []

    def broken(words: Entries) -> list[Violation]:
        schedule = derive(declared.name, options_of(words), declared.problem)
        noughts = tuple(_noughts(words))
        refused = {word for violation in noughts for word in violation.words}
        found = violations(schedule, declared.problem, target)
        return [
            violation
            for violation in (*noughts, *(other for other in found if refused.isdisjoint(other.words)))
            if declared.sound or not _in_doubt(declared.words, violation)
        ]

    found = broken(entries)
    while found and (drop := _droppable(entries, found, broken)) is not None:
        violation, dropped = drop
        for entry in dropped:
            text = f"`{entry.text}` is dropped: {violation.message}"
            rule = Note("rule", violation.rule.formula)
            notes.append(Diagnostic("G802", text, source, entry.span, (rule,), Severity.NOTE))
            del entries[entry.key]
        found = broken(entries)
    options = options_of(entries)
    schedule = derive(declared.name, options, declared.problem)
    errors = []
    for violation in found:
        # What would be legal depends on everything else.
        legal = () if doubt else adviser.repairs(options, declared.problem, target, violation)
        errors.append(_violated(source, declared, entries, violation, legal))
    return Outcome(schedule, options, tuple(errors), tuple(notes))


def _noughts(entries: Entries) -> Iterator[Violation]:
    """Rules broken by a 0 that was written; in a Schedule it stands for what was not, and breaks none."""
    block, min_blocks = entries.get("block"), entries.get("min_blocks")
    if block is not None and cast(Extents, block.value)[2:] == (0,):
        yield Violation(find("G202"), ("block",), {"extent": 0})
    if min_blocks is not None and min_blocks.value == 0:
        yield Violation(find("G501"), ("min_blocks",), {"blocks": 0})


def _in_doubt(words: Words, violation: Violation) -> bool:
    """Whether a rule was asked about something that is not known; layouts decide all that is staged."""
    doubtful = words.doubtful
    asked = (*violation.words, *("problem" for word in violation.words if word.partition(".")[0] in STAGED))
    return not doubtful.isdisjoint(asked)


def _droppable(
    entries: Entries, found: list[Violation], broken: Callable[[Entries], list[Violation]]
) -> tuple[Violation, list[Entry]] | None:
    """A violation that ends when preferred words are dropped, and the fewest of those; the latest first."""
    for violation in found:
        involved = dict.fromkeys(locate(entries, word) for word in violation.words)
        # There is no schedule without its block tile.
        preferred = [
            entry for entry in involved if entry is not None and entry.prefer and entry.key != "block"
        ]
        preferred.sort(key=lambda entry: (-entry.depth, -entry.span.start))
        key = (violation.rule.code, violation.words)
        for dropped in [*([entry] for entry in preferred), preferred]:
            gone = {entry.key for entry in dropped}
            left = broken({name: entry for name, entry in entries.items() if name not in gone})
            if gone and all((other.rule.code, other.words) != key for other in left):
                return violation, dropped
    return None


def _violated(
    source: Source, declared: Declared, entries: Entries, violation: Violation, legal: tuple[str, ...]
) -> Diagnostic:
    """The diagnostic of a violation, at the word that was given last of those that break the rule."""
    involved = [entry for word in violation.words if (entry := locate(entries, word)) is not None]
    cause = max(involved, key=lambda entry: entry.depth, default=None)
    notes = [Note("rule", violation.rule.formula)]
    if legal:
        notes.append(Note("nearest legal", ", or ".join(legal)))
    if cause is not None and cause.owner != declared.name:
        notes.append(Note("inherited", f"schedule `{declared.name}` has this from `{cause.owner}`"))
    span = cause.span if cause is not None else declared.decl.name.span
    return Diagnostic(violation.rule.code, violation.message, source, span, tuple(notes))
