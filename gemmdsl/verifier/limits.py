"""Whether a finished kernel fits its target."""

from __future__ import annotations

from gemmdsl.ir import AddOutput, AsyncCopyTile, For, Kernel, MultiplyFragments, walk
from gemmdsl.target import MAX_THREADS_PER_BLOCK
from gemmdsl.verifier.failure import AS_ASKED, LIMITS, Refuted


def prove_limits(kernel: Kernel) -> str:
    """Threads, shared memory and instructions are what the target has; holds of the last kernel only."""
    target, threads, shared = kernel.spec.target, kernel.threads.threads.value, kernel.shared_bytes
    if not 1 <= threads <= MAX_THREADS_PER_BLOCK:
        raise Refuted(
            LIMITS,
            f"a block of {threads} threads cannot be launched",
            threads=threads,
            limit=MAX_THREADS_PER_BLOCK,
        )
    if shared > target.shared_per_block:
        raise Refuted(
            LIMITS,
            f"a block needs {shared} bytes of shared memory",
            shared_bytes=shared,
            limit=target.shared_per_block,
        )
    if kernel.min_blocks * threads > target.max_threads_per_sm:
        raise Refuted(
            LIMITS,
            f"an SM of {target.name} never holds {kernel.min_blocks} blocks of {threads} threads",
            threads=kernel.min_blocks * threads,
            limit=target.max_threads_per_sm,
        )
    blocks = kernel.min_blocks
    reserved = shared + target.shared_reserved
    if blocks > target.max_blocks_per_sm or (shared and blocks * reserved > target.shared_per_sm):
        raise Refuted(
            LIMITS,
            f"an SM of {target.name} never holds {blocks} blocks with {shared} bytes of shared memory each",
            blocks=blocks,
            shared_bytes=blocks * reserved,
        )
    asynchronous = any(isinstance(statement, AsyncCopyTile) for statement in walk(kernel.body))
    if asynchronous and not target.async_copy:
        raise Refuted(LIMITS, f"{target.name} has no asynchronous copies", target=target.name)
    _prove_as_asked(kernel)
    return f"limits: {threads} threads and {shared} bytes of shared memory per block fit {target.name}"


def _prove_as_asked(kernel: Kernel) -> None:
    """What passes could have lost or undone is there: no pass has rebuilt what another one made."""
    schedule, threads = kernel.spec.schedule, kernel.threads
    asked: dict[str, tuple[object, object]] = {
        "block": (
            (schedule.block_m, schedule.block_n, schedule.block_k),
            (kernel.block_m.value, kernel.block_n.value, kernel.block_k.value if kernel.block_k else 0),
        ),
        "thread": (
            (schedule.thread_m, schedule.thread_n),
            (threads.rows.count.value, threads.cols.count.value),
        ),
        "piece": ((schedule.piece_m, schedule.piece_n), (threads.rows.piece.value, threads.cols.piece.value)),
        "store C": (schedule.c_vector, kernel.c_vector.value),
        "buffers": (schedule.buffers, kernel.buffers.value if kernel.buffers else 1),
        "fragments": (schedule.fragments, kernel.fragments.value if kernel.fragments else 1),
        "read first": (schedule.read_first, kernel.read_first),
        "fma": ((schedule.fma_along, schedule.fma_snake), (kernel.fma.along, kernel.fma.snake)),
        "unroll": (schedule.unroll, _unrolled(kernel)),
        "raster": (
            (schedule.raster, schedule.raster_along),
            (kernel.grid.group.value if kernel.grid.group else 1, kernel.grid.along),
        ),
        "min_blocks": (schedule.min_blocks, kernel.min_blocks),
        "split_k": (
            (schedule.split_k, schedule.split_atomic),
            (
                kernel.split.parts.value if kernel.split else 1,
                any(isinstance(statement, AddOutput) for statement in walk(kernel.body)),
            ),
        ),
    }
    for staging, stage in zip(kernel.staging or (), (schedule.stage_a, schedule.stage_b), strict=False):
        tile = staging.tile
        asked[f"stage {tile.operand.name}"] = (
            (stage.load, stage.store, stage.read, stage.transpose, stage.pad, stage.swizzle),
            (
                staging.copy.width.value,
                staging.store.value,
                staging.read.value,
                tile.transposed,
                tile.pad.value if tile.pad else 0,
                tile.swizzle is not None,
            ),
        )
    for word, (wanted, found) in asked.items():
        if wanted != found:
            what = f"the kernel has {word} {found} where the schedule asks for {wanted}"
            raise Refuted(AS_ASKED, what, word=word)


def _unrolled(kernel: Kernel) -> int | None:
    """Steps of a K tile unrolled at a time, None for all; a loop over them does as the kernel says."""
    for statement in walk(kernel.body):
        if isinstance(statement, For) and statement.unroll:
            steps = any(isinstance(inner, MultiplyFragments) for inner in statement.body)
            if steps and statement.unroll != (kernel.unroll or True):
                what = f"the loop over {statement.var.name} is not unrolled as the kernel says"
                raise Refuted(AS_ASKED, what, word="unroll")
    return kernel.unroll.value if kernel.unroll else None
