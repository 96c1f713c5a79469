"""Formulas over run-time extents and loop counters, against counting one by one."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from gemmdsl.cuda_source import Parameter, Workspace
from gemmdsl.extents import (
    FULL,
    exists,
    k_left,
    neighbours_left,
    rows_left,
    split_map,
    tiles,
    whole_exists,
    workspace_map,
)
from gemmdsl.index import Bound, Expr, Int, Named, Var, evaluate
from gemmdsl.ir import Counter, FmaOrder
from gemmdsl.spec import Axis, Operand, Order
from tests import examples

WIDTH = Named("WIDTH", Int(4))
SIZES = range(-3, 7)


def number(expr: Expr, **env: int) -> int:
    value = evaluate(expr, env)
    assert isinstance(value, int)
    return value


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("assumed", [(), ("M",), ("K",), ("M", "K")])
def test_neighbours_that_exist_are_counted(order: Order, assumed: tuple[Axis, ...]) -> None:
    """Of WIDTH neighbours from (m, k) on, as many as a matrix of m_left x k_left has."""
    operand = Operand("A", "M", "K", order)
    guard = neighbours_left(operand, WIDTH, frozenset(assumed), FULL)
    for m, k, m_left, k_left_here in product(range(3), range(6), SIZES, SIZES):
        places = [(m, k + e) if order is Order.ROW else (m + e, k) for e in range(WIDTH.value)]
        expected = sum(
            ("M" in assumed or row < m_left) and ("K" in assumed or col < k_left_here) for row, col in places
        )
        env = {"m": m, "k": k, "m_left": m_left, "k_left": k_left_here}
        found = number(guard, **env, FULL=0)
        assert max(0, min(found, WIDTH.value)) == expected
        assert number(guard, **env, FULL=1) == WIDTH.value


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("assumed", [(), ("M",), ("K",), ("M", "K")])
def test_whole_vectors_exist_as_their_elements_do(order: Order, assumed: tuple[Axis, ...]) -> None:
    """Where extents and places are of whole vectors, all neighbours exist or none."""
    operand = Operand("A", "M", "K", order)
    guard = whole_exists(operand, frozenset(assumed), FULL)
    count = neighbours_left(operand, WIDTH, frozenset(assumed), FULL)
    for m, k, m_left, k_left_here in product(
        range(0, 9, 4), range(0, 9, 4), range(-4, 9, 4), range(-4, 9, 4)
    ):
        env = {"m": m, "k": k, "m_left": m_left, "k_left": k_left_here}
        exists_there = number(guard, **env, FULL=0)
        assert max(0, min(number(count, **env, FULL=0), WIDTH.value)) == exists_there * WIDTH.value
        assert number(guard, **env, FULL=1) == 1


def test_an_element_exists_within_the_matrix() -> None:
    for m, m_left in product(range(5), SIZES):
        assert number(exists("M", FULL), m=m, m_left=m_left, FULL=0) == (m < m_left)
        assert number(exists("M", Int(0)), m=m, m_left=m_left) == (m < m_left)
        assert number(exists("M", FULL), m=m, m_left=m_left, FULL=1) == 1


def test_tiles_cover_an_extent() -> None:
    for extent, block in product(range(40), range(1, 12)):
        count = number(tiles(Var("M"), Named("BLOCK_M", Int(block))), M=extent)
        assert (count - 1) * block < extent <= count * block or extent == count == 0


def test_what_is_left_from_an_origin_on() -> None:
    m_left, n_left = rows_left()
    assert number(m_left, M=10, block_row=8) == 2
    assert number(n_left, N=3, block_col=8) == -5
    assert number(k_left(Var("tile"), Named("BLOCK_K", Int(8))), depth=20, tile=2) == 4


@pytest.mark.parametrize("parts", [1, 2, 3, 8, 128])
@pytest.mark.parametrize("block", [1, 4, 8])
def test_parts_of_k_are_consecutive_tiles_of_it(parts: int, block: int) -> None:
    block_k = Named("BLOCK_K", Int(block))
    split = split_map(parts, block_k)
    for extent in (*range(3 * block * min(parts, 8) + 2), 2**31 - 1):
        all_tiles = number(tiles(Var("whole"), block_k), whole=extent)
        reached, longest = 0, []
        for part in range(parts):
            env = {"whole": extent, "all_tiles": all_tiles, "split": part}
            first = number(split.first, **env)
            depth = number(split.depth, **env, k_first=first)
            assert depth == 0 or (first == reached and first % block == 0)
            reached += depth
            longest.append(-(-depth // block))
        assert reached == extent
        assert max(longest) - min(longest) <= 1
        assert longest == sorted(longest, reverse=True)


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("vector", [1, 2, 4])
def test_parts_are_kept_like_an_array_of_them(order: Order, vector: int) -> None:
    """As numpy counts the words of [part][line][at], with lines as long as whole vectors are."""
    workspace = workspace_map(
        Named("PARTS", Int(3)), Operand("C", "M", "N", order), Named("C_VECTOR", Int(vector))
    )
    place = workspace.place(Var("part"), Var("m"), Var("n"))
    memory = Workspace(Parameter("parts", "float*"), workspace.size)
    for rows, cols in product((1, 2, 5, 8), range(1, 10)):
        lines, length = (rows, cols) if order is Order.ROW else (cols, rows)
        shape = (3, lines, -(-length // vector) * vector)
        words = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        assert memory.size(rows, cols) == words.nbytes
        kept = words[:, :, :length] if order is Order.ROW else words[:, :, :length].transpose(0, 2, 1)
        at = dict(zip(("part", "m", "n"), np.indices((3, rows, cols)), strict=True))
        np.testing.assert_array_equal(evaluate(place, {"M": rows, "N": cols, **at}), kept)
    huge = 2**31 - 1
    assert memory.size(huge, huge) == 4 * 3 * huge * (-(-huge // vector) * vector)


@pytest.mark.parametrize("along", ["M", "N"])
@pytest.mark.parametrize("snake", [False, True])
def test_each_output_has_one_fma(along: str, snake: bool) -> None:
    """And with `snake`, neighbouring FMAs share an operand at every turn."""
    order = FmaOrder("M" if along == "M" else "N", snake)
    outer, count = Var("i", 5), Named("THREAD_N", Int(3))
    index = order.index(outer, Var("step", 3), count)
    walked = [(i, number(index, i=i, step=step)) for i in range(5) for step in range(3)]
    assert sorted(walked) == list(product(range(5), range(3)))
    turns = [walked[at + 2][1] == walked[at + 3][1] for at in range(0, 12, 3)]
    assert all(turns) if snake else not any(turns)


def test_a_counter_starts_over() -> None:
    counter = Counter(Bound("slot", Var("tile") % Named("BUFFERS", Int(3))), Int(0), Named("BUFFERS", Int(3)))
    values = [number(counter.following, tile=tile) for tile in range(7)]
    assert values == [1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize(("file", "schedule"), examples.schedules())
def test_helpers_are_printed_where_they_are_used(file: str, schedule: str) -> None:
    text = examples.kernel(file, schedule).source
    helpers = ("offset", "wrap", "move", "load_global", "store_global", "add_global", "copy_global_async")
    for name in helpers:
        found = len(re.findall(rf"\b{name}[<(]", text))
        assert found == 0 or (found > 1 and re.search(rf"__forceinline__ \w+ {name}\(", text)), name
