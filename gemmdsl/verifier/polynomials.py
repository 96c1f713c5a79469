"""Polynomials with whole coefficients in variables of which each is any number from 0 on.

What holds of numbers of tiles that nobody can enumerate is shown with them: one polynomial is at most another
where no coefficient of their difference is negative.  That is enough, not necessary: what is not shown may
hold all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from gemmdsl.index import Bound, Choice, Expr, Int, Named, Op, Var

# Exponents by variable, the variable that counts most first; the constant term has none.
Monomial = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of terms; a coefficient is never 0."""

    terms: dict[Monomial, int]

    def __add__(self, other: Polynomial) -> Polynomial:
        return self._plus(other, 1)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self._plus(other, -1)

    def _plus(self, other: Polynomial, sign: int) -> Polynomial:
        found = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            found[monomial] = found.get(monomial, 0) + sign * coefficient
        return Polynomial({monomial: value for monomial, value in found.items() if value})

    def __mul__(self, other: Polynomial) -> Polynomial:
        found: dict[Monomial, int] = {}
        for left, one in self.terms.items():
            for right, another in other.terms.items():
                product = _times(left, right)
                found[product] = found.get(product, 0) + one * another
        return Polynomial({monomial: value for monomial, value in found.items() if value})

    def at_most(self, other: Polynomial) -> bool:
        """Whether this is shown to be at most the other one."""
        return all(coefficient > 0 for coefficient in (other - self).terms.values())

    def divided(self, by: Polynomial) -> tuple[Polynomial, Polynomial] | None:
        """Quotient and remainder as `/` and `%` give them; None where that is not shown."""
        if not by.terms:
            return None
        lead = max(by.terms)
        quotient, remainder, rest = number(0), number(0), self
        while rest.terms:
            term = max(rest.terms)
            coefficient = rest.terms[term]
            factor = _without(term, lead)
            if factor is None or coefficient % by.terms[lead]:
                moved = Polynomial({term: coefficient})
                remainder, rest = remainder + moved, rest - moved
                continue
            step = Polynomial({factor: coefficient // by.terms[lead]})
            quotient, rest = quotient + step, rest - step * by
        shown = number(0).at_most(remainder) and (remainder + number(1)).at_most(by)
        return (quotient, remainder) if shown else None


def number(value: int) -> Polynomial:
    return Polynomial({(): value} if value else {})


def variables(count: int) -> tuple[Polynomial, ...]:
    """`count` variables, the one that counts most in divisions first."""
    return tuple(Polynomial({((count - place, 1),): 1}) for place in range(count))


def polynomial(
    expr: Expr, env: Mapping[Expr, Polynomial], check: Callable[[Op, Polynomial], None] | None = None
) -> Polynomial | None:
    """The value of an expression where parts of it have the values of `env`; None where it is not known.

    `check` is told of each operation, and may refuse what comes of it.
    """
    if (known := env.get(expr)) is not None:
        return known
    match expr:
        case Int() | Named():
            return number(expr.value)
        case Var() | Choice():
            return None
        case Bound():
            return polynomial(expr.value, env, check)
        case Op():
            left, right = polynomial(expr.left, env, check), polynomial(expr.right, env, check)
            found = None if left is None or right is None else _apply(expr, left, right)
            if found is not None and check is not None:
                check(expr, found)
            return found
        case _:
            assert_never(expr)


def _apply(expr: Op, left: Polynomial, right: Polynomial) -> Polynomial | None:
    match expr.kind:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/" | "%":
            divided = left.divided(right)
            return None if divided is None else divided[expr.kind == "%"]
        case "!=":
            if left == right:
                return number(0)
            apart = (left + number(1)).at_most(right) or (right + number(1)).at_most(left)
            return number(1) if apart else None
        case "min":
            if left.at_most(right):
                return left
            return right if right.at_most(left) else None
        case _:
            return None


def _times(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for variable, power in right:
        powers[variable] = powers.get(variable, 0) + power
    return tuple(sorted(powers.items(), reverse=True))


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    """The monomial divided by another one; None where that leaves a negative power."""
    powers = dict(monomial)
    for variable, power in factor:
        powers[variable] = powers.get(variable, 0) - power
        if powers[variable] < 0:
            return None
    return tuple(sorted(((v, power) for v, power in powers.items() if power), reverse=True))
