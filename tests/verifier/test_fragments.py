"""Planted faults in fragment registers, slots, vectors and paths that no other kind of kernel shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gemmdsl import layout
from gemmdsl.index import Expr, Int, Named, Op, Var, evaluate
from gemmdsl.index_parts import split
from gemmdsl.ir import (
    K_TILES,
    TILE,
    AsyncCopyTile,
    Barrier,
    If,
    Kernel,
    Less,
    MultiplyFragments,
    MultiplyTile,
    ReadFragment,
    Stmt,
    StoreOutput,
)
from gemmdsl.layout import CopyMap
from gemmdsl.passes import steps
from gemmdsl.spec import Stage
from gemmdsl.verifier import ProofError, verify, verify_final
from gemmdsl.verifier.copies import prove_batches
from gemmdsl.verifier.failure import Refuted
from gemmdsl.verifier.hazards import prove_ordered
from gemmdsl.verifier.tiles import prove_copies, words
from gemmdsl.verifier.trace import Access, Edge, Trace
from tests.verifier.kernels import PIECES, edit, edits, kernel, spec

Change = Callable[..., tuple[Stmt, ...]]


def fragments(kind: type[Stmt], change: Change, which: int = 0) -> Kernel:
    return edit(kernel("fragments"), kind, change, which)


def batches(change: Change, which: int) -> Kernel:
    """`batches` with one of its asynchronous copies changed: 2 and 6 are the second and the last of A's."""
    return edit(kernel("batches"), AsyncCopyTile, change, which)


def uneven(copy: CopyMap, batch: Expr, batches: Expr) -> tuple[Expr, Expr]:
    """Batches that round up where the next one rounds down."""
    return batch * copy.copies // batches, ((batch + 1) * copy.copies + 1) // batches


def without_end(name: str, kind: type[Stmt]) -> Kernel:
    """A sample that stores C for no K tiles only, and lacks its last statement of a kind."""
    unstored = edit(kernel(name), StoreOutput, lambda s: (If(Less(K_TILES, Int(1)), (s,)),))
    return replace(unstored, body=list(edits(unstored.body, kind, lambda _: ()))[-1])


def multiplied(slot: Callable[[Expr], Expr]) -> Kernel:
    """`ping_pong` that multiplies from a slot written in another way, though it is the same slot."""
    return edit(kernel("ping_pong"), MultiplyTile, lambda s: (replace(s, slot=slot(TILE % 2)),))


def narrow(**changes: int) -> Kernel:
    """A kernel with pieces of two along one axis."""
    reads = Stage(load=4, read=2, transpose=True), Stage(4, 4, 2)
    return steps(spec(**{**PIECES, **changes}, stage_a=reads[0], stage_b=reads[1]))[-1].kernel


def wide_reads() -> Kernel:
    given = narrow(piece_m=2)
    assert given.staging is not None
    a, b = given.staging
    return replace(given, staging=(replace(a, read=Named(a.read.name, Int(4))), b))


def repeated_path() -> Kernel:
    given = kernel("ping_pong")
    return replace(given, paths=(given.paths[0], *given.paths))


FAULTS: dict[str, tuple[str, Callable[[], Kernel]]] = {
    "another step's registers": (
        "fragments",
        lambda: fragments(MultiplyFragments, lambda s: (replace(s, registers=Int(1)),)),
    ),
    "registers that were never read": ("fragments", lambda: fragments(If, lambda _: (), 1)),
    "a step beyond the tile": (
        "fragments",
        lambda: fragments(ReadFragment, lambda s: (replace(s, k=s.k + 8),), 2),
    ),
    "a set beyond the registers": (
        "fragments",
        lambda: fragments(ReadFragment, lambda s: (replace(s, registers=s.registers + 2),), 2),
    ),
    "a tile amid the steps of another": (
        "tile-order",
        lambda: fragments(MultiplyFragments, lambda s: (s, MultiplyTile(Int(0)))),
    ),
    "a batch of copies left out": ("sequence", lambda: batches(lambda _: (), 3)),
    "the last batch left out": ("tile-order", lambda: batches(lambda _: (), 6)),
    "a batch twice": ("sequence", lambda: batches(lambda s: (s, s), 3)),
    "a batch of fewer": ("sequence", lambda: batches(lambda s: (replace(s, batches=3),), 3)),
    "a batch into another slot": (
        "tile-order",
        lambda: batches(lambda s: (replace(s, slot=TILE % 3),), 3),
    ),
    "the last step left out": ("fragments", lambda: without_end("fragments", MultiplyFragments)),
    "no product at all": ("tile-order", lambda: without_end("ping_pong", MultiplyTile)),
    "a slot whose repetition is not seen": (
        "steady",
        lambda: multiplied(lambda slot: TILE - TILE // 2 * 2),
    ),
    "a slot by a divisor that is none of the turn's": (
        "steady",
        lambda: multiplied(lambda slot: Op("%", slot, Int(4), 0, 1)),
    ),
    "a condition that runs faster than the tiles": (
        "steady",
        lambda: edit(
            kernel("ping_pong"),
            Barrier,
            lambda s: (s, If(Less(TILE + TILE, K_TILES), (Barrier("early"),))),
            1,
        ),
    ),
    "wide reads of pieces half as wide": ("read-vectors", wide_reads),
    "wide vectors of C over pieces half as wide": (
        "output-vectors",
        lambda: replace(narrow(piece_n=2), c_vector=Named("C_VECTOR", Int(4))),
    ),
    "a path given twice": ("expressed", repeated_path),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_refuted(name: str) -> None:
    rule, plant = FAULTS[name]
    with pytest.raises(ProofError) as caught:
        verify(plant(), "a_pass")
    assert caught.value.rule.name == rule
    assert caught.value.witness


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7])
def test_batches_have_each_copy_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = kernel("batches").stage("A").copy
    prove_batches(copy, count)
    reached = [
        number
        for batch in range(count)
        for first, end in [copy.batch(Int(batch), Int(count))]
        for number in range(int(evaluate(first, {})), int(evaluate(end, {})))
    ]
    assert reached == list(range(copy.copies.value))
    monkeypatch.setattr(layout.CopyMap, "batch", uneven)
    if copy.copies.value % count:
        with pytest.raises(Refuted, match=f"of {count} of A has copies") as caught:
            prove_batches(copy, count)
        assert caught.value.rule.name == "copy-coverage"


def test_blocks_of_a_multiprocessor_share_its_memory() -> None:
    """Sixteen blocks of 128 threads fit sm_80 by their threads; four slots of tiles each do not."""
    with pytest.raises(ProofError, match=r"16 blocks with \d+ bytes") as caught:
        verify_final(replace(kernel("async4"), min_blocks=16), "specialise")
    assert caught.value.rule.name == "limits"


def test_two_elements_of_a_tile_in_one_word() -> None:
    """A row pattern that depends on the column is no exchange: two columns may meet."""
    tile = kernel("swizzle").stage("A").tile
    assert tile.swizzle is not None
    torn = replace(tile.swizzle, group=Var("f", 128) + 1)
    with pytest.raises(Refuted, match="share a word") as caught:
        words(replace(tile, swizzle=torn))
    found = caught.value.witness
    assert (found["f"], found["k"]) != (found["other_f"], found["other_k"])
    row = int(found["k"])
    places = [
        int(f) ^ (row // (int(f) + 1) % torn.count.value * torn.unit.value)
        for f in (found["f"], found["other_f"])
    ]
    assert row == found["other_k"]
    assert places == [found["column"]] * 2


@pytest.mark.parametrize("lost", [0, 1])
def test_a_way_that_loses_a_summand(lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """First place and way are taken apart by `split`; what it loses is missed at the other end."""

    def losing(expr: Expr, names: frozenset[str]) -> tuple[Expr, Expr]:
        halves = split(expr, names)
        return (Int(0), halves[1]) if lost == 0 else (halves[0], Int(0))

    given = kernel("vectors")
    prove_copies.cache_clear()
    monkeypatch.setattr(layout, "split", losing)
    with pytest.raises(Refuted, match="steps to another place in global memory") as caught:
        prove_copies(given.stage("A"), given.threads.thread)
    assert caught.value.rule.name == "steps"


def test_a_copy_in_flight_is_not_overwritten() -> None:
    """Copies of one thread are in order, unless the first still flies when the second begins."""

    def trace(end: int) -> Trace:
        statement = AsyncCopyTile("A", TILE, Int(0))
        accesses = Access("A", 0, True, 0, statement, 1, end), Access("A", 0, True, 1, statement, 5, 9)
        return Trace(2, accesses, (Edge(10, 10),))

    prove_ordered(trace(4), {"A": None, "B": None})
    with pytest.raises(Refuted, match="still in flight") as caught:
        prove_ordered(trace(5), {"A": None, "B": None})
    assert caught.value.rule.name == "hazard"
    assert (caught.value.witness["first_tile"], caught.value.witness["second_tile"]) == (0, 1)
