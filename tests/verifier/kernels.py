"""Small real kernels, built without the front end, and edits that plant faults in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from gemmdsl.ir import For, If, Kernel, Staging, Stmt
from gemmdsl.passes import steps
from gemmdsl.spec import CopySteps, LaneOrder, Operand, Order, Problem, Schedule, Spec, Stage
from gemmdsl.target import TARGETS

ROW, COLUMN = Order.ROW, Order.COLUMN


def spec(*, target: str = "sm_80", a: Order = ROW, b: Order = ROW, c: Order = ROW, **schedule: Any) -> Spec:
    """A checked Spec as the front end would make it; `schedule` are fields of Schedule."""
    problem = Problem(
        "sgemm", Operand("A", "M", "K", a), Operand("B", "K", "N", b), Operand("C", "M", "N", c)
    )
    return Spec(problem, Schedule("sample", **schedule), TARGETS[target])


TILE_8X8: dict[str, Any] = {"block_m": 128, "block_n": 64, "block_k": 8, "thread_m": 8, "thread_n": 8}
PIECES: dict[str, Any] = {**TILE_8X8, "piece_m": 4, "piece_n": 4}
VECTORS: dict[str, Any] = {
    "stage_a": Stage(load=4, read=4, transpose=True, pad=4),
    "stage_b": Stage(load=4, store=4, read=4),
    "c_vector": 4,
}

SPECS: dict[str, Spec] = {
    "naive": spec(block_m=32, block_n=16),
    "shared": spec(block_m=32, block_n=16, block_k=8),
    "column": spec(block_m=64, block_n=32, block_k=8, thread_m=8, piece_m=8),
    "vectors": spec(**PIECES, **VECTORS),
    "ping_pong": spec(**PIECES, **VECTORS, buffers=2),
    "solid": spec(**TILE_8X8, piece_m=8, piece_n=8, **VECTORS, buffers=2),
    "warps": spec(**PIECES, **VECTORS, buffers=2, warp=(64, 32), lanes=(8, 4), lane_order=LaneOrder.PAIRED),
    "async2": spec(
        **PIECES,
        stage_a=Stage(read=4, transpose=True, pad=4),
        stage_b=Stage(4, 4, 4),
        buffers=2,
        asynchronous=True,
    ),
    "async4": spec(
        **PIECES,
        stage_a=Stage(read=4, transpose=True, pad=4),
        stage_b=Stage(4, 4, 4),
        buffers=4,
        asynchronous=True,
    ),
    "fragments": spec(
        **PIECES,
        stage_a=Stage(read=4, transpose=True, pad=4),
        stage_b=Stage(4, 4, 4),
        buffers=3,
        asynchronous=True,
        copy_steps=CopySteps((2,), (2,)),
        fragments=2,
        read_first="B",
        fma_along="M",
        fma_snake=True,
        unroll=4,
    ),
    "batches": spec(
        **PIECES,
        stage_a=Stage(read=4, transpose=True, pad=4),
        stage_b=Stage(4, 4, 4),
        buffers=3,
        asynchronous=True,
        copy_steps=CopySteps((0, 2, 2, 5), (2,)),
        fragments=2,
    ),
    "fragments_ping_pong": spec(**PIECES, **VECTORS, buffers=2, fragments=2),
    "split": spec(**PIECES, **VECTORS, buffers=2, split_k=3),
    "split_atomic": spec(**PIECES, **VECTORS, buffers=2, split_k=4, split_atomic=True),
    "swizzle": spec(
        **PIECES, a=COLUMN, b=ROW, stage_a=Stage(4, 4, 4, swizzle=True), stage_b=Stage(4, 4, 4, swizzle=True)
    ),
    "columns": spec(
        **PIECES,
        a=COLUMN,
        b=COLUMN,
        c=COLUMN,
        stage_a=Stage(load=2, store=2, read=2),
        stage_b=Stage(load=4, read=2, transpose=True, pad=2),
        c_vector=4,
    ),
    "swizzled_rows": spec(
        **{**PIECES, "block_k": 16},
        b=COLUMN,
        stage_a=Stage(4, 4, swizzle=True),
        stage_b=Stage(4, 1, 4, swizzle=True, transpose=True),
    ),
    "exchanged": spec(
        **PIECES, a=COLUMN, stage_a=Stage(load=4, transpose=True), stage_b=Stage(load=4, transpose=True)
    ),
    "unroll": spec(**PIECES, **VECTORS, unroll=2),
    "raster": spec(**PIECES, **VECTORS, raster=4),
    "raster_columns": spec(block_m=32, block_n=16, raster=3, raster_along="N"),
    "odd": spec(
        block_m=60,
        block_n=70,
        block_k=6,
        thread_m=6,
        thread_n=10,
        piece_m=2,
        piece_n=10,
        stage_b=Stage(2, 2, 2),
    ),
}


@cache
def kernel(name: str) -> Kernel:
    """The finished kernel of a sample."""
    return steps(SPECS[name])[-1].kernel


def with_stage(given: Kernel, operand: str, change: Callable[[Staging], Staging]) -> Kernel:
    """`given` with one operand's staging changed."""
    assert given.staging is not None
    a, b = given.staging
    return replace(given, staging=(change(a), b) if operand == "A" else (a, change(b)))


def edits(
    body: tuple[Stmt, ...], pick: type[Stmt], change: Callable[[Any], tuple[Stmt, ...]]
) -> Iterator[tuple[Stmt, ...]]:
    """The program once for each statement of type `pick`, that one replaced by `change` of it."""
    for at, statement in enumerate(body):
        before, after = body[:at], body[at + 1 :]
        if isinstance(statement, pick):
            yield (*before, *change(statement), *after)
        if isinstance(statement, (For, If)):
            for inner in edits(statement.body, pick, change):
                yield (*before, replace(statement, body=inner), *after)


def edit(
    given: Kernel, pick: type[Stmt], change: Callable[[Any], tuple[Stmt, ...]], which: int = 0
) -> Kernel:
    """The kernel with the `which`-th statement of type `pick` replaced."""
    return replace(given, body=list(edits(given.body, pick, change))[which])
