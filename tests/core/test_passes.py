"""What passes choose that no proof asks for: which threads are neighbours, how far a counter runs."""

from __future__ import annotations

from gemmdsl.index import evaluate
from gemmdsl.ir import For, walk
from tests.verifier.kernels import kernel


def test_neighbouring_threads_follow_the_contiguous_axis_of_c() -> None:
    for name, along_m in (("vectors", False), ("columns", True)):
        threads = kernel(name).threads
        apart = [
            evaluate(axis.first, {"thread": 1}) != evaluate(axis.first, {"thread": 0})
            for axis in (threads.rows, threads.cols)
        ]
        assert apart == [along_m, not along_m]


def test_steps_but_the_last_are_unrolled() -> None:
    given = kernel("fragments")
    assert given.block_k is not None
    loop = next(s for s in walk(given.body) if isinstance(s, For) and s.var.name == "k")
    assert loop.var.extent == given.block_k.value - 1
