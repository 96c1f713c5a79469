"""How many registers to expect before a kernel is compiled."""

from __future__ import annotations

from gemmdsl.ir import Kernel, LoadTile, walk
from gemmdsl.occupancy import registers_for
from gemmdsl.target import MAX_REGISTERS_PER_THREAD

# Addresses, sizes, loop counters and predicates of a kernel of this compiler; calibrated on its examples.
_ADDRESSING = 24
_REGISTER_STEP = 8


def estimated_registers(kernel: Kernel) -> int:
    """Registers per thread to expect before compiling.

    Accumulators, two generations of fragments (ptxas loads the next while the last is used), what travels
    through registers to shared memory, and a constant for addressing; at most what the launch bounds leave.
    """
    rows, cols = kernel.threads.rows.count.value, kernel.threads.cols.count.value
    total = rows * cols + 2 * (rows + cols) + _ADDRESSING
    for staging in kernel.staging or ():
        if any(
            isinstance(statement, LoadTile) and statement.operand == staging.tile.operand.name
            for statement in walk(kernel.body)
        ):
            total += staging.copy.copies.value * staging.copy.width.value
    most = registers_for(
        kernel.spec.target, kernel.threads.threads.value, kernel.shared_bytes, max(1, kernel.min_blocks)
    )
    expected = -(-total // _REGISTER_STEP) * _REGISTER_STEP
    return min(expected, MAX_REGISTERS_PER_THREAD, most or MAX_REGISTERS_PER_THREAD)
