"""The index algebra: simplified, printed and evaluated expressions all mean the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmdsl.index import (
    OPERATORS,
    UNBOUNDED,
    Bound,
    Expr,
    Int,
    Named,
    Op,
    OpKind,
    Var,
    both,
    choose,
    constant,
    either,
    equal,
    evaluate,
    least,
    less,
    unequal,
    wrap,
)
from gemmdsl.index_parts import bindings, constants, free, split
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
    kind = draw(st.sampled_from(["+", "-", "*", "/", "%", "^", "<", "==", "!=", "&&", "||", "min", "?"]))
    if kind in ("/", "%"):
        value = draw(st.integers(1, 48))
        divisor = Named(f"D{value}", Int(value))
        return (left // divisor if kind == "/" else left % divisor), f"({left_text} {kind} {value})"
    right, right_text = draw(_expressions(depth - 1))
    compare = {"<": less, "==": equal, "!=": unequal, "&&": both, "||": either}
    if kind in compare:
        return compare[kind](left, right), f"({left_text} {kind} {right_text})"
    if kind == "min":
        return least(left, right), f"min({left_text}, {right_text})"
    if kind == "?":
        condition, text = less(left, Int(3)), f"({left_text} < 3)"
        return choose(condition, right, left), f"({text} ? {right_text} : {left_text})"
    if kind == "-":
        # The sum cannot be negative, its last term can.
        return left + right.hi + (Int(0) - right), f"({left_text} + {right.hi} + (0 - {right_text}))"
    result = {"+": left + right, "*": left * right, "^": left ^ right}[kind]
    return result, f"({left_text} {kind} {right_text})"


# C's own order of binding, loosest first; `?:` is looser than all of them.
C_RANKS = (("||",), ("&&",), ("^",), ("==", "!="), ("<",), ("+", "-"), ("*", "/", "%"))
TOKEN = re.compile(r"\w+|\|\||&&|[=!]=|\S")


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
            # C divides towards 0, and exchanges bits of what it takes for negative.
            assert kind not in ("/", "%", "^") or (value >= 0 and right >= 0), text
            value = OPERATORS[cast(OpKind, kind)].apply(value, right)
        return value

    def leaf() -> int:
        token = take()
        if token == "min":
            take("(")
            left = choice()
            take(",")
            right = choice()
            take(")")
            return min(left, right)
        if token == "(":
            value = choice()
            take(")")
            return value
        if token == "-":
            return -leaf()
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
THREE = Named("THREE", Int(3))


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: (THREAD + COPY * THREADS) // PER_ROW, "thread / PER_ROW + copy * (THREADS / PER_ROW)"),
        (lambda: (THREAD + COPY * THREADS) % PER_ROW, "thread % PER_ROW"),
        (lambda: THREAD // Int(1), "thread"),
        (lambda: THREAD % THREADS, "thread"),
        (lambda: THREAD // THREADS, "0"),
        (lambda: THREAD * PER_ROW // PER_ROW, "thread"),
        (lambda: THREAD // Int(3) % Int(4), "(thread / 3) % 4"),
        (lambda: (THREAD + 1) * (COPY + 2), "(thread + 1) * (copy + 2)"),
        (lambda: THREAD + (COPY + 1), "thread + copy + 1"),
        (lambda: THREAD - (COPY + 1), "thread - (copy + 1)"),
        (lambda: (THREAD % Int(32)) ^ (COPY * 4), "(thread % 32) ^ (copy * 4)"),
        (lambda: (THREAD ^ Int(1)) + 1, "(thread ^ 1) + 1"),
        (lambda: Bound("lane", THREAD % Int(32)) * 4, "lane * 4"),
        (lambda: less(COPY + 1, THREAD), "copy + 1 < thread"),
        (lambda: THREAD + less(COPY, THREAD), "thread + (copy < thread)"),
        (lambda: less(less(COPY, THREAD), Int(1)), "(copy < thread) < 1"),
        (lambda: less(THREAD ^ COPY, Int(1)), "(thread ^ copy) < 1"),
        (lambda: either(less(COPY, THREAD), equal(THREAD, COPY)), "copy < thread || thread == copy"),
        (lambda: either(COPY, both(less(COPY, THREAD), THREAD)), "copy || (copy < thread && thread)"),
        (lambda: both(either(COPY, THREAD), THREAD ^ COPY), "(copy || thread) && thread ^ copy"),
        (lambda: choose(less(COPY, THREAD), COPY - 1, Int(0)), "copy < thread ? copy - 1 : 0"),
        (
            lambda: choose(less(COPY, Int(2)), choose(less(COPY, Int(1)), Int(5), Int(6)), Int(0)),
            "copy < 2 ? (copy < 1 ? 5 : 6) : 0",
        ),
        (lambda: choose(less(COPY, Int(2)), Int(1), Int(0)) + 1, "(copy < 2 ? 1 : 0) + 1"),
        (lambda: wrap(COPY + 1, Named("SLOTS", Int(4))), "wrap(copy + 1, SLOTS)"),
        (lambda: wrap(COPY, Named("SLOTS", Int(4))), "copy"),
        (lambda: wrap(COPY + 3, Named("SLOTS", Int(4))), "wrap(copy + 3, SLOTS)"),
        (lambda: least(THREAD, COPY + 1) * 2, "min(thread, copy + 1) * 2"),
        (lambda: least(THREAD, Int(255)), "thread"),
        (lambda: least(Int(300), THREAD), "thread"),
        (lambda: 3 + COPY, "3 + copy"),
        (lambda: 3 * COPY, "3 * copy"),
        (lambda: Int(0) ^ COPY, "copy"),
        (lambda: COPY ^ Int(0), "copy"),
        (lambda: COPY + 0, "copy"),
        (lambda: 0 + COPY, "copy"),
        (lambda: COPY - 0, "copy"),
        (lambda: COPY * 1, "copy"),
        (lambda: 1 * COPY, "copy"),
        (lambda: COPY * 0, "0"),
        (lambda: 0 * COPY, "0"),
        (lambda: Int(6) * Int(7), "42"),
        (lambda: Int(7) // Int(2), "3"),
        (lambda: Int(7) % Int(4), "3"),
        (lambda: THREADS * PER_ROW, "THREADS * PER_ROW"),
        (lambda: (COPY + 4) // Int(4), "1"),
        (lambda: (THREAD + 8) // Int(4), "thread / 4 + 2"),
        (lambda: (THREAD + 8) % Int(4), "thread % 4"),
        (lambda: (THREAD + COPY + 5) // Int(4), "(thread + copy + 5) / 4"),
        (lambda: (THREAD * 6 + COPY) // Int(4), "(thread * 6 + copy) / 4"),
        (lambda: (THREAD * 8 + COPY) // Int(8), "thread"),
        (lambda: (THREAD * 8 + COPY * 3) // Int(9), "(thread * 8 + copy * 3) / 9"),
        (lambda: (THREAD * 8) % Int(4), "0"),
        (lambda: (8 + THREAD) // Int(4), "thread / 4 + 2"),
        (lambda: (THREAD * 8 + 8 + (COPY - 1)) // Int(8), "(thread * 8 + 8 + copy - 1) / 8"),
        (lambda: (THREAD * 8 + 8 + (COPY - 1)) % Int(8), "(thread * 8 + 8 + copy - 1) % 8"),
        (lambda: (THREAD * 8 + THREE) // Int(8), "thread"),
        (lambda: (THREAD + 2 + Int(-2)) // Int(2), "thread / 2 + 1 + -1"),
        (lambda: (THREAD * 8 + 16 + COPY + Int(-8)) // Int(8), "thread + 2 + -1"),
        (lambda: (THREAD * 8 + THREE) % Int(8), "THREE"),
        (lambda: (THREAD * 8 + Var("few", 9)) // Int(8), "few / 8 + thread"),
        (lambda: (THREAD * 8 + Var("few", 9)) % Int(8), "few % 8"),
        (lambda: THREAD // Var("count"), "thread / count"),
        (lambda: THREAD % Var("count"), "thread % count"),
        (lambda: either(Int(0), less(COPY, THREAD)), "copy < thread"),
        (lambda: either(less(COPY, THREAD), Int(0)), "copy < thread"),
        (lambda: either(Int(0), COPY), "0 || copy"),
        (lambda: either(Int(1), COPY), "1"),
        (lambda: either(COPY, Int(2)), "1"),
        (lambda: both(Int(1), less(COPY, THREAD)), "copy < thread"),
        (lambda: both(less(COPY, THREAD), Int(1)), "copy < thread"),
        (lambda: both(Int(0), COPY), "0"),
        (lambda: both(COPY, Int(0)), "0"),
        (lambda: both(Int(1), COPY), "1 && copy"),
        (lambda: both(COPY, THREAD), "copy && thread"),
        (lambda: either(Int(0), Named("ONE", Int(1))), "ONE"),
        (lambda: either(Int(0), Var("few", 3)), "0 || few"),
        (lambda: wrap(Int(5), Named("SLOTS", Int(4))), "wrap(5, SLOTS)"),
        (lambda: unequal(COPY, THREAD), "copy != thread"),
    ],
)
def test_text(build: Callable[[], Expr], text: str) -> None:
    assert to_c(build()) == text


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


@pytest.mark.parametrize(
    ("build", "lo", "hi"),
    [
        (lambda: THREAD + COPY, 0, 258),
        (lambda: THREAD + 5, 5, 260),
        (lambda: COPY - THREAD, -255, 3),
        (lambda: COPY - 1, -1, 2),
        (lambda: (THREAD + 1) * (COPY + 2), 2, 256 * 5),
        (lambda: (THREAD + 7) // Int(5), 1, 52),
        (lambda: THREAD // Var("count"), 0, 255),
        (lambda: THREAD % Var("count", 9), 0, 8),
        (lambda: THREAD % Int(5), 0, 4),
        (lambda: THREAD ^ COPY, 0, 255),
        (lambda: least(THREAD + 2, COPY - 1), -1, 2),
        (lambda: COPY ^ Int(9), 0, 15),
        (lambda: Var("big", 257) ^ COPY, 0, 511),
        (lambda: less(COPY, THREAD), 0, 1),
        (lambda: equal(COPY, THREAD), 0, 1),
        (lambda: unequal(COPY, THREAD), 0, 1),
        (lambda: either(COPY, THREAD), 0, 1),
        (lambda: both(COPY, THREAD), 0, 1),
        (lambda: wrap(COPY + 1, Int(4)), 0, 3),
        (lambda: choose(less(COPY, Int(2)), COPY + 5, THREAD), 0, 255),
        (lambda: THREADS * PER_ROW, 512, 512),
        (lambda: THREADS // THREE, 85, 85),
        (lambda: THREADS % THREE, 1, 1),
        (lambda: Bound("x", COPY + 1), 1, 4),
        (lambda: Var("n") + 1, 1, UNBOUNDED),
        (lambda: Var("n") * Var("m"), 0, UNBOUNDED),
        (lambda: Int(0) - Var("n") * Var("m") - Var("n"), -UNBOUNDED, 0),
    ],
)
def test_ranges(build: Callable[[], Expr], lo: int, hi: int) -> None:
    """Ranges are as narrow as each operation allows; nothing is known beyond UNBOUNDED."""
    expr = build()
    assert (expr.lo, expr.hi) == (lo, hi)


@pytest.mark.parametrize(
    "build",
    [
        lambda: (COPY - 1) // Int(2),
        lambda: (COPY - 1) % Int(2),
        lambda: (COPY - 1) ^ Int(1),
        lambda: Int(1) ^ (COPY - 1),
    ],
)
def test_what_may_be_negative_is_neither_divided_nor_exchanged(build: Callable[[], Expr]) -> None:
    with pytest.raises(ValueError, match="may be negative, where C and Python divide differently"):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda: COPY // Int(0),
        lambda: COPY % Int(0),
        lambda: COPY // Int(-1),
        lambda: COPY % Int(-1),
        lambda: wrap(COPY, THREAD),
        lambda: wrap(COPY + 5, Int(4)),
        lambda: wrap(COPY - 1, Int(4)),
        lambda: choose(COPY, COPY, THREAD),
        lambda: choose(Var("few", 3), COPY, THREAD),
        lambda: choose(less(COPY, Int(2)) - 1, COPY, THREAD),
    ],
)
def test_what_no_expression_may_be_made_of(build: Callable[[], Expr]) -> None:
    with pytest.raises(AssertionError):
        build()


def test_values_of_every_kind_of_expression() -> None:
    values = {"thread": 5, "copy": 2}
    for expr, expected in (
        (wrap(COPY + 2, Int(4)), 0),
        (unequal(COPY, THREAD), 1),
        (equal(COPY, THREAD), 0),
        (either(COPY, THREAD), 1),
        (both(COPY, THREAD), 1),
        (both(COPY, THREAD - 5), 0),
        (choose(less(COPY, Int(2)), Int(7), THREAD), 5),
        (choose(less(COPY, Int(3)), Int(7), THREAD), 7),
        (choose(less(COPY, Int(3)), THREAD, Int(7)), 5),
        (Bound("x", THREAD - COPY), 3),
    ):
        assert evaluate(expr, values) == expected
    with pytest.raises(KeyError):
        evaluate(THREAD, {"copy": 2})


def test_a_value_known_through_names_is_a_constant() -> None:
    assert constant(Bound("x", THREADS + PER_ROW)) == 258
    assert constant(THREAD + 1) is None
    assert constant(1 + THREAD) is None
    assert constant(choose(less(COPY, Int(2)), Int(1), Int(2))) is None


def test_splitting_keeps_the_order_of_summands() -> None:
    without, using = split(THREAD + COPY * 2 + 3 + COPY, frozenset({"copy"}))
    assert (to_c(without), to_c(using)) == ("thread + 3", "copy * 2 + copy")


def test_functions_that_a_text_calls() -> None:
    slots = Named("SLOTS", Int(4))
    assert list(calls(choose(less(THREAD, Int(9)), wrap(COPY + 1, slots) + 2, THREAD))) == ["wrap"]
    assert list(calls(Bound("slot", wrap(COPY + 1, slots)) + 1)) == []
