"""The rules of schedules, as data: the checker, `gemmdsl rules`, the language reference, searches and random
tests all read this one table.

A rule and its check are one declaration in `rules_sizes`, `rules_tiles`, `rules_staging` or
`rules_resources`; `rules_repair` finds the nearest legal change for any of them.
"""

from __future__ import annotations

from gemmdsl.rules_case import Case, Rule, Violation
from gemmdsl.rules_resources import RESOURCES
from gemmdsl.rules_sizes import SIZES
from gemmdsl.rules_staging import STAGING
from gemmdsl.rules_tiles import TILES
from gemmdsl.spec import Problem, Schedule
from gemmdsl.target import Target

__all__ = ["RULES", "Rule", "Violation", "find", "violations"]

# Basic rules first: what they refuse, the others are not asked about.
RULES: tuple[Rule, ...] = (*SIZES, *TILES, *STAGING, *RESOURCES)


def violations(schedule: Schedule, problem: Problem, target: Target) -> list[Violation]:
    """Every rule that the schedule breaks, in the order of the table; pure."""
    case = Case(schedule, problem, target)
    found: list[Violation] = []
    broken: set[str] = set()
    for rule in RULES:
        for words, values in rule.check(case):
            if rule.basic:
                broken.update(words)
            elif not broken.isdisjoint(words):
                continue
            found.append(Violation(rule, words, values))
    return found


def find(code: str) -> Rule:
    """The rule of that code; KeyError if there is none."""
    for rule in RULES:
        if rule.code == code:
            return rule
    raise KeyError(code)
