"""Launch bounds: how many blocks an SM must be able to hold."""

from __future__ import annotations

from dataclasses import replace

from gemmdsl.ir import Kernel


def launch_bounds(kernel: Kernel) -> Kernel:
    """Tells the compiler the schedule's `min_blocks`, which caps the registers of a thread in the first path.

    The block size itself is always declared; it follows from the thread map.
    """
    schedule = kernel.spec.schedule
    return replace(kernel, min_blocks=schedule.min_blocks) if schedule.min_blocks else kernel
