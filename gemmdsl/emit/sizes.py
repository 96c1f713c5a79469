"""Sizes as the text names them: what an edit of one must not change, and what extents are asked for."""

from __future__ import annotations

from collections.abc import Iterator

from gemmdsl.conditions import Multiple
from gemmdsl.emit.checks import Check
from gemmdsl.emit.printing import Printer
from gemmdsl.index import Int, Named
from gemmdsl.ir import Kernel
from gemmdsl.spec import Axis


def sizes_along(kernel: Kernel, axis: Axis) -> tuple[Named, ...]:
    """What an extent has to be a multiple of where its guards are left out: of tiles, or within vectors that
    one instruction copies."""
    block = {"M": kernel.block_m, "N": kernel.block_n, "K": kernel.block_k}[axis]
    copied = kernel.asynchronous
    tiles = [(s.tile.operand, s.copy.width) for s in kernel.staging or ()]
    along = [width for operand, width in tiles if operand.name in copied and operand.contiguous == axis]
    vectors = (width for width in along if isinstance(width, Named) and width.value > 1)
    return (*([block] if block is not None else []), *vectors)


def size_checks(kernel: Kernel, text: Printer) -> Iterator[Check]:
    """What has to hold of sizes beside `checks`, for all that was left out because of their values."""
    for condition in kernel.preconditions:
        if isinstance(condition, Multiple):
            # A multiple that is assumed is a number of its own: what it spares must stay spared.
            for size in sizes_along(kernel, condition.axis):
                if condition.of != size.value and condition.of % size.value == 0:
                    yield Check(f"{condition.of} % {size.name} == 0", f"what is assumed of {condition.axis}")
    ones = [size.name for size in _factors(kernel) if size.definition == Int(1) and size.name in text.used]
    if ones:
        same = " && ".join(f"{name} == 1" for name in dict.fromkeys(ones))
        yield Check(same, "factors of 1 are left out")


def _factors(kernel: Kernel) -> Iterator[Named]:
    """What formulas multiply and divide by."""
    yield from (kernel.block_m, kernel.block_n, kernel.c_vector)
    if kernel.block_k is not None:
        yield kernel.block_k
    for axis in (kernel.threads.rows, kernel.threads.cols):
        yield from (axis.count, axis.piece)
    for staging in kernel.staging or ():
        widths = (staging.copy.width, staging.store, staging.read)
        yield from (width for width in widths if isinstance(width, Named))
