"""Whether a finished kernel has what its schedule asks for, field by field."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

import numpy as np

from gemmdsl.index import constant, evaluate
from gemmdsl.ir import (
    AddOutput,
    AsyncCopyTile,
    CopyTile,
    Equal,
    For,
    If,
    Kernel,
    LoadTile,
    MultiplyFragments,
    ReadFragment,
    Stmt,
    walk,
)
from gemmdsl.spec import Axis, CopySteps, LaneOrder, OperandName, Order, Stage, StagedName
from gemmdsl.target import WARP_SIZE
from gemmdsl.verifier.failure import AS_ASKED, Refuted

if TYPE_CHECKING:
    from gemmdsl.index import Array


@dataclass(frozen=True, slots=True)
class Asked:
    """What fields of the schedule ask for, and what the kernel has of it."""

    fields: tuple[str, ...]
    wanted: object
    found: object


def prove_as_asked(kernel: Kernel) -> None:
    """What passes could have lost or undone is there: no pass has rebuilt what another one made."""
    for row in as_asked(kernel):
        if row.wanted != row.found:
            word = ", ".join(row.fields)
            what = f"the kernel has {word} {row.found} where the schedule asks for {row.wanted}"
            raise Refuted(AS_ASKED, what, word=word)
    _prove_specialised(kernel)


def as_asked(kernel: Kernel) -> Iterator[Asked]:
    """A row for each field of the schedule; what is found is read from the kernel's maps and program."""
    schedule, threads = kernel.spec.schedule, kernel.threads
    statements = tuple(walk(kernel.body))
    copies = {
        isinstance(s, AsyncCopyTile) for s in statements if isinstance(s, CopyTile | LoadTile | AsyncCopyTile)
    }
    found: dict[str, object] = {
        "block_m": kernel.block_m.value,
        "block_n": kernel.block_n.value,
        "block_k": kernel.block_k.value if kernel.block_k else 0,
        "thread_m": threads.rows.count.value,
        "thread_n": threads.cols.count.value,
        "piece_m": threads.rows.piece.value,
        "piece_n": threads.cols.piece.value,
        "stage_a": _stage(kernel, 0),
        "stage_b": _stage(kernel, 1),
        "c_vector": kernel.c_vector.value,
        "buffers": kernel.buffers.value if kernel.buffers else 1,
        "asynchronous": _all_alike(copies, default=False),
        "copy_steps": _copy_steps(statements),
        "fragments": kernel.fragments.value if kernel.fragments else 1,
        "read_first": _all_alike({kernel.read_first, *_read_first(kernel.body)}, default="A"),
        "fma_along": kernel.fma.along,
        "fma_snake": kernel.fma.snake,
        "unroll": _unrolled(kernel),
        "raster": kernel.grid.group.value if kernel.grid.group else 1,
        "raster_along": kernel.grid.along,
        "min_blocks": kernel.min_blocks,
        "split_k": kernel.split.parts.value if kernel.split else 1,
        "split_atomic": any(isinstance(s, AddOutput) for s in statements),
    }
    for name, value in found.items():
        yield Asked((name,), getattr(schedule, name), value)
    yield _places(kernel)


def _all_alike(values: Set[Hashable], default: object) -> object:
    """The one value; all of them where they differ, which no schedule asks for."""
    return next(iter(values)) if len(values) == 1 else values or default


def _stage(kernel: Kernel, which: int) -> Stage:
    if kernel.staging is None:
        return Stage()
    staging = kernel.staging[which]
    tile = staging.tile
    return Stage(
        staging.copy.width.value,
        staging.store.value,
        staging.read.value,
        tile.transposed,
        tile.pad.value if tile.pad else 0,
        tile.swizzle is not None,
    )


def _copy_steps(statements: tuple[Stmt, ...]) -> CopySteps:
    """The steps of a K tile in which batches of asynchronous copies are issued, where they wait for one."""
    found: dict[StagedName, list[tuple[int, int]]] = {"A": [], "B": []}
    for statement in statements:
        match statement:
            case If(Equal(right=step), body):
                copies = (inner for inner in walk(body) if isinstance(inner, AsyncCopyTile))
                for copy in copies:
                    found[copy.operand].append((copy.batch, constant(step) or 0))
    a, b = (tuple(step for _, step in sorted(batches)) or (0,) for batches in found.values())
    return CopySteps(a, b)


def _read_first(body: tuple[Stmt, ...]) -> Iterator[str]:
    """Whose fragment comes first wherever fragments are read one after the other."""
    previous: Stmt | None = None
    for statement in body:
        if isinstance(statement, ReadFragment) and not isinstance(previous, ReadFragment):
            yield statement.operand
        if isinstance(statement, For | If):
            yield from _read_first(statement.body)
        previous = statement


def _unrolled(kernel: Kernel) -> int | None:
    """Steps of a K tile unrolled at a time, None for all; a loop over them does as the kernel says."""
    for statement in walk(kernel.body):
        if isinstance(statement, For) and statement.unroll:
            steps = any(isinstance(inner, MultiplyFragments) for inner in statement.body)
            if steps and statement.unroll != (kernel.unroll or True):
                what = f"the loop over {statement.var.name} is not unrolled as the kernel says"
                raise Refuted(AS_ASKED, what, word="unroll")
    return kernel.unroll.value if kernel.unroll else None


def _places(kernel: Kernel) -> Asked:
    """Where in the block tile threads begin: that of the first one that does not as it should."""
    threads = kernel.threads
    number = np.arange(threads.threads.value, dtype=np.int64)
    wanted = np.stack(np.broadcast_arrays(*_asked_places(kernel, number)))
    env = {threads.thread.name: number}
    found = np.stack([evaluate(axis.first, env) + 0 * number for axis in (threads.rows, threads.cols)])
    thread = int(np.argmax((wanted != found).any(axis=0)))

    def place(of: Array) -> str:
        return f"thread {thread} at ({of[0, thread]}, {of[1, thread]})"

    return Asked(("warp", "lanes", "lane_order"), place(wanted), place(found))


def _asked_places(kernel: Kernel, thread: Array) -> tuple[Array, Array]:
    """First row and column of each thread by the words of the schedule, not by the formulas of layout."""
    s = kernel.spec.schedule
    if s.warp is None or s.lanes is None:
        if kernel.spec.problem.c.order is Order.COLUMN:
            x, y = np.divmod(thread, s.block_m // s.thread_m)
        else:
            y, x = np.divmod(thread, s.block_n // s.thread_n)
        return y * s.piece_m, x * s.piece_n
    warp, lane = np.divmod(thread, WARP_SIZE)
    match s.lane_order:
        case LaneOrder.ROW:
            y, x = np.divmod(lane, s.lanes[1])
        case LaneOrder.COLUMN:
            x, y = np.divmod(lane, s.lanes[0])
        case LaneOrder.PAIRED:
            pair, odd = np.divmod(lane, 2)
            pairs, y = np.divmod(pair, s.lanes[0])
            x = 2 * pairs + odd
        case _:
            assert_never(s.lane_order)
    warp_row, warp_col = np.divmod(warp, s.block_n // s.warp[1])
    return warp_row * s.warp[0] + y * s.piece_m, warp_col * s.warp[1] + x * s.piece_n


def _prove_specialised(kernel: Kernel) -> None:
    """The first path has no guards and all vectors: else no vector that is asked for need ever move."""
    axes: set[Axis] = {"M", "N"} if kernel.block_k is None else {"M", "N", "K"}
    widths: list[tuple[OperandName, int]] = [("C", kernel.output_vector)]
    widths += [(staging.tile.operand.name, staging.copy.width.value) for staging in kernel.staging or ()]
    first = kernel.paths[0]
    if not first.full >= axes or not first.aligned >= {name for name, width in widths if width > 1}:
        raise Refuted(AS_ASKED, "no path goes without guards and with all vectors", path=first.name)
