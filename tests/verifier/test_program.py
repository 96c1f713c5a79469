"""Planted faults in programs: missing barriers, wrong slots, tiles out of order, copies used too early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gemmdsl.index import Int, Var, evaluate
from gemmdsl.ir import (
    K_TILES,
    TILE,
    AsyncCopyTile,
    Barrier,
    CommitGroup,
    CopyTile,
    For,
    If,
    Kernel,
    Less,
    LoadTile,
    MultiplyGlobal,
    MultiplyTile,
    Stmt,
    StoreOutput,
    StoreTile,
    WaitGroups,
    walk,
)
from gemmdsl.passes import steps
from gemmdsl.spec import Stage
from gemmdsl.verifier import ProofError, verify
from gemmdsl.verifier.trace import NEVER, Access, Edge, Order
from tests.verifier.interleaving import Shares, Wrong, run, shares
from tests.verifier.kernels import edit, edits, kernel, spec

REMOVE: Callable[[Stmt], tuple[Stmt, ...]] = lambda _: ()  # noqa: E731
THREAD = Var("thread", 128)


def refuted(faulty: Kernel) -> ProofError:
    with pytest.raises(ProofError) as caught:
        verify(faulty, "a_pass")
    return caught.value


@pytest.mark.parametrize(
    "name", ["shared", "column", "vectors", "ping_pong", "solid", "warps", "async2", "async4"]
)
def test_every_barrier_is_needed(name: str) -> None:
    """Without it two threads meet in a word; the witness names one, and it is really theirs."""
    barriers = sum(isinstance(statement, Barrier) for statement in walk(kernel(name).body))
    assert barriers
    for which in range(barriers):
        faulty = edit(kernel(name), Barrier, REMOVE, which)
        error = refuted(faulty)
        assert error.rule.name == "hazard"
        check_hazard(faulty, error)


def check_hazard(faulty: Kernel, error: ProofError) -> None:
    """Of the two threads named, one copies the word named and the other one reads it."""
    witness = error.witness
    operand = str(witness["operand"])
    staging = faulty.stage("A" if operand == "A" else "B")
    first, second = int(witness["first_thread"]), int(witness["second_thread"])
    parts, tile = shares(faulty, (first, second)), staging.tile
    assert first != second

    def words(elements: list[tuple[int, int]]) -> set[int]:
        found = set()
        for f, k in elements:
            row, col = (int(evaluate(part, {})) for part in tile.place(Int(f), Int(k)))
            found.add(row * tile.row_length.value + col)
        return found

    copied, read = parts.copied[operand], parts.read[operand]
    assert any(
        witness["word"] in words(copied[writer]) and witness["word"] in words(read[reader])
        for writer, reader in ((first, second), (second, first))
    )


@pytest.mark.parametrize("name", ["async2", "async4"])
def test_every_other_statement_is_needed(name: str) -> None:
    for kind in (AsyncCopyTile, WaitGroups, MultiplyTile, StoreOutput):
        for body in edits(kernel(name).body, kind, REMOVE):
            refuted(replace(kernel(name), body=body))


def test_every_statement_of_ping_pong_is_needed() -> None:
    for kind in (LoadTile, StoreTile, Barrier, MultiplyTile, StoreOutput):
        for body in edits(kernel("ping_pong").body, kind, REMOVE):
            refuted(replace(kernel("ping_pong"), body=body))


def in_loop(kind: type[Stmt], which: int = 0) -> int:
    """Number of the `which`-th statement of a kind inside of the K loop."""
    before = [statement for statement in kernel("ping_pong").body if not isinstance(statement, For)]
    return sum(isinstance(statement, kind) for statement in walk(tuple(before))) + which


def ping_pong(kind: type[Stmt], change: Callable[..., tuple[Stmt, ...]], which: int = 0) -> Kernel:
    return edit(kernel("ping_pong"), kind, change, which)


def pipeline(kind: type[Stmt], change: Callable[..., tuple[Stmt, ...]], which: int = 0) -> Kernel:
    return edit(kernel("async4"), kind, change, which)


def reordered(name: str, *places: int) -> Kernel:
    """A sample with the statements of its K loop in another order."""
    given = kernel(name)
    loop = next(s for s in given.body if isinstance(s, For) and s.stop == K_TILES)
    changed = replace(loop, body=tuple(loop.body[place] for place in places))
    return replace(given, body=tuple(changed if s is loop else s for s in given.body))


FAULTS: dict[str, tuple[str, Callable[[], Kernel]]] = {
    "other slot multiplied": (
        "tile-order",
        lambda: ping_pong(MultiplyTile, lambda s: (replace(s, slot=(TILE + 1) % 2),)),
    ),
    "stored to the slot just read": (
        "tile-order",
        lambda: ping_pong(StoreTile, lambda s: (replace(s, slot=TILE % 2),), in_loop(StoreTile)),
    ),
    "slot without modulo": (
        "slot-range",
        lambda: ping_pong(StoreTile, lambda s: (replace(s, slot=TILE + 1),), in_loop(StoreTile)),
    ),
    "slot not named": ("slot-range", lambda: ping_pong(MultiplyTile, lambda _: (MultiplyTile(None),))),
    "slot of a tile without slots": (
        "slot-range",
        lambda: edit(kernel("shared"), MultiplyTile, lambda _: (MultiplyTile(Int(0)),)),
    ),
    "prefetch of the tile after the last": (
        "tile-range",
        lambda: edit(kernel("ping_pong"), If, lambda s: s.body, 1),
    ),
    "asynchronous prefetch of the tile after the last": (
        "tile-range",
        lambda: pipeline(If, lambda s: s.body, 1),
    ),
    "first tile copied when there is none": (
        "tile-range",
        lambda: edit(kernel("ping_pong"), If, lambda s: s.body, 0),
    ),
    "prefetch one too early to stop": (
        "tile-order",
        lambda: edit(kernel("ping_pong"), If, lambda s: (replace(s, condition=Less(TILE + 2, K_TILES)),), 1),
    ),
    "loop one short": (
        "stored-once",
        lambda: ping_pong(For, lambda s: (replace(s, stop=K_TILES - 1),)),
    ),
    "loop one long": (
        "tile-range",
        lambda: edit(kernel("shared"), For, lambda s: (replace(s, stop=K_TILES + 1),)),
    ),
    "loop from the second tile": (
        "stored-once",
        lambda: edit(kernel("shared"), For, lambda s: (replace(s, start=Int(1)),)),
    ),
    "a tile multiplied twice": ("tile-order", lambda: ping_pong(MultiplyTile, lambda s: (s, s))),
    "the same tile of B again": (
        "sequence",
        lambda: edit(kernel("shared"), CopyTile, lambda s: (replace(s, tile=Int(0)),), 1),
    ),
    "A and B exchanged": (
        "sequence",
        lambda: edit(kernel("shared"), CopyTile, lambda s: (replace(s, operand="A"),), 1),
    ),
    "multiplied before it is copied": ("tile-order", lambda: reordered("shared", 3, 0, 1, 2, 4)),
    "registers stored before they are loaded": (
        "registers",
        lambda: ping_pong(LoadTile, REMOVE),
    ),
    "global product added twice": (
        "tile-order",
        lambda: edit(kernel("naive"), MultiplyGlobal, lambda s: (s, s)),
    ),
    "waiting for one group too few": (
        "awaited",
        lambda: pipeline(WaitGroups, lambda s: (replace(s, pending=s.pending + 1),)),
    ),
    "a group not closed in the prologue": ("awaited", lambda: pipeline(CommitGroup, REMOVE, 0)),
    "a group not closed in the loop": ("awaited", lambda: pipeline(CommitGroup, REMOVE, 1)),
    "waiting after the barrier": (
        "hazard",
        lambda: reordered("async4", 1, 0, 2, 3, 4),
    ),
    "prefetch before the barrier": (
        "hazard",
        lambda: reordered("async4", 2, 0, 1, 3, 4),
    ),
    "multiplied after the last barrier": (
        "hazard",
        lambda: reordered("shared", 0, 1, 2, 4, 3),
    ),
    "two copies in flight to the same slot": ("sequence", lambda: pipeline(AsyncCopyTile, lambda s: (s, s))),
    "C stored twice": ("stored-once", lambda: ping_pong(StoreOutput, lambda s: (s, s))),
    "C never stored": ("stored-once", lambda: ping_pong(StoreOutput, REMOVE)),
    "C stored in the loop": (
        "stored-once",
        lambda: replace(
            kernel("shared"),
            body=next(edits(kernel("shared").body, MultiplyTile, lambda s: (s, StoreOutput())))[:-1],
        ),
    ),
    "C stored before the loop": (
        "stored-once",
        lambda: replace(kernel("shared"), body=tuple(reversed(kernel("shared").body))),
    ),
    "a barrier that some threads skip": (
        "uniform",
        lambda: ping_pong(Barrier, lambda s: (If(Less(THREAD, Int(64)), (s,)),)),
    ),
    "a slot that depends on the thread": (
        "uniform",
        lambda: ping_pong(MultiplyTile, lambda s: (replace(s, slot=THREAD % 2),)),
    ),
    "a loop that depends on the thread": (
        "uniform",
        lambda: ping_pong(For, lambda s: (replace(s, stop=THREAD % 4),)),
    ),
    "a counter used outside of its loop": (
        "uniform",
        lambda: replace(
            kernel("shared"), body=(*kernel("shared").body, If(Less(TILE, K_TILES), (Barrier("late"),)))
        ),
    ),
    "right until the hundredth tile": (
        "steady",
        lambda: edit(kernel("shared"), MultiplyTile, lambda s: (If(Less(TILE, Int(100)), (s,)),)),
    ),
    "skipped for a hundred and more tiles": (
        "steady",
        lambda: replace(
            kernel("shared"), body=(If(Less(Int(100), K_TILES), (Barrier("late"),)), *kernel("shared").body)
        ),
    ),
    "nothing done for many tiles": (
        "steady",
        lambda: replace(
            kernel("shared"), body=(If(Less(K_TILES, Int(100)), (Barrier("few"),)), *kernel("shared").body)
        ),
    ),
    "two loops over K": (
        "steady",
        lambda: edit(kernel("shared"), For, lambda s: (replace(s, body=(Barrier("warm"),)), s)),
    ),
    "a slot that changes with the hundredth tile": (
        "steady",
        lambda: ping_pong(Barrier, lambda s: (s, WaitGroups(TILE // 100)), 1),
    ),
    "slots that repeat too late": (
        "steady",
        lambda: ping_pong(MultiplyTile, lambda s: (replace(s, slot=TILE % 100 % 2),)),
    ),
    "a barrier that is dropped after the hundredth tile": (
        "steady",
        lambda: edit(kernel("shared"), Barrier, lambda s: (If(Less(TILE, Int(100)), (s,)),)),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_refuted(name: str) -> None:
    rule, plant = FAULTS[name]
    error = refuted(plant())
    assert error.rule.name == rule
    assert error.witness


def test_a_witness_names_the_place_in_the_program() -> None:
    error = refuted(FAULTS["other slot multiplied"][1]())
    assert (
        str(error).splitlines()[0] == "error[P405]: `multiply slot (tile + 1) % 2` reads an empty slot of A"
    )
    assert error.witness == {"k_tiles": 1, "tile": 0}
    hazard = refuted(edit(kernel("async4"), Barrier, REMOVE))
    assert "`async copy A[tile]" in hazard.diagnostics[0].message


def test_an_edge_with_two_ends_orders_what_is_outside_of_it() -> None:
    """Hand-overs other than barriers: released at 3, acquired at 7."""
    order = Order((Edge(3, 7), Edge(10, 10)))
    stage = MultiplyTile(None)

    def until(end: int) -> int:
        return order.visible_after(Access("A", 0, True, 0, stage, 0, end))

    assert [until(end) for end in (0, 2, 3, 9, 10, NEVER)] == [7, 7, 10, 10, NEVER, NEVER]


def test_an_earlier_acquire_of_a_later_release_counts() -> None:
    order = Order((Edge(3, 20), Edge(5, 8)))
    assert order.visible_after(Access("A", 0, True, 0, MultiplyTile(None), 0, 1)) == 8


SMALL = {
    "shared": spec(block_m=4, block_n=2, block_k=2, thread_m=2, piece_m=2),
    "ping_pong": spec(block_m=4, block_n=2, block_k=2, thread_m=2, piece_m=2, buffers=2),
    "async2": spec(block_m=4, block_n=2, block_k=2, thread_m=2, piece_m=2, buffers=2, asynchronous=True),
    "async3": spec(
        block_m=4,
        block_n=4,
        block_k=2,
        thread_m=2,
        thread_n=2,
        piece_m=1,
        piece_n=2,
        buffers=3,
        asynchronous=True,
        stage_b=Stage(2, 2, 2),
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_accepted_programs_are_right_in_any_order(name: str) -> None:
    small = steps(SMALL[name])[-1].kernel
    parts = shares(small)
    for seed in range(6):
        for k_tiles in (0, 1, 2, 3, 7):
            run(small, parts, k_tiles, Random(seed))


@st.composite
def mutants(draw: st.DrawFn) -> Kernel:
    """A small kernel with one to three statements dropped, doubled, moved or sent to another slot."""
    mutant = steps(SMALL[draw(st.sampled_from(sorted(SMALL)))])[-1].kernel
    for _ in range(draw(st.integers(1, 3))):
        bodies = [
            body
            for kind in (
                Barrier,
                MultiplyTile,
                WaitGroups,
                CommitGroup,
                CopyTile,
                AsyncCopyTile,
                StoreTile,
                LoadTile,
            )
            for change in (REMOVE, lambda s: (s, s), other_slot)
            for body in edits(mutant.body, kind, change)
        ]
        bodies += list(edits(mutant.body, For, exchanged))
        mutant = replace(mutant, body=draw(st.sampled_from(bodies)))
    return mutant


def other_slot(statement: Stmt) -> tuple[Stmt, ...]:
    slot = getattr(statement, "slot", None)
    if slot is None:
        return (statement, Barrier("an extra one"))
    return (replace(statement, slot=(slot + 1) % 2),)


def exchanged(loop: For) -> tuple[Stmt, ...]:
    return (replace(loop, body=(*loop.body[1:], loop.body[0])),)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(mutants(), st.integers(0, 1 << 20))
def test_a_mutant_is_refuted_or_right_in_any_order(mutant: Kernel, seed: int) -> None:
    try:
        verify(mutant, "a_pass")
    except ProofError:
        return
    parts, random = shares(mutant), Random(seed)
    for k_tiles in (0, 1, 2, 3, 8):
        for _ in range(3):
            run(mutant, parts, k_tiles, random)


def test_the_oracle_finds_what_the_verifier_finds() -> None:
    """A missing barrier shows up as wrong data in some order: the two readings agree on a fault, too."""
    for name in ("shared", "ping_pong", "async2"):
        small = steps(SMALL[name])[-1].kernel
        faulty = edit(small, Barrier, REMOVE, 0)
        assert refuted(faulty).rule.name == "hazard"
        parts = shares(faulty)
        assert any(goes_wrong(faulty, parts, seed) for seed in range(200))


def goes_wrong(faulty: Kernel, parts: Shares, seed: int) -> bool:
    try:
        run(faulty, parts, 3, Random(seed))
    except Wrong:
        return True
    return False
