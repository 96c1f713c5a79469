"""Who has to know of a new statement, or of a new field of the kernel: each list is complete, or fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, get_args

import pytest

from gemmdsl.emit.environment import environment
from gemmdsl.emit.launch import launch_plan
from gemmdsl.emit.printing import Printer
from gemmdsl.emit.statements import statement_view
from gemmdsl.emit.view import kernel_view
from gemmdsl.extents import split_map, workspace_map
from gemmdsl.index import Bound, Expr, Int, Named, Var
from gemmdsl.ir import (
    K_TILES,
    TILE,
    AddOutput,
    AsyncCopyTile,
    Barrier,
    CommitGroup,
    CopyTile,
    Counter,
    Equal,
    FmaOrder,
    For,
    If,
    Kernel,
    Less,
    LoadTile,
    MultiplyFragments,
    MultiplyGlobal,
    MultiplyTile,
    ReadFragment,
    ReduceParts,
    ScaleOutput,
    Stmt,
    StoreOutput,
    StorePart,
    StoreTile,
    Test,
    WaitGroups,
    expressions,
    walk,
)
from gemmdsl.layout import BLOCKS_N
from gemmdsl.printer import condition, headline, print_kernel
from gemmdsl.verifier.failure import Refuted
from gemmdsl.verifier.program import run
from gemmdsl.verifier.steady import prove_steady
from tests.verifier.kernels import SPECS, kernel

SLOTS = Named("BUFFERS", Int(2))
SLOT = Bound("slot", TILE % SLOTS)
K = Var("k", 8)

# One of each statement, with the number of its own expressions.
SAMPLES: dict[type[Stmt], tuple[Stmt, int]] = {
    CopyTile: (CopyTile("A", TILE, SLOT), 2),
    LoadTile: (LoadTile("B", TILE), 1),
    StoreTile: (StoreTile("B", SLOT), 1),
    AsyncCopyTile: (AsyncCopyTile("A", TILE, SLOT), 2),
    CommitGroup: (CommitGroup(), 0),
    WaitGroups: (WaitGroups(Int(1)), 1),
    Barrier: (Barrier("why"), 0),
    MultiplyTile: (MultiplyTile(SLOT), 1),
    ReadFragment: (ReadFragment("A", SLOT, K, K % 2), 3),
    MultiplyFragments: (MultiplyFragments(K % 2), 1),
    MultiplyGlobal: (MultiplyGlobal(), 0),
    StoreOutput: (StoreOutput(), 0),
    AddOutput: (AddOutput(), 0),
    StorePart: (StorePart(), 0),
    For: (For(TILE, Int(0), K_TILES, (Barrier("in"),), counters=(Counter(SLOT, Int(0), SLOTS),)), 5),
    If: (If(Less(TILE, K_TILES), (Barrier("in"),)), 2),
}
TESTS: dict[type[Test], str] = {Less: "tile < k_tiles", Equal: "tile == k_tiles"}


def test_every_statement_has_a_sample() -> None:
    assert set(SAMPLES) == set(get_args(Stmt))
    assert set(TESTS) == set(get_args(Test))


def test_every_statement_is_in_a_kernel_that_is_proved() -> None:
    """So that simulation, steadiness, uniformity and hazards have met it."""
    met = {type(statement) for name in SPECS for statement in walk(kernel(name).body)}
    assert met == set(SAMPLES)


@pytest.mark.parametrize("kind", SAMPLES)
def test_it_is_printed_on_a_line_of_its_own(kind: type[Stmt]) -> None:
    shown = headline(SAMPLES[kind][0])
    assert shown
    assert "\n" not in shown
    assert sum(shown == headline(other) for other, _ in SAMPLES.values()) == 1


@pytest.mark.parametrize("kind", SAMPLES)
def test_its_expressions_and_those_inside_are_known(kind: type[Stmt]) -> None:
    statement, count = SAMPLES[kind]
    assert len(expressions(statement)) == count
    inner = statement.body if isinstance(statement, (For, If)) else ()
    assert list(walk((statement,))) == [statement, *inner]


@pytest.mark.parametrize("kind", SAMPLES)
def test_it_has_a_macro(kind: type[Stmt]) -> None:
    having = (kernel(name) for name in SPECS)
    given = next(each for each in having if any(isinstance(s, kind) for s in walk(each.body)))
    statement = next(s for s in walk(given.body) if isinstance(s, kind))
    view = kernel_view(given, launch_plan(given), ())
    module: Any = environment().get_template("program.j2").module
    text = str(module.statements(view, (statement_view(statement, given.block_k, Printer()),)))
    assert text.strip()
    assert "{{" not in text


def in_k_loop(body: tuple[Stmt, ...], statement: Stmt) -> tuple[Stmt, ...]:
    """A program with a statement more at the end of its loop over K tiles."""
    return tuple(replace(s, body=(*s.body, statement)) if isinstance(s, For) else s for s in body)


@pytest.mark.parametrize("kind", [kind for kind in SAMPLES if kind is not For])
def test_every_statement_repeats_with_the_tile(kind: type[Stmt]) -> None:
    """All samples do; none does that counts by the square of the tile."""
    proved, (statement, count) = kernel("ping_pong"), SAMPLES[kind]
    runs = run(proved.body, (2, 2), 8, 0)
    prove_steady(in_k_loop(proved.body, statement), runs, 2)
    for number, field in enumerate(
        f for f in fields(statement) if isinstance(getattr(statement, f.name), Expr)
    ):
        assert number < count
        faulty = replace(statement, **{field.name: TILE * TILE})
        with pytest.raises(Refuted):
            prove_steady(in_k_loop(proved.body, faulty), runs, 2)


@pytest.mark.parametrize("kind", TESTS)
def test_conditions_are_printed(kind: type[Test]) -> None:
    assert condition(kind(TILE, K_TILES)) == TESTS[kind]


def other(named: Named) -> Named:
    return Named(named.name, Int(named.value + 1))


# A change of each field of a kernel.
CHANGES: dict[str, Callable[[Kernel], Any]] = {
    "spec": lambda k: replace(k.spec, schedule=replace(k.spec.schedule, name="another")),
    "block_m": lambda k: other(k.block_m),
    "block_n": lambda k: other(k.block_n),
    "block_k": lambda k: other(k.block_k),
    "grid": lambda k: replace(k.grid, row=k.grid.row + BLOCKS_N),
    "threads": lambda k: replace(k.threads, rows=replace(k.threads.rows, first=k.threads.cols.first)),
    "staging": lambda k: (k.staging[1], k.staging[0]),
    "c_vector": lambda k: other(k.c_vector),
    "body": lambda k: k.body[1:],
    "paths": lambda k: k.paths[1:],
    "min_blocks": lambda k: k.min_blocks + 1,
    "fragments": lambda k: other(k.fragments),
    "read_first": lambda k: "A" if k.read_first == "B" else "B",
    "unroll": lambda k: other(k.unroll),
    "fma": lambda k: FmaOrder("N", k.fma.snake),
    "split": lambda k: split_map(3, k.block_k),
    "workspace": lambda k: workspace_map(Named("PARTS", Int(3)), k.spec.problem.c, k.c_vector),
    "before": lambda k: (ScaleOutput(),),
    "after": lambda k: (ReduceParts(),),
    "applied": lambda k: k.applied[1:],
}


def test_every_field_of_a_kernel_has_a_change() -> None:
    assert set(CHANGES) == {field.name for field in fields(Kernel)}


@pytest.mark.parametrize("name", CHANGES)
def test_every_field_of_a_kernel_is_printed(name: str) -> None:
    given = kernel("fragments")
    changed = replace(given, **{name: CHANGES[name](given)})
    assert changed != given
    assert print_kernel(changed) != print_kernel(given)
