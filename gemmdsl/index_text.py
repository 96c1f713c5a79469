"""Index expressions as C: the one place that spells them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from gemmdsl.index import OPERATORS, Bound, Choice, Expr, Int, Named, Op, Var
from gemmdsl.index_parts import parts

# Ranks below and above those of the operators.
_OUTERMOST = 0
_CHOICE = 1
_INNERMOST = 10


def to_c(expr: Expr, outer: int = _OUTERMOST, right_side: bool = False) -> str:
    """C spelling with the fewest parentheses that keep the meaning; `^` always gets its own."""
    match expr:
        case Int():
            return str(expr.value)
        case Named() | Var() | Bound():
            return expr.name
        case Choice():
            condition, then, otherwise = (to_c(part, _CHOICE, True) for part in parts(expr))
            text = f"{condition} ? {then} : {otherwise}"
            return f"({text})" if outer >= _CHOICE else text
        case Op():
            rank = OPERATORS[expr.kind].rank
            if rank == 0:
                return f"{expr.kind}({to_c(expr.left)}, {to_c(expr.right)})"
            # a * b / c and a / b * c differ, so a product on the right of an operator keeps its parentheses.
            # Operands of ^ are always wrapped: few readers know its rank.
            inner = _INNERMOST if expr.kind == "^" else rank
            # Two comparisons in a row would read as if they were chained.
            compares = rank == OPERATORS["<"].rank
            left, right = to_c(expr.left, inner, compares), to_c(expr.right, inner, expr.kind != "+")
            text = f"{left} {expr.kind} {right}"
            bare = rank > outer or (rank == outer and not right_side)
            # A mixed product reads better with parentheses, even where C needs none; so does && within ||.
            mixed = rank == outer == OPERATORS["*"].rank and expr.kind != "*"
            mixed |= expr.kind == "&&" and outer == OPERATORS["||"].rank
            return text if bare and not mixed else f"({text})"
        case _:
            assert_never(expr)


def calls(expr: Expr) -> Iterator[str]:
    """The functions that the C text of an expression calls; a name stands for its value."""
    match expr:
        case Op() | Choice():
            if isinstance(expr, Op) and OPERATORS[expr.kind].rank == 0:
                yield expr.kind
            for part in parts(expr):
                yield from calls(part)
        case _:
            return
