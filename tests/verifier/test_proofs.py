"""Right kernels are proved, and what is said of them is what a slower, independent count finds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from time import process_time

import pytest

from gemmdsl.index import Int, evaluate
from gemmdsl.ir import Barrier, Kernel
from gemmdsl.layout import SharedTile
from gemmdsl.passes import steps
from gemmdsl.spec import LaneOrder, Stage
from gemmdsl.verifier import RULES, ProofError, verify, verify_final
from gemmdsl.verifier.tiles import conflict
from tests.verifier.kernels import SPECS, edit, kernel, spec


@pytest.mark.parametrize("name", SPECS)
def test_each_stage_of_a_right_kernel_is_proved(name: str) -> None:
    done = steps(SPECS[name])
    for step in done:
        final = verify_final(step.kernel, step.name) if step is done[-1] else ()
        assert step.proofs == (*verify(step.kernel, step.name), *final)
        assert step.proofs[0].startswith("C tile: ")
        assert all(len(proof) <= 110 for proof in step.proofs)


def test_proofs_say_what_was_counted() -> None:
    assert verify(kernel("async4"), "test") == (
        "C tile: 8192 outputs, 64 for each of 128 threads, each written exactly once",
        "grid: each tile of C belongs to exactly one block",
        "A tile: 1024 elements copied exactly once by 128 threads one by one",
        "A tile: 1024 elements at distinct shared words, padding of 4 unused",
        "A reads: 8 elements per thread and k, each where it was stored, 4 at a time, aligned",
        "B tile: 512 elements copied exactly once by 128 threads in 128 vectors of 4, or singly",
        "B tile: 512 elements at distinct shared words, stored 4 at a time, aligned",
        "B reads: 8 elements per thread and k, each where it was stored, 4 at a time, aligned",
        "guards (fast, edge, general): an axis without guard and a vector in global memory follow from the"
        " conditions",
        "K loop: 0 to 10 tiles, then repeating; each multiplied once, in order, through 4 slots",
        "shared memory: no two threads touch a word without a barrier between, unless both read",
    )
    assert verify_final(kernel("async4"), "test") == (
        "limits: 128 threads and 25088 bytes of shared memory per block fit sm_80",
    )


@pytest.mark.parametrize("name", ["columns", "odd", "swizzle", "warps"])
def test_counting_element_by_element_agrees(name: str) -> None:
    """Thread by thread in plain Python: outputs, copies and the words they meet in."""
    given = kernel(name)
    threads = given.threads
    outputs = Counter(
        (m, n)
        for thread in range(threads.threads.value)
        for m in _axis(given, "M", thread)
        for n in _axis(given, "N", thread)
    )
    assert set(outputs.values()) == {1}
    assert len(outputs) == given.block_m.value * given.block_n.value
    assert given.staging is not None
    assert given.block_k is not None
    for staging in given.staging:
        copy, tile = staging.copy, staging.tile
        stored: dict[tuple[int, int], int] = {}
        for thread in range(threads.threads.value):
            for number in range(copy.copies.value):
                env = {"thread": thread, "copy": number}
                if evaluate(copy.vector, env) >= copy.vectors.value:
                    continue
                for lane in range(copy.width.value):
                    f, k = (int(evaluate(e, env)) for e in copy.coordinates(copy.contiguous + lane))
                    assert (f, k) not in stored
                    stored[f, k] = _word(staging.tile, f, k)
        extent = (given.block_m if tile.fragment_axis == "M" else given.block_n).value
        assert stored.keys() == {(f, k) for f in range(extent) for k in range(given.block_k.value)}
        assert len(set(stored.values())) == len(stored)
        assert max(stored.values()) < tile.words


def _axis(given: Kernel, axis: str, thread: int) -> list[int]:
    of_axis = given.threads.rows if axis == "M" else given.threads.cols
    return [int(evaluate(of_axis.index(Int(i)), {"thread": thread})) for i in range(of_axis.count.value)]


def _word(tile: SharedTile, f: int, k: int) -> int:
    row, col = (int(evaluate(part, {})) for part in tile.place(Int(f), Int(k)))
    return row * tile.row_length.value + col


@pytest.mark.parametrize("buffers", range(2, 17))
def test_every_depth_of_pipeline_is_proved(buffers: int) -> None:
    deep = spec(block_m=32, block_n=32, block_k=4, buffers=buffers, asynchronous=True)
    assert f"0 to {2 * buffers + 2} tiles" in " ".join(steps(deep)[-1].proofs)


@pytest.mark.parametrize(
    "lanes", [(1, 32), (2, 16), (4, 8), (8, 4), (16, 2), (32, 1)], ids=lambda pair: f"{pair[0]}x{pair[1]}"
)
@pytest.mark.parametrize("order", LaneOrder)
def test_every_lane_map_is_proved(lanes: tuple[int, int], order: LaneOrder) -> None:
    if order is LaneOrder.PAIRED and lanes[1] % 2:
        return
    warp = (lanes[0] * 4, lanes[1] * 2)
    sample = spec(
        block_m=2 * warp[0],
        block_n=3 * warp[1],
        block_k=8,
        thread_m=4,
        thread_n=2,
        piece_m=4,
        piece_n=1,
        warp=warp,
        lanes=lanes,
        lane_order=order,
    )
    assert steps(sample)[-1].name == "specialise"


def test_a_block_of_one_thread_needs_no_barrier() -> None:
    """The hazard check looks at words and threads, not at the mere presence of barriers."""
    alone = steps(spec(block_m=4, block_n=4, block_k=4, thread_m=4, thread_n=4, piece_m=4, piece_n=4))[
        -1
    ].kernel
    for which in range(2):
        verify(edit(alone, Barrier, lambda _: (), which), "test")


def test_codes_and_names_of_rules_are_unique() -> None:
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)


def test_the_largest_tiles_are_proved_in_time() -> None:
    """Well below a second on any machine; the real limit, 100 ms a compile, is measured elsewhere."""
    largest = spec(
        block_m=256,
        block_n=256,
        block_k=32,
        thread_m=8,
        thread_n=16,
        piece_m=4,
        piece_n=4,
        warp=(64, 64),
        lanes=(8, 4),
        stage_a=Stage(load=4, read=4, transpose=True, pad=4),
        stage_b=Stage(4, 4, 4),
        c_vector=4,
        buffers=2,
        target="sm_90",
    )
    start = process_time()
    steps(largest)
    assert process_time() - start < 0.5


def test_equal_kernels_give_equal_proofs() -> None:
    given = kernel("ping_pong")
    assert verify(replace(given), "a") == verify(given, "b")


DOCUMENT = (Path(__file__).parents[2] / "docs" / "proofs.md").read_text(encoding="utf-8")


def test_the_document_lists_the_rules() -> None:
    rows = [line for line in DOCUMENT.splitlines() if line.startswith("| P")]
    assert rows == [f"| {rule.code} | {rule.name} | {rule.formula} |" for rule in RULES]


def test_the_document_shows_a_real_message() -> None:
    with pytest.raises(ProofError) as caught:
        verify(edit(kernel("ping_pong"), Barrier, lambda _: (), 1), "ping_pong")
    assert indent(str(caught.value), "    ") in DOCUMENT


def test_hazards_are_looked_for_in_both_maps() -> None:
    """As one vector, a thread copies the row of A that it alone reads; single words it copies for others."""
    given = spec(block_m=32, block_n=4, block_k=4, thread_m=1, thread_n=4, piece_n=4, stage_a=Stage(load=4))
    made = steps(given)[-1].kernel
    staging = made.stage("A")
    assert staging.words is not None
    assert conflict(replace(staging, words=None), made.threads) is None
    found = conflict(staging, made.threads)
    assert found is not None
    assert found.writer != found.reader
