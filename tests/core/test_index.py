"""The index algebra: simplified, printed and evaluated expressions all mean the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmdsl.index import (
    Bound,
    Expr,
    Int,
    Named,
    Op,
    Var,
    bindings,
    constant,
    constants,
    evaluate,
    free,
    less,
    split,
    to_c,
)

VARIABLES = {"thread": 192, "i": 6, "j": 4}


@st.composite
def _expressions(draw: st.DrawFn, depth: int = 4) -> tuple[Expr, str]:
    """A simplified expression, and the text of the same one with nothing simplified."""
    if depth == 0 or draw(st.booleans()):
        leaf = draw(st.sampled_from(["int", "named", "var"]))
        if leaf == "var":
            name = draw(st.sampled_from(sorted(VARIABLES)))
            return Var(name, VARIABLES[name]), name
        value = draw(st.integers(1, 32))
        return (Int(value) if leaf == "int" else Named(f"C{value}", Int(value))), str(value)
    left, left_text = draw(_expressions(depth - 1))
    kind = draw(st.sampled_from(["+", "*", "/", "%", "^", "<"]))
    if kind in ("/", "%"):
        value = draw(st.integers(1, 48))
        divisor = Named(f"D{value}", Int(value))
        return (left // divisor if kind == "/" else left % divisor), f"({left_text} {kind} {value})"
    right, right_text = draw(_expressions(depth - 1))
    if kind == "<":
        return less(left, right), f"({left_text} < {right_text})"
    result = {"+": left + right, "*": left * right, "^": left ^ right}[kind]
    return result, f"({left_text} {kind} {right_text})"


def _python(text: str, values: Mapping[str, int]) -> int:
    names = {f"{letter}{n}": n for letter in "CD" for n in range(1, 49)}
    return int(eval(text.replace("/", "//"), {"__builtins__": {}}, {**names, **values}))


@given(_expressions(), st.fixed_dictionaries({n: st.integers(0, e - 1) for n, e in VARIABLES.items()}))
def test_simplification_printing_and_evaluation_agree(pair: tuple[Expr, str], values: dict[str, int]) -> None:
    expr, plain = pair
    expected = _python(plain, values)
    assert evaluate(expr, values) == expected
    assert _python(to_c(expr), values) == expected
    assert expr.lo <= expected <= expr.hi
    assert (constant(expr) is None) or constant(expr) == expected
    assert free(expr) <= set(VARIABLES)


@given(_expressions())
def test_arrays_evaluate_like_numbers(pair: tuple[Expr, str]) -> None:
    expr, _ = pair
    env = {"thread": np.arange(0, 192, 37)[:, None], "i": np.arange(6)[None, :], "j": np.int64(3)}
    values = np.broadcast_to(evaluate(expr, env), (6, 6))
    for row, thread in enumerate(range(0, 192, 37)):
        for column in range(6):
            assert values[row, column] == evaluate(expr, {"thread": thread, "i": column, "j": 3})


@given(_expressions())
def test_split_separates_variables_and_loses_nothing(pair: tuple[Expr, str]) -> None:
    expr, _ = pair
    without, using = split(expr, frozenset({"i"}))
    assert "i" not in free(without)
    values = {"thread": 101, "i": 5, "j": 2}
    total = evaluate(without, values) + evaluate(using, values)
    assert total == evaluate(expr, values)


THREAD, COPY = Var("thread", 256), Var("copy", 4)
THREADS, PER_ROW = Named("THREADS", Int(256)), Named("PER_ROW", Int(2))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        ((THREAD + COPY * THREADS) // PER_ROW, "thread / PER_ROW + copy * (THREADS / PER_ROW)"),
        ((THREAD + COPY * THREADS) % PER_ROW, "thread % PER_ROW"),
        (THREAD // Int(1), "thread"),
        (THREAD % THREADS, "thread"),
        (THREAD // THREADS, "0"),
        (THREAD * PER_ROW // PER_ROW, "thread"),
        (THREAD // Int(3) % Int(4), "(thread / 3) % 4"),
        ((THREAD + 1) * (COPY + 2), "(thread + 1) * (copy + 2)"),
        (THREAD + (COPY + 1), "thread + copy + 1"),
        (THREAD - (COPY + 1), "thread - (copy + 1)"),
        ((THREAD % Int(32)) ^ (COPY * 4), "(thread % 32) ^ (copy * 4)"),
        ((THREAD ^ Int(1)) + 1, "(thread ^ 1) + 1"),
        (Bound("lane", THREAD % Int(32)) * 4, "lane * 4"),
    ],
)
def test_text(expr: Expr, text: str) -> None:
    assert to_c(expr) == text


def test_constants_come_after_those_they_are_defined_by() -> None:
    doubled = Named("DOUBLED", THREADS * 2)
    names = [named.name for named in constants(THREAD + doubled)]
    assert names == ["THREADS", "DOUBLED"]
    assert doubled.value == 512


def test_bindings_are_found_inside_bindings() -> None:
    warp = Bound("warp", THREAD // Int(32))
    row = Bound("row", warp * 16)
    assert [bound.name for bound in bindings(row + 1)] == ["warp", "row"]
    assert free(row) == {"thread"}


def test_a_constant_needs_a_constant_definition() -> None:
    with pytest.raises(AssertionError):
        Named("NOT", THREAD)


def test_operations_keep_their_operands() -> None:
    expr = THREAD + 1
    assert isinstance(expr, Op)
    assert (expr.lo, expr.hi) == (1, 256)
