"""Planted faults in maps, tiles and paths: each is refuted by the rule it breaks, with a true witness."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest

from gemmdsl.analysis.occupancy import occupancy
from gemmdsl.conditions import Aligned, Multiple
from gemmdsl.extents import ALL_TILES, K_FIRST, SPLIT, WHOLE, SplitMap, split_map
from gemmdsl.index import Bound, Choice, Expr, Int, Named, Op, evaluate, least, less
from gemmdsl.ir import (
    TILE,
    AddOutput,
    Counter,
    FmaOrder,
    For,
    Kernel,
    MultiplyGlobal,
    ReduceParts,
    ScaleOutput,
    Staging,
    Stmt,
    StoreOutput,
    StorePart,
)
from gemmdsl.layout import BLOCK, BLOCKS_M, BLOCKS_N, CopyMap, GridMap, SharedTile, copy_map, raster_grid
from gemmdsl.passes import steps
from gemmdsl.spec import Assumption, Axis, StagedName
from gemmdsl.target import TARGETS, Target
from gemmdsl.verifier import ProofError, verify, verify_final
from gemmdsl.verifier.failure import Refuted
from gemmdsl.verifier.limits import prove_limits
from tests.verifier.kernels import PIECES, VECTORS, kernel, spec, with_stage

Fault = Callable[[], Kernel]


def named(old: Named, value: int) -> Named:
    return Named(old.name, Int(value))


def first(axis: str, change: Callable[[Expr], Expr]) -> Fault:
    """`ping_pong` with the first row or column of each thread changed."""

    def plant() -> Kernel:
        given = kernel("ping_pong")
        threads = given.threads
        of_axis = threads.rows if axis == "M" else threads.cols
        changed = replace(of_axis, first=Bound(of_axis.first.name, change(of_axis.first.value)))
        rows, cols = (changed, threads.cols) if axis == "M" else (threads.rows, changed)
        return replace(given, threads=replace(threads, rows=rows, cols=cols))

    return plant


def copy(operand: str, change: Callable[[CopyMap], CopyMap], base: str = "ping_pong") -> Fault:
    return lambda: with_stage(kernel(base), operand, lambda s: replace(s, copy=change(s.copy)))


def tile(operand: str, change: Callable[[SharedTile], SharedTile], base: str = "ping_pong") -> Fault:
    return lambda: with_stage(kernel(base), operand, lambda s: replace(s, tile=change(s.tile)))


def stage(operand: str, change: Callable[[Staging], Staging], base: str = "ping_pong") -> Fault:
    return lambda: with_stage(kernel(base), operand, change)


def padded_by(pad: int) -> Callable[[SharedTile], SharedTile]:
    return lambda t: replace(
        t, pad=Named("A_PAD", Int(pad)), row_length=Named("A_ROW", t.cols + Named("A_PAD", Int(pad)))
    )


def paths(base: str, **changes: object) -> Fault:
    """A kernel with its first path changed."""

    def plant() -> Kernel:
        given = kernel(base)
        return replace(given, paths=(replace(given.paths[0], **changes), *given.paths[1:]))  # type: ignore[arg-type]

    return plant


def last_path(**changes: object) -> Fault:
    def plant() -> Kernel:
        given = kernel("ping_pong")
        return replace(given, paths=(*given.paths[:-1], replace(given.paths[-1], **changes)))  # type: ignore[arg-type]

    return plant


def assuming(*assumptions: Assumption) -> Fault:
    """A kernel whose schedule assumes what no path checks."""

    def plant() -> Kernel:
        given = kernel("ping_pong")
        schedule = replace(given.spec.schedule, assumptions=assumptions)
        return replace(given, spec=replace(given.spec, schedule=schedule))

    return plant


def lying(expr: Expr) -> Expr:
    """An expression that claims to be 0, so that the constructors drop operations which it needs."""
    return Op("^", expr, Int(0), 0, 0)


def foreign_tile() -> Kernel:
    """A's staging of a kernel with another block tile and as many threads."""
    other = spec(**{**PIECES, "block_m": 64, "block_n": 128}, **VECTORS, buffers=2)
    return with_stage(kernel("ping_pong"), "A", lambda _: steps(other)[-1].kernel.stage("A"))


BLOCK_K = Named("BLOCK_K", Int(8))
BEFORE, AFTER = (ScaleOutput(),), (ReduceParts(),)


def parts(**changes: Callable[[SplitMap], Expr]) -> Fault:
    """A kernel with other parts of K."""

    def plant() -> Kernel:
        given = kernel("split_atomic")
        assert given.split is not None
        changed = {name: change(given.split) for name, change in changes.items()}
        return replace(given, split=replace(given.split, **changed))  # type: ignore[arg-type]

    return plant


def ends(base: str, last: Stmt) -> Fault:
    """A kernel whose program ends otherwise."""
    return lambda: replace(kernel(base), body=(*kernel(base).body[:-1], last))


MULTIPLES = (Multiple("M", 128), Multiple("N", 64), Multiple("K", 8))
ALIGNED = (Aligned("A", 4), Aligned("B", 4), Aligned("C", 4))

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


def test_limits() -> None:
    given = kernel("async4")
    crowded = replace(given, min_blocks=17)
    big = with_stage(
        given, "A", lambda s: replace(s, tile=replace(s.tile, row_length=Named("A_ROW", Int(2000))))
    )
    old = replace(given, spec=replace(given.spec, target=TARGETS["sm_75"]))
    many = replace(given, threads=replace(given.threads, threads=named(given.threads.threads, 1056)))
    for faulty, word in (
        (crowded, "17 blocks"),
        (big, "shared memory"),
        (old, "sm_75 has no"),
        (many, "1056"),
    ):
        with pytest.raises(ProofError, match=word) as caught:
            verify_final(faulty, "specialise")
        assert caught.value.rule.name == "limits"
    assert verify_final(given, "specialise")


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_limits_round_shared_memory_as_the_rules_do(target: Target) -> None:
    """Between what blocks have of their own and what they take of an SM, some would fit by the former."""
    given = kernel("vectors")
    given = replace(given, spec=replace(given.spec, target=target), min_blocks=7)
    rounded_away = 0
    for row in range(1500):
        length = Named("A_ROW", Int(row))
        a = replace(given.stage("A"), tile=replace(given.stage("A").tile, row_length=length))
        full = replace(given, staging=(a, given.stage("B")))
        if full.shared_bytes > target.shared_per_block:
            break
        fits = occupancy(target, full.threads.threads.value, 32, full.shared_bytes).blocks >= 7
        rounded_away += not fits and 7 * (full.shared_bytes + target.shared_reserved) <= target.shared_per_sm
        with nullcontext() if fits else pytest.raises(Refuted, match="never holds"):
            prove_limits(full)
    assert rounded_away


ASKED: dict[str, Callable[[Kernel], Kernel]] = {
    "pad": lambda k: with_stage(k, "A", lambda s: replace(s, tile=replace(s.tile, pad=None))),
    "store width": lambda k: with_stage(k, "B", lambda s: replace(s, store=named(s.store, 2))),
    "vectors of C": lambda k: replace(k, c_vector=named(k.c_vector, 2)),
    "launch bounds": lambda k: replace(k, min_blocks=1),
    "fragment read first": lambda k: replace(k, read_first="B"),
    "FMA order": lambda k: replace(k, fma=FmaOrder("M")),
    "unrolled steps": lambda k: replace(k, unroll=Named("UNROLL", Int(4))),
    "raster": lambda k: replace(k, grid=raster_grid(2, "M")),
    "axis of the raster": lambda k: replace(k, grid=raster_grid(1, "N")),
    "parts of K": lambda k: replace(k, split=split_map(2, BLOCK_K)),
}


@pytest.mark.parametrize("what", ASKED)
def test_the_finished_kernel_has_what_was_asked_for(what: str) -> None:
    with pytest.raises(ProofError) as caught:
        verify_final(ASKED[what](kernel("async4")), "specialise")
    assert caught.value.rule.name == "as-asked"


def _grid(row: Expr, col: Expr) -> Fault:
    return lambda: replace(kernel("naive"), grid=GridMap(row, col))


def _flagged(base: str, full: frozenset[Axis], requires: tuple[Multiple, ...]) -> Fault:
    def plant() -> Kernel:
        given = kernel(base)
        path = replace(given.paths[0], full=full, aligned=frozenset(), requires=requires)
        return replace(given, paths=(path, *given.paths[1:]))

    return plant


def _no_registers() -> Kernel:
    return replace(kernel("fragments"), fragments=None)


class _Stuck(Counter):
    @property
    def following(self) -> Expr:
        return self.value


class _Unwrapped(Counter):
    @property
    def following(self) -> Expr:
        return self.value + 1


def _counting(kind: type[Counter]) -> Fault:
    """Counters that go on otherwise than their formula does."""
    return _counter(
        lambda s: replace(s, counters=tuple(kind(c.value, c.start, c.modulus) for c in s.counters))
    )


def _counter(change: Callable[[For], For]) -> Fault:
    def plant() -> Kernel:
        given = kernel("async4")
        body = tuple(change(s) if isinstance(s, For) and s.counters else s for s in given.body)
        return replace(given, body=body)

    return plant


RASTER = Named("RASTER", Int(4))


def _raster(
    size: Expr, rows: Callable[[Expr], Expr], col: Callable[[Expr], Expr] = lambda place: place
) -> Fault:
    """Groups of 4 rows: blocks of a group, and rows of one that begins at `first`."""

    def plant() -> Kernel:
        group_row = (BLOCK // size) * RASTER
        inside, group_rows = BLOCK % size, rows(group_row)
        row, place = group_row + inside % group_rows, inside // group_rows
        return replace(kernel("raster"), grid=GridMap(row, col(place), RASTER, "M"))

    return plant


GROUP = least(RASTER, BLOCKS_M) * BLOCKS_N


def _left(first: Expr) -> Expr:
    return least(RASTER, BLOCKS_M - first)


def _unrolled(unroll: bool | Named) -> Fault:
    """`fragments` with its steps unrolled otherwise."""

    def change(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        found = tuple(replace(s, body=change(s.body)) if isinstance(s, For) else s for s in body)
        return tuple(
            replace(s, unroll=unroll) if isinstance(s, For) and s.var.name == "k" else s for s in found
        )

    def plant() -> Kernel:
        given = kernel("fragments")
        return replace(given, body=change(given.body))

    return plant


EMITTED: dict[str, tuple[str, Fault]] = {
    "steps of two sets of fragments in a loop": ("register-sets", _unrolled(False)),
    "an odd number of them unrolled": ("register-sets", _unrolled(Named("STEPS", Int(3)))),
    "a last group as large as the others": ("blocks", _raster(GROUP, lambda first: RASTER)),
    "a last group that is cut off": ("blocks", _raster(GROUP, lambda first: BLOCKS_M % RASTER)),
    "rows left of the whole grid": ("blocks", _raster(GROUP, lambda first: least(RASTER, BLOCKS_M))),
    "groups of another size than is said": (
        "blocks",
        lambda: replace(kernel("raster"), grid=replace(raster_grid(4, "M"), group=Named("RASTER", Int(2)))),
    ),
    "groups along the other axis than is said": (
        "blocks",
        lambda: replace(kernel("raster"), grid=replace(raster_grid(4, "M"), along="N")),
    ),
    "a group of more blocks than an int counts": ("blocks", _raster(RASTER * BLOCKS_N, _left)),
    "columns that begin anew far beyond what was enumerated": (
        "blocks",
        _raster(GROUP, _left, lambda col: col % Int(100_000)),
    ),
    "every block in the first row": ("blocks", _grid(Int(0), BLOCK % BLOCKS_N)),
    "rows and columns exchanged": ("blocks", _grid(BLOCK % BLOCKS_N, BLOCK // BLOCKS_N)),
    "one guard of three left out": (
        "expressed",
        _flagged("ping_pong", frozenset({"M"}), (Multiple("M", 128),)),
    ),
    "a copy beyond the last vector that nothing guards": (
        "copy-coverage",
        copy("A", lambda c: replace(c, copies=named(c.copies, c.copies.value + 1))),
    ),
    "fewer sets of fragment registers than are used": ("fragments", _no_registers),
    "a counter that starts elsewhere": (
        "counters",
        _counter(lambda s: replace(s, counters=(replace(s.counters[0], start=Int(1)), *s.counters[1:]))),
    ),
    "a counter that never advances": ("counters", _counting(_Stuck)),
    "a counter that never starts over": ("counters", _counting(_Unwrapped)),
    "a counter that nothing counts": ("names", _counter(lambda s: replace(s, counters=s.counters[1:]))),
    "one name for two constants": (
        "names",
        stage("A", lambda s: replace(s, store=Named("B_VECTOR", Int(1)))),
    ),
    "one name for two constants, in what is chosen among": (
        "names",
        copy(
            "B",
            lambda c: replace(
                c, strided=Choice(less(c.copy, Named("B_VECTOR", Int(9))), c.strided, c.strided)
            ),
        ),
    ),
    "slots of A and B apart": (
        "slot-range",
        tile("A", lambda t: replace(t, stages=Named("A_BUFFERS", Int(2)))),
    ),
}


@pytest.mark.parametrize("what", EMITTED)
def test_what_the_text_could_not_say_is_refuted(what: str) -> None:
    rule, plant = EMITTED[what]
    with pytest.raises(ProofError) as caught:
        verify(plant(), "specialise")
    assert caught.value.rule.name == rule


def test_a_loop_is_unrolled_as_the_kernel_says() -> None:
    assert verify(_unrolled(True)(), "unroll")
    with pytest.raises(ProofError, match="not unrolled as the kernel says") as caught:
        verify_final(_unrolled(True)(), "specialise")
    assert caught.value.rule.name == "as-asked"


def test_the_raster_that_faults_are_planted_in_is_right() -> None:
    assert verify(_raster(GROUP, _left)(), "raster")


def test_an_index_that_may_be_negative_is_refused() -> None:
    with pytest.raises(ValueError, match="may be negative"):
        (TILE - 1) % Named("BUFFERS", Int(2))
