"""Proofs of a kernel: exact enumeration of every index, exact simulation of every pipeline depth.

`verify` holds of the kernel after any pass; `verify_final` adds what only the finished kernel has to keep.
Sub-proofs are remembered by the value of the maps and tiles they are about, so that a pass pays only for
what it changed.
"""

from __future__ import annotations

from gemmdsl.extents import sweep_map
from gemmdsl.ir import (
    AsyncCopyTile,
    CopyTile,
    Kernel,
    LoadTile,
    MultiplyFragments,
    MultiplyTile,
    ReadFragment,
    Staging,
    StoreTile,
    walk,
)
from gemmdsl.spec import StagedName
from gemmdsl.verifier.asked import prove_as_asked
from gemmdsl.verifier.copies import prove_async_width, prove_batches
from gemmdsl.verifier.failure import K_PARTS, PLACEMENT, RULES, ProofError, Refuted, Rule
from gemmdsl.verifier.grid import prove_blocks
from gemmdsl.verifier.hazards import prove_ordered
from gemmdsl.verifier.limits import prove_limits
from gemmdsl.verifier.names import prove_names
from gemmdsl.verifier.outputs import prove_output_vectors, prove_outputs
from gemmdsl.verifier.parts import prove_parts, prove_sums
from gemmdsl.verifier.paths import prove_paths
from gemmdsl.verifier.program import Slots, depth, run
from gemmdsl.verifier.registers import prove_register_sets
from gemmdsl.verifier.steady import prove_steady
from gemmdsl.verifier.sweeps import prove_swept
from gemmdsl.verifier.tiles import (
    Conflict,
    conflict,
    prove_copies,
    prove_operands,
    prove_reads,
)
from gemmdsl.verifier.trace import Trace
from gemmdsl.verifier.workspace import prove_workspace

__all__ = ["RULES", "ProofError", "Proofs", "Rule", "verify", "verify_final"]

Proofs = tuple[str, ...]
StagedStmt = CopyTile | LoadTile | StoreTile | AsyncCopyTile | MultiplyTile | ReadFragment | MultiplyFragments


def verify(kernel: Kernel, after: str) -> Proofs:
    """Proves the kernel that the pass `after` made; one short statement per proof, always in the same order.

    Raises ProofError with the first counterexample found: the compiler is wrong, not its input.
    """
    try:
        return tuple(_prove(kernel))
    except Refuted as refuted:
        raise ProofError(after, refuted) from None


def verify_final(kernel: Kernel, after: str) -> Proofs:
    """Proves that a finished kernel fits its target and is what was asked for; raises ProofError."""
    try:
        limits = prove_limits(kernel)
        prove_as_asked(kernel)
        return (limits,)
    except Refuted as refuted:
        raise ProofError(after, refuted) from None


def _prove(kernel: Kernel) -> list[str]:
    threads = kernel.threads
    proofs = [prove_outputs(threads), prove_blocks(kernel.grid)]
    if kernel.split is not None:
        if kernel.block_k is None:
            raise Refuted(K_PARTS, "K is split, but its tiles have no depth", parts=kernel.split.parts.value)
        proofs[-1] += ", one for each part of K"
        proofs.append(prove_parts(kernel.split, kernel.block_k))
    if kernel.c_vector.value > 1:
        proofs.append(prove_output_vectors(threads, kernel.spec.problem.c, kernel.c_vector.value))
    conflicts: dict[StagedName, Conflict | None] = {}
    slots: Slots = (None, None)
    if kernel.staging is not None and kernel.block_k is not None:
        prove_operands(kernel.staging, kernel.spec.problem)
        for staging in kernel.staging:
            proofs += prove_copies(staging, threads.thread)
            proofs.append(prove_reads(staging, threads, kernel.block_k.value))
        a, b = kernel.staging
        conflicts = {"A": conflict(a, threads), "B": conflict(b, threads)}
        slots = (_slots(a), _slots(b))
    statements = tuple(walk(kernel.body))
    if not conflicts and any(isinstance(statement, StagedStmt) for statement in statements):
        raise Refuted(PLACEMENT, "the program moves tiles, but the kernel keeps none", staged="false")
    for statement in statements:
        if isinstance(statement, AsyncCopyTile):
            prove_async_width(kernel.stage(statement.operand))
            for copy in kernel.copies(kernel.stage(statement.operand)):
                prove_batches(copy, statement.batches)
    proofs.append(prove_paths(kernel))
    prove_names(kernel)
    prove_register_sets(kernel.body)
    sets = kernel.fragments.value if kernel.fragments else 0
    runs = run(kernel.body, slots, 1 if kernel.block_k is None else kernel.block_k.value, sets)
    sums = prove_sums(kernel)
    if kernel.split is not None:
        proofs.append(sums)
    if (kept := prove_workspace(kernel)) is not None:
        proofs.append(kept)
    if kernel.before or kernel.after:
        c = kernel.spec.problem.c
        proofs.append(prove_swept(sweep_map(c), c))
    if kernel.staging is not None:
        for trace in runs.traces:
            prove_ordered(trace, conflicts)
        prove_steady(kernel.body, runs, depth(slots))
        proofs.extend(_program(depth(slots), runs.traces[-1]))
    return proofs


def _slots(staging: Staging) -> int | None:
    stages = staging.tile.stages
    return None if stages is None else stages.value


def _program(slots: int, longest: Trace) -> tuple[str, str]:
    count = "1 slot" if slots == 1 else f"{slots} slots"
    tiles = f"0 to {longest.k_tiles} tiles, then repeating"
    return (
        f"K loop: {tiles}; each multiplied once, in order, through {count}",
        "shared memory: no two threads touch a word without a barrier between, unless both read",
    )
