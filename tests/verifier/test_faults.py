"""Planted faults in maps, tiles and paths: each is refuted by the rule it breaks, with a true witness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gemmdsl.conditions import Aligned, Multiple
from gemmdsl.extents import ALL_TILES, K_FIRST, SPLIT, WHOLE, split_map
from gemmdsl.index import Bound, Int, Named, evaluate, least, less
from gemmdsl.ir import (
    AddOutput,
    MultiplyGlobal,
    Staging,
    StoreOutput,
    StorePart,
)
from gemmdsl.layout import CopyMap, copy_map
from gemmdsl.spec import Assumption, StagedName
from gemmdsl.verifier import ProofError, verify
from tests.verifier.kernels import kernel, with_stage
from tests.verifier.planting import (
    AFTER,
    ALIGNED,
    BEFORE,
    BLOCK_K,
    MULTIPLES,
    Fault,
    assuming,
    copy,
    ends,
    first,
    foreign_tile,
    last_path,
    lying,
    named,
    padded_by,
    parts,
    paths,
    stage,
    tile,
)

FAULTS: dict[str, tuple[str, Fault]] = {
    # Outputs.
    "rows one too far down": ("outputs", first("M", lambda e: e + 1)),
    "rows of two threads overlap": ("outputs", first("M", lambda e: e // 2)),
    "all threads in the same column": ("outputs", first("N", lambda _: Int(0))),
    "a thread dropped": (
        "outputs",
        lambda: replace(
            kernel("ping_pong"),
            threads=replace(
                kernel("ping_pong").threads, threads=named(kernel("ping_pong").threads.threads, 127)
            ),
        ),
    ),
    "pieces too close": (
        "outputs",
        lambda: replace(
            kernel("ping_pong"),
            threads=replace(
                kernel("ping_pong").threads,
                rows=replace(kernel("ping_pong").threads.rows, stride=Named("PIECE_STRIDE_M", Int(60))),
            ),
        ),
    ),
    "wide vectors of C over narrow pieces": (
        "output-vectors",
        lambda: replace(kernel("odd"), c_vector=Named("C_VECTOR", Int(4))),
    ),
    "vectors of C across the thread's own tile": (
        "output-vectors",
        lambda: replace(kernel("column"), c_vector=Named("C_VECTOR", Int(2))),
    ),
    "vectors of C along the wrong axis": (
        "output-vectors",
        lambda: replace(kernel("column"), c_vector=Named("C_VECTOR", Int(4))),
    ),
    # Parts of K.
    "parts that overlap": ("k-parts", parts(depth=lambda s: s.depth + 1)),
    "the rest of K lost": (
        "k-parts",
        parts(depth=lambda s: least(WHOLE - K_FIRST, (ALL_TILES // s.parts) * BLOCK_K)),
    ),
    "all parts at the start of K": ("k-parts", parts(first=lambda _: Int(0))),
    "parts that begin amid a tile": ("k-parts", parts(first=lambda s: least(WHOLE, s.first + 1))),
    "a part that passes the ints": ("k-parts", parts(first=lambda s: least(WHOLE, SPLIT * WHOLE // s.parts))),
    "parts beyond the end of K": (
        "k-parts",
        parts(depth=lambda s: (ALL_TILES // s.parts + less(SPLIT, ALL_TILES % s.parts)) * BLOCK_K),
    ),
    "parts without tiles": (
        "k-parts",
        lambda: replace(
            kernel("naive"), split=split_map(2, BLOCK_K), after=AFTER, body=(MultiplyGlobal(), StorePart())
        ),
    ),
    # Sums.
    "blocks that scale what others add to": ("sums", ends("split_atomic", StoreOutput())),
    "C not scaled before parts are added": ("sums", lambda: replace(kernel("split_atomic"), before=())),
    "C scaled twice": ("sums", lambda: replace(kernel("split_atomic"), before=BEFORE * 2)),
    "C scaled after parts were added": (
        "sums",
        lambda: replace(kernel("split_atomic"), before=(), after=BEFORE),
    ),
    "C scaled, and then again with the sum of parts": (
        "sums",
        lambda: replace(kernel("split"), before=BEFORE),
    ),
    "parts added up twice": ("sums", lambda: replace(kernel("split"), after=AFTER * 2)),
    "parts never added up": ("sums", lambda: replace(kernel("split"), after=())),
    "parts added up before they are stored": (
        "sums",
        lambda: replace(kernel("split"), before=AFTER, after=()),
    ),
    "products added, and the sum of parts as well": ("sums", ends("split", AddOutput())),
    "a block that scales nothing, alone": ("sums", ends("ping_pong", AddOutput())),
    # Copies.
    "a vector not copied": ("copy-coverage", copy("B", lambda c: replace(c, vectors=named(c.vectors, 127)))),
    "a round not copied": ("copy-coverage", copy("A", lambda c: replace(c, copies=named(c.copies, 1)))),
    "a lane's worth of floats not copied": (
        "copy-coverage",
        copy("B", lambda c: replace(c, width=named(c.width, 2))),
    ),
    "a row copied twice": ("copy-coverage", copy("B", lambda c: replace(c, strided=c.strided // 2 * 2))),
    "one row too far": ("copy-coverage", copy("B", lambda c: replace(c, strided=c.strided + 1))),
    "one vector too far": ("copy-coverage", copy("B", lambda c: replace(c, contiguous=c.contiguous + 4))),
    "coordinates exchanged": (
        "copy-coverage",
        copy("A", lambda c: replace(c, strided=c.contiguous, contiguous=c.strided * 4)),
    ),
    "a misaligned load": (
        "copy-vectors",
        copy("B", lambda c: replace(c, contiguous=c.contiguous * 15 // 16)),
    ),
    # Shared placement.
    "A's tile filled from B": ("placement", copy("A", lambda _: kernel("ping_pong").stage("B").copy)),
    "A and B exchanged": (
        "placement",
        lambda: replace(
            kernel("ping_pong"), staging=(kernel("ping_pong").stage("B"), kernel("ping_pong").stage("A"))
        ),
    ),
    "tiles that are kept nowhere": ("placement", lambda: replace(kernel("ping_pong"), staging=None)),
    "tiles without depth": ("placement", lambda: replace(kernel("ping_pong"), block_k=None)),
    "a row too short for its elements": (
        "placement",
        tile("B", lambda t: replace(t, row_length=Named("B_ROW", Int(60)))),
    ),
    "a swizzle out of the row": (
        "placement",
        tile(
            "A",
            lambda t: replace(t, swizzle=replace(t.swizzle, unit=Named("A_SWIZZLE_UNIT", Int(64)))),  # type: ignore[type-var]
            "swizzle",
        ),
    ),
    "a store to a place that was simplified wrongly": (
        "placement",
        copy("B", lambda c: replace(c, contiguous=lying(c.contiguous)), "swizzled_rows"),
    ),
    "more threads than the copy deals to": (
        "copy-coverage",
        stage("B", lambda s: replace(s, copy=copy_map(s.tile, Named("THREADS", Int(64)), 4))),
    ),
    "a pad that breaks alignment of stores": (
        "shared-stores",
        tile("B", padded_by(1)),
    ),
    "vector stores of a transposed tile": (
        "shared-stores",
        stage("A", lambda s: replace(s, store=named(s.store, 4))),
    ),
    "stores wider than loads": ("shared-stores", stage("B", lambda s: replace(s, store=named(s.store, 8)))),
    "a swizzle that tears stored vectors": (
        "shared-stores",
        tile(
            "A",
            lambda t: replace(t, swizzle=replace(t.swizzle, unit=Named("A_SWIZZLE_UNIT", Int(2)))),  # type: ignore[type-var]
            "swizzle",
        ),
    ),
    "asynchronous copies narrower in shared memory": (
        "async-width",
        stage("B", lambda s: replace(s, store=named(s.store, 2)), "async4"),
    ),
    "asynchronous vectors that transpose": (
        "async-width",
        lambda: with_stage(
            kernel("async4"), "A", lambda s: replace(s, copy=kernel("ping_pong").stage("A").copy)
        ),
    ),
    # Fragment reads.
    "a tile of another block": ("reads", foreign_tile),
    "tiles of half the depth": (
        "reads",
        lambda: replace(kernel("ping_pong"), block_k=Named("BLOCK_K", Int(4))),
    ),
    "fragments by an index that was simplified wrongly": (
        "reads",
        lambda: replace(
            kernel("swizzled_rows"),
            threads=replace(
                kernel("swizzled_rows").threads,
                rows=replace(
                    kernel("swizzled_rows").threads.rows,
                    first=Bound("thread_row", lying(kernel("swizzled_rows").threads.rows.first.value)),
                ),
            ),
        ),
    ),
    "wide reads of narrow pieces": (
        "read-vectors",
        stage("A", lambda s: replace(s, read=named(s.read, 4)), "odd"),
    ),
    "wide reads along K": ("read-vectors", stage("A", lambda s: replace(s, read=named(s.read, 2)), "odd")),
    "a pad that breaks alignment of reads": ("read-vectors", tile("A", padded_by(2))),
    "a swizzle that tears read vectors": (
        "read-vectors",
        lambda: with_stage(
            kernel("swizzle"),
            "A",
            lambda s: replace(
                s,
                store=named(s.store, 2),
                tile=replace(s.tile, swizzle=replace(s.tile.swizzle, unit=Named("U", Int(2)))),  # type: ignore[type-var]
            ),
        ),
    ),
    # Paths.
    "a guard missing": ("guards", paths("ping_pong", requires=(*MULTIPLES[:2], *ALIGNED))),
    "half a block tile": (
        "guards",
        paths("ping_pong", requires=(Multiple("M", 64), *MULTIPLES[1:], *ALIGNED)),
    ),
    "the general path without guards": ("guards", last_path(full=frozenset("K"))),
    "vectors of unknown alignment": ("alignment", paths("ping_pong", requires=(*MULTIPLES, *ALIGNED[:2]))),
    "vectors of too little alignment": (
        "alignment",
        paths("ping_pong", requires=(*MULTIPLES, Aligned("A", 2), *ALIGNED[1:])),
    ),
    "an asynchronous vector at whose place a row may end": (
        "whole-vectors",
        lambda: replace(
            kernel("async2"),
            paths=tuple(
                replace(path, requires=tuple(one for one in path.requires if one != Multiple("N", 4)))
                for path in kernel("async2").paths
            ),
        ),
    ),
    "no general path": (
        "last-resort",
        lambda: replace(kernel("ping_pong"), paths=kernel("ping_pong").paths[:-1]),
    ),
    "no path at all": ("last-resort", lambda: replace(kernel("ping_pong"), paths=())),
    "a general path that requires more": ("last-resort", last_path(requires=(Multiple("K", 2),))),
    "an assumption on a size not checked": ("last-resort", assuming(Assumption(axis="M", multiple=4))),
    "an assumption on alignment not checked": ("last-resort", assuming(Assumption(operand="A"))),
    "vectors where nothing is known of alignment": (
        "alignment",
        stage("B", lambda s: replace(s, words=None)),
    ),
    "words that are vectors": ("alignment", stage("B", lambda s: replace(s, words=s.copy))),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_refuted(name: str) -> None:
    rule, plant = FAULTS[name]
    with pytest.raises(ProofError) as caught:
        verify(plant(), "a_pass")
    assert caught.value.rule.name == rule
    assert caught.value.after == "a_pass"
    assert caught.value.witness or name == "no path at all"


def test_the_message_names_pass_rule_and_witness() -> None:
    with pytest.raises(ProofError) as caught:
        verify(FAULTS["rows of two threads overlap"][1](), "warp_tiling")
    assert str(caught.value) == (
        "error[P101]: C[2][0] of the block tile has two owners\n"
        "  = rule: outputs: each element of the block tile belongs to exactly one (thread, i, j)\n"
        "  = after pass: warp_tiling\n"
        "  = witness: m = 2, n = 0, thread = 0, i = 2, j = 0, other_thread = 8, other_i = 0, other_j = 0\n"
        "  = note: a bug in gemmdsl, not in your file; please report it with the file"
    )


@pytest.mark.parametrize("name", [name for name, (rule, _) in FAULTS.items() if rule == "outputs"])
def test_witnesses_of_outputs_are_true(name: str) -> None:
    """The threads named do own the element named, or nobody does."""
    given = FAULTS[name][1]()
    with pytest.raises(ProofError) as caught:
        verify(given, "a_pass")
    witness = {key: int(value) for key, value in caught.value.witness.items()}
    threads = given.threads
    owners = [
        (thread, i, j)
        for thread in range(threads.threads.value)
        for i in range(threads.rows.count.value)
        if evaluate(threads.rows.index(Int(i)), {"thread": thread}) == witness.get("m")
        for j in range(threads.cols.count.value)
        if evaluate(threads.cols.index(Int(j)), {"thread": thread}) == witness.get("n")
    ]
    if "other_thread" in witness:
        one = (witness["thread"], witness["i"], witness["j"])
        other = (witness["other_thread"], witness["other_i"], witness["other_j"])
        assert one != other
        assert {one, other} <= set(owners)
    elif "n" in witness:
        assert not owners
    else:
        assert witness["m"] >= witness["BLOCK_M"]
        row = threads.rows.index(Int(witness["i"]))
        assert evaluate(row, {"thread": witness["thread"]}) == witness["m"]


@pytest.mark.parametrize("name", [name for name, (rule, _) in FAULTS.items() if rule == "copy-coverage"])
def test_witnesses_of_copies_are_true(name: str) -> None:
    given = FAULTS[name][1]()
    with pytest.raises(ProofError) as caught:
        verify(given, "a_pass")
    witness = {key: int(value) for key, value in caught.value.witness.items()}
    staging = given.stage("B" if "n" in witness else "A")
    fragment = "n" if "n" in witness else "m"
    if "vector" in witness:
        of_axis = given.stage("B").copy
        env = {"thread": witness["thread"], "copy": witness["copy"]}
        assert evaluate(of_axis.vector, env) == witness["vector"] >= of_axis.vectors.value
        return
    copiers = [
        (thread, number)
        for thread in range(given.threads.threads.value)
        for number in range(staging.copy.copies.value)
        for env in ({"thread": thread, "copy": number},)
        if evaluate(staging.copy.vector, env) < staging.copy.vectors.value
        for lane in range(staging.copy.width.value)
        if tuple(evaluate(part, env) for part in staging.copy.coordinates(staging.copy.contiguous + lane))
        == (witness[fragment], witness["k"])
    ]
    if "other_thread" in witness:
        assert (witness["thread"], witness["copy"]) in copiers
        assert (witness["other_thread"], witness["other_copy"]) in copiers
        assert len(copiers) >= 2
    elif "thread" in witness:
        assert (witness["thread"], witness["copy"]) in copiers
        extents = {"m": given.block_m, "n": given.block_n, "k": given.block_k}
        assert any(
            witness[axis] + (witness["width"] if axis == staging.copy.operand.contiguous.lower() else 1)
            > size.value
            for axis, size in extents.items()
            if axis in witness and size is not None
        )
    else:
        assert not copiers


# Faults in the map of single words alone, which the witnesses of the other one do not show.
WORDS: dict[str, tuple[str, Callable[[CopyMap], CopyMap]]] = {
    "words that nobody copies": ("copy-coverage", lambda c: replace(c, copies=named(c.copies, 1))),
    "one word too few": (
        "copy-coverage",
        lambda c: replace(c, vectors=named(c.vectors, c.vectors.value - 1)),
    ),
    "every other word twice": (
        "copy-coverage",
        lambda c: replace(c, contiguous=c.contiguous // 2 * 2),
    ),
    "a place that was simplified wrongly": (
        "placement",
        lambda c: replace(c, contiguous=lying(c.contiguous)),
    ),
    "words of the other operand": ("placement", lambda _: word_map_of("A")),
}


def word_map_of(operand: StagedName) -> CopyMap:
    words = kernel("swizzled_rows").stage(operand).words
    assert words is not None
    return words


@pytest.mark.parametrize("name", WORDS)
def test_the_map_of_words_is_proved_too(name: str) -> None:
    rule, change = WORDS[name]

    def plant(staging: Staging) -> Staging:
        assert staging.words is not None
        return replace(staging, words=change(staging.words))

    with pytest.raises(ProofError) as caught:
        verify(with_stage(kernel("swizzled_rows"), "B", plant), "vectorise")
    assert caught.value.rule.name == rule
    assert caught.value.witness
