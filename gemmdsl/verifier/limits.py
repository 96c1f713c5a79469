"""Whether a finished kernel fits its target."""

from __future__ import annotations

from gemmdsl.ir import Kernel
from gemmdsl.target import MAX_THREADS_PER_BLOCK
from gemmdsl.verifier.failure import LIMITS, Refuted


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
    taken = blocks * target.shared_taken(shared)
    if blocks > target.max_blocks_per_sm or (blocks > 1 and taken > target.shared_per_sm):
        raise Refuted(
            LIMITS,
            f"an SM of {target.name} never holds {blocks} blocks with {shared} bytes of shared memory each",
            blocks=blocks,
            shared_bytes=taken,
        )
    if kernel.asynchronous and not target.async_copy:
        raise Refuted(LIMITS, f"{target.name} has no asynchronous copies", target=target.name)
    return f"limits: {threads} threads and {shared} bytes of shared memory per block fit {target.name}"
