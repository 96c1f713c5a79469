"""The index algebra: simplified, printed and evaluated expressions all mean the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmdsl.index import (
    OPERATORS,
    Bound,
    Expr,
    Int,
    Named,
    Op,
    OpKind,
    Var,
    bindings,
    choose,
    constant,
    constants,
    either,
    equal,
    evaluate,
    free,
    less,
    split,
    unequal,
    wrap,
)
from gemmdsl.index_text import calls, to_c

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
    kind = draw(st.sampled_from(["+", "*", "/", "%", "^", "<", "==", "!=", "||", "?"]))
    if kind in ("/", "%"):
        value = draw(st.integers(1, 48))
        divisor = Named(f"D{value}", Int(value))
        return (left // divisor if kind == "/" else left % divisor), f"({left_text} {kind} {value})"
    right, right_text = draw(_expressions(depth - 1))
    compare = {"<": less, "==": equal, "!=": unequal, "||": either}
    if kind in compare:
        return compare[kind](left, right), f"({left_text} {kind} {right_text})"
    if kind == "?":
        condition, text = less(left, Int(3)), f"({left_text} < 3)"
        return choose(condition, right, left), f"({text} ? {right_text} : {left_text})"
    result = {"+": left + right, "*": left * right, "^": left ^ right}[kind]
    return result, f"({left_text} {kind} {right_text})"


# C's own order of binding, loosest first; `?:` is looser than all of them.
C_RANKS = (("||",), ("^",), ("==", "!="), ("<",), ("+", "-"), ("*", "/", "%"))
TOKEN = re.compile(r"\w+|\|\||[=!]=|\S")


def _in_c(text: str, values: Mapping[str, int]) -> int:
    """The value of C text, read by C's rules; the names C5 and D5 stand for 5."""
    tokens = [*TOKEN.findall(text), ""]

    def take(expected: str = "") -> str:
        token = tokens.pop(0)
        assert expected in ("", token), text
        return token

    def choice() -> int:
        condition = binary(0)
        if tokens[0] != "?":
            return condition
        take("?")
        then = choice()
        take(":")
        otherwise = choice()
        return then if condition else otherwise

    def binary(rank: int) -> int:
        if rank == len(C_RANKS):
            return leaf()
        value = binary(rank + 1)
        while tokens[0] in C_RANKS[rank]:
            kind, right = take(), binary(rank + 1)
            value = OPERATORS[cast(OpKind, kind)].apply(value, right)
        return value

    def leaf() -> int:
        token = take()
        if token == "(":
            value = choice()
            take(")")
            return value
        return values[token] if token in values else int(token.lstrip("CD"))

    value = choice()
    take("")
    assert tokens == []
    return value


@given(_expressions(), st.fixed_dictionaries({n: st.integers(0, e - 1) for n, e in VARIABLES.items()}))
def test_simplification_printing_and_evaluation_agree(pair: tuple[Expr, str], values: dict[str, int]) -> None:
    expr, plain = pair
    expected = _in_c(plain, values)
    assert evaluate(expr, values) == expected
    assert _in_c(to_c(expr), values) == expected
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
        (less(COPY + 1, THREAD), "copy + 1 < thread"),
        (THREAD + less(COPY, THREAD), "thread + (copy < thread)"),
        (less(less(COPY, THREAD), Int(1)), "(copy < thread) < 1"),
        (less(THREAD ^ COPY, Int(1)), "(thread ^ copy) < 1"),
        (either(less(COPY, THREAD), equal(THREAD, COPY)), "copy < thread || thread == copy"),
        (choose(less(COPY, THREAD), COPY - 1, Int(0)), "copy < thread ? copy - 1 : 0"),
        (
            choose(less(COPY, Int(2)), choose(less(COPY, Int(1)), Int(5), Int(6)), Int(0)),
            "copy < 2 ? (copy < 1 ? 5 : 6) : 0",
        ),
        (choose(less(COPY, Int(2)), Int(1), Int(0)) + 1, "(copy < 2 ? 1 : 0) + 1"),
        (wrap(COPY + 1, Named("SLOTS", Int(4))), "wrap(copy + 1, SLOTS)"),
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


def test_a_choice_that_is_known_is_none() -> None:
    assert choose(Int(1), THREAD, COPY) == THREAD
    assert choose(less(Int(1), Int(0)), THREAD, COPY) == COPY
    assert choose(less(COPY, THREAD), COPY, COPY) == COPY


def test_functions_that_a_text_calls() -> None:
    slots = Named("SLOTS", Int(4))
    assert list(calls(choose(less(THREAD, Int(9)), wrap(COPY + 1, slots) + 2, THREAD))) == ["wrap"]
    assert list(calls(Bound("slot", wrap(COPY + 1, slots)) + 1)) == []
