"""What index expressions are made of: their variables, their named constants, the values they bind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import assert_never

from gemmdsl.index import Bound, Choice, Expr, Int, Named, Op, Var, add, terms


def parts(expr: Expr) -> tuple[Expr, ...]:
    """What an expression is made of, a definition and a bound value included; empty for a leaf."""
    match expr:
        case Int() | Var():
            return ()
        case Named():
            return (expr.definition,)
        case Bound():
            return (expr.value,)
        case Op():
            return (expr.left, expr.right)
        case Choice():
            return (expr.condition, expr.then, expr.otherwise)
        case _:
            assert_never(expr)


@lru_cache(maxsize=4096)
def free(expr: Expr) -> frozenset[str]:
    """Names of the variables that an expression depends on; bound values count with theirs."""
    if isinstance(expr, Var):
        return frozenset((expr.name,))
    return frozenset[str]().union(*map(free, parts(expr)))


def split(expr: Expr, names: frozenset[str]) -> tuple[Expr, Expr]:
    """`expr` as (part free of the variables `names`, part made of the summands that use them)."""
    without: Expr = Int(0)
    using: Expr = Int(0)
    for term in terms(expr):
        if free(term) & names:
            using = add(using, term)
        else:
            without = add(without, term)
    return without, using


def constants(expr: Expr) -> Iterator[Named]:
    """Every named constant in an expression, definitions first, in order of appearance; may repeat."""
    for part in parts(expr):
        yield from constants(part)
    if isinstance(expr, Named):
        yield expr


def bindings(expr: Expr) -> Iterator[Bound]:
    """Every bound value in an expression, inner ones first; may repeat."""
    if isinstance(expr, Named):
        return
    for part in parts(expr):
        yield from bindings(part)
    if isinstance(expr, Bound):
        yield expr
