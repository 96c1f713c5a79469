"""What has to hold of the constants of the emitted text: whoever edits them is told by the compiler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gemmdsl.emit.printing import Printer
from gemmdsl.index import Int
from gemmdsl.ir import Equal, If, Kernel, Staging, walk
from gemmdsl.layout import AxisMap, CopyMap
from gemmdsl.target import MAX_THREADS_PER_BLOCK


@dataclass(frozen=True, slots=True)
class Check:
    """A static_assert."""

    condition: str
    message: str


def checks(kernel: Kernel, text: Printer) -> tuple[Check, ...]:
    """Those on tiles, threads and copies: formulas of the text were simplified where these hold."""
    found = [
        Check(f"THREADS <= {MAX_THREADS_PER_BLOCK}", "CUDA's limit"),
        Check("BLOCK_M * BLOCK_N == THREADS * THREAD_M * THREAD_N", "one owner for each output"),
    ]
    for axis in (kernel.threads.rows, kernel.threads.cols):
        found += _axis_checks(axis, text)
    if {"LANES_M", "LANES_N"} <= text.used.keys():
        found.append(Check("LANES_M * LANES_N == WARP_SIZE", "lanes are those of a warp"))
    for x in "MN":
        if {f"LANES_{x}", f"WARP_{x}"} <= text.used.keys():
            found.append(Check(f"LANES_{x} * THREAD_{x} == WARP_{x}", "lanes cover the warp tile"))
    for staging in kernel.staging or ():
        found += _staging_checks(kernel, staging, text)
    if kernel.fragments is not None and kernel.block_k is not None:
        turns = f"{text(kernel.block_k)} % {text(kernel.fragments)} == 0"
        found.append(Check(turns, "sets of fragments take turns from tile to tile"))
    if "COPY_STEP" in text.used:
        found.append(Check("COPY_STEP < BLOCK_K - 1", "the step that issues copies is one of the loop"))
    elif last := max(_copy_steps(kernel), default=0):
        found.append(Check(f"{last} < BLOCK_K - 1", "steps that issue copies are of the loop"))
    return tuple(found)


def stage_checks(kernel: Kernel) -> tuple[Check, ...]:
    """Those on what is kept in shared memory."""
    slots = kernel.buffers.value if kernel.buffers else 1
    return (Check(f"sizeof(Stage) == {kernel.shared_bytes // slots}", "the shared memory that was planned"),)


def _axis_checks(axis: AxisMap, text: Printer) -> Iterator[Check]:
    if axis.piece != axis.count:
        yield Check(f"{text(axis.count)} % {text(axis.piece)} == 0", "a thread has whole pieces")


def _staging_checks(kernel: Kernel, staging: Staging, text: Printer) -> Iterator[Check]:
    tile, copies = staging.tile, kernel.copies(staging)
    name = tile.operand.name
    covers = f"{text(tile.rows)} * {text(tile.cols)} % {text(copies[0].width)} == 0"
    yield Check(covers, f"loads cover the tile of {name}")
    for copy in copies:
        yield from _copy_checks(copy, "words" if copy is staging.words else "loads", text)
    # Asynchronous copies store as wide as they load, and name the one width only.
    store = copies[0].width if name in kernel.asynchronous else staging.store
    widest = store if store.value > staging.read.value else staging.read
    if widest.value > 1:
        yield Check(f"{text(tile.row_length)} % {text(widest)} == 0", f"rows of {name} keep vectors aligned")
    if staging.read.value > 1:
        axis = kernel.threads.rows if name == "A" else kernel.threads.cols
        yield Check(f"{text(axis.piece)} % {text(staging.read)} == 0", f"reads of {name} stay in a piece")


def _copy_checks(copy: CopyMap, what: str, text: Printer) -> Iterator[Check]:
    """What the formulas of a map were simplified by."""
    threads, name = copy.threads.value, copy.operand.name
    if not copy.partial:
        evenly = f"{text(copy.vectors)} == {text(copy.copies)} * {text(copy.threads)}"
        yield Check(evenly, f"threads share the {what} of {name} evenly")
    if copy.vector.hi < copy.row_vectors.value:
        one_row = f"{text(copy.vectors)} == {text(copy.row_vectors)}"
        yield Check(one_row, f"{what} of {name} are one row")
    elif threads == copy.row_vectors.value:
        whole_row = f"{text(copy.threads)} == {text(copy.row_vectors)}"
        yield Check(whole_row, f"{what} of {name} step from row to row")
    elif threads % copy.row_vectors.value == 0:
        whole_rows = f"{text(copy.threads)} % {text(copy.row_vectors)} == 0"
        yield Check(whole_rows, f"{what} of {name} step by whole rows")


def _copy_steps(kernel: Kernel) -> Iterator[int]:
    """The steps of a K tile that issue asynchronous copies and go by their number in the text."""
    for statement in walk(kernel.body):
        match statement:
            case If(Equal(right=Int(value=step))):
                yield step
