"""The rules of schedules, as data: the checker, `gemmdsl rules`, the language reference, searches and random
tests all read this one table.

A rule and its check are one declaration in `rules_sizes`, `rules_tiles`, `rules_staging` or
`rules_resources`; `rules_repair` finds the nearest legal change for any of them.
"""

from __future__ import annotations

from gemmdsl.rules_case import Case, Rule, Violation, Words
from gemmdsl.rules_resources import RESOURCES
from gemmdsl.rules_sizes import SIZES
from gemmdsl.rules_staging import STAGING
from gemmdsl.rules_tiles import TILES
from gemmdsl.spec import Problem, Schedule
from gemmdsl.target import Target

__all__ = ["RULES", "Rule", "Violation", "find", "violations"]

# Basic rules first: what they refuse, the others are not asked about.
RULES: tuple[Rule, ...] = (*SIZES, *TILES, *STAGING, *RESOURCES)


def violations(
    schedule: Schedule, problem: Problem, target: Target, *, moot: bool = False
) -> list[Violation]:
    """Every rule that the schedule breaks, in the order of the table; pure.

    What follows from another mistake is left out unless `moot` is asked for, as by advice, which must not
    lead to it.
    """
    case = Case(schedule, problem, target)
    found: list[Violation] = []
    broken: set[str] = set()
    for rule in RULES:
        for words, values in rule.check(case):
            if rule.basic:
                broken.update(words)
            elif not broken.isdisjoint(words) or (not moot and _moot(rule, words, found)):
                continue
            found.append(Violation(rule, words, values))
    return found


def _moot(rule: Rule, words: Words, found: list[Violation]) -> bool:
    """Whether what the rule would say of the words follows from another mistake in them."""
    return any(other.rule.code in rule.needs and not set(words).isdisjoint(other.words) for other in found)


def find(code: str) -> Rule:
    """The rule of that code; KeyError if there is none."""
    for rule in RULES:
        if rule.code == code:
            return rule
    raise KeyError(code)
