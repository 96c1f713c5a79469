"""Syntax of a `problem` to the Problem that it declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from gemmdsl import syntax
from gemmdsl.spec import Axis, Operand, OperandName, Order, Problem
from gemmdsl.suggest import nearest

Report = Callable[..., None]

_SHAPES: dict[OperandName, tuple[Axis, Axis]] = {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")}
_PRODUCT = "[alpha *] A @ B [+ beta * C]"


def problem_of(decl: syntax.ProblemDecl, report: Report) -> Problem | None:
    """The Problem, `report(code, message, span, **notes)` being called for what is wrong.

    None when that leaves the layouts open: an operand is missing, unknown or has its axes exchanged.
    """
    operands: dict[OperandName, Operand] = {}
    first: dict[str, syntax.OperandDecl] = {}
    for operand in decl.operands:
        name = operand.name
        before = first.setdefault(name.text, operand)
        known = _operand_name(name.text)
        if known is None:
            guess = nearest(name.text, _SHAPES)
            hint = f"; did you mean `{guess}`?" if guess else ": there are A, B and C"
            report("G113", f"unknown operand `{name.text}`{hint}", name.span)
        elif before is not operand:
            report(
                "G101", f"operand `{name.text}` is declared twice", name.span, first_declared=before.name.span
            )
        elif _declared(operand, known, report):
            order = Order(operand.order.text) if operand.order else Order.ROW
            operands[known] = Operand(known, *_SHAPES[known], order)
    missing = [name for name in _SHAPES if name not in first]
    if missing:
        listed = " and ".join([", ".join(missing[:-1]), missing[-1]] if len(missing) > 1 else missing)
        plural = "s" * (len(missing) > 1)
        report("G112", f"problem `{decl.name.text}` lacks operand{plural} {listed}", decl.name.span)
    product = first["C"].product if "C" in first else None
    scalars = _scalars(product) if product is not None else (True, True)
    if product is not None and scalars is None:
        report("G111", f"C must be `{_PRODUCT}`", product.span)
    if len(operands) < len(_SHAPES):
        return None
    return Problem(decl.name.text, operands["A"], operands["B"], operands["C"], *(scalars or (True, True)))


def _operand_name(text: str) -> OperandName | None:
    return next((name for name in _SHAPES if name == text), None)


def _declared(operand: syntax.OperandDecl, name: OperandName, report: Report) -> bool:
    """Reports what is wrong with an operand, and tells whether its layout is known all the same."""
    if operand.dtype.text != "f32":
        text = f"there is no element type `{operand.dtype.text}`: f32 is the only one"
        report("G110", text, operand.dtype.span)
    rows, cols = _SHAPES[name]
    for axis, expected in ((operand.rows, rows), (operand.cols, cols)):
        if axis.text != expected:
            text = f"{name} is [{rows}, {cols}], so that `{expected}` stands here, not `{axis.text}`"
            if axis.text not in get_args(Axis):
                text = f"there is no axis `{axis.text}`: {name} is [{rows}, {cols}]"
            report("G119", text, axis.span)
    if name != "C" and operand.product is not None:
        report("G111", f"{name} is an input: only C has a product", operand.product.span)
    if name == "C" and operand.product is None:
        report("G111", f"C needs its product: `= {_PRODUCT}`", operand.span)
    return (operand.rows.text, operand.cols.text) != (cols, rows)


def _scalars(product: syntax.Sum) -> tuple[bool, bool] | None:
    """Whether alpha and beta occur, or None for any other expression."""
    terms = [" ".join(_interleaved(term)) for term in product.terms]
    alpha = {"alpha * A @ B": True, "A @ B": False}.get(terms[0])
    if alpha is None or terms[1:] not in ([], ["beta * C"]):
        return None
    return alpha, len(terms) == 2


def _interleaved(term: syntax.Term) -> list[str]:
    words = [term.factors[0].text]
    for operator, factor in zip(term.operators, term.factors[1:], strict=True):
        words += [operator, factor.text]
    return words
