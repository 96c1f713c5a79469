"""Rules on what a target has: threads, registers, shared memory; and on the stores of C."""

from __future__ import annotations

from gemmdsl.rules_case import Case, Findings, extents, rule
from gemmdsl.rules_options import c_fragment
from gemmdsl.spec import Order, Schedule
from gemmdsl.target import MAX_REGISTERS_PER_THREAD


@rule(
    "G502",
    "buffers * (sum over A, B of 4 * rows * (row + pad), in whole 16 bytes) <= shared memory per block",
    "block tile {block} in {buffers} takes {bytes} bytes of shared memory; {target} has {limit}",
    ("block", "buffers", "pad"),
)
def shared(case: Case) -> Findings:
    if case.shared_bytes > case.target.shared_per_block:
        values = {
            "bytes": case.shared_bytes,
            "target": case.target.name,
            "limit": case.target.shared_per_block,
            "block": _block(case.schedule),
            "buffers": "one buffer" if case.schedule.buffers == 1 else f"{case.schedule.buffers} buffers",
        }
        yield ("block", "buffers", "A.pad", "B.pad", "target"), values


@rule(
    "G503",
    "outputs + fragments * (thread_m + thread_n) + prefetched elements + addresses + 24 <= registers",
    "{tile} {registers} registers, but {share}: it would spill",
    ("thread", "min_blocks", "block", "buffers", "fragments", "load"),
    needs=("G204", "G212", "G304"),
)
def registers(case: Case) -> Findings:
    s = case.schedule
    if case.registers <= case.registers_available:
        return
    tile = f"thread tile {extents(s.thread_m, s.thread_n)}"
    available = case.registers_available
    share = f"each of {s.threads} threads has {available}"
    if available == MAX_REGISTERS_PER_THREAD:
        share = f"a thread has {available}"
    elif s.min_blocks > 1:
        share = f"a thread has {available} where {s.min_blocks} blocks of {s.threads} threads share an SM"
    values = {
        "tile": f"{tile} and {case.copies} copies of each K tile take" if case.copies else f"{tile} takes",
        "registers": case.registers,
        "share": share,
    }
    loads = tuple(f"{name}.load" for name, _, _ in case.staged)
    yield ("thread", "min_blocks", "block", "buffers", "fragments", *loads), values


@rule(
    "G504",
    "min_blocks * threads <= threads per SM",
    "{blocks} blocks of {threads} threads are {total} threads; {target} holds {limit} per SM",
    ("min_blocks", "thread", "block"),
    needs=("G204", "G212"),
)
def resident_threads(case: Case) -> Findings:
    total = case.schedule.min_blocks * case.schedule.threads
    if total > case.target.max_threads_per_sm:
        yield (
            ("min_blocks", "thread", "block", "target"),
            {
                "blocks": case.schedule.min_blocks,
                "threads": case.schedule.threads,
                "total": total,
                "target": case.target.name,
                "limit": case.target.max_threads_per_sm,
            },
        )


@rule(
    "G505",
    "min_blocks <= blocks per SM",
    "{target} holds {limit} blocks per SM, not {blocks}",
    ("min_blocks",),
)
def resident_blocks(case: Case) -> Findings:
    if case.schedule.min_blocks > case.target.max_blocks_per_sm:
        yield (
            ("min_blocks", "target"),
            {
                "blocks": case.schedule.min_blocks,
                "target": case.target.name,
                "limit": case.target.max_blocks_per_sm,
            },
        )


@rule(
    "G506",
    "min_blocks * (shared memory + what the system keeps of each block's) <= shared memory per SM",
    "{blocks} blocks with {bytes} bytes of shared memory take {total}; {target} has {limit} per SM",
    ("min_blocks", "block", "buffers", "pad"),
)
def resident_shared(case: Case) -> Findings:
    blocks = case.schedule.min_blocks
    total = blocks * case.target.shared_taken(case.shared_bytes)
    if blocks > 1 and total > case.target.shared_per_sm:
        yield (
            ("min_blocks", "block", "buffers", "A.pad", "B.pad", "target"),
            {
                "blocks": blocks,
                "bytes": case.shared_bytes,
                "total": total,
                "target": case.target.name,
                "limit": case.target.shared_per_sm,
            },
        )


@rule(
    "G602",
    "piece % C vector == 0, along C's contiguous axis",
    "stores of C are {vector} wide, but a thread writes pieces of {piece} along {axis}",
    ("vector", "thread"),
    needs=("G205",),
)
def c_width(case: Case) -> Findings:
    piece = c_fragment(case.problem, case.schedule)
    if piece % max(1, case.schedule.c_vector):
        axis = "N" if case.problem.c.order is Order.ROW else "M"
        yield ("C.vector", "thread"), {"vector": case.schedule.c_vector, "axis": axis, "piece": piece}


RESOURCES = (
    shared,
    registers,
    resident_threads,
    resident_blocks,
    resident_shared,
    c_width,
)


def _block(schedule: Schedule) -> str:
    return extents(schedule.block_m, schedule.block_n, *([schedule.block_k] if schedule.staged else []))
