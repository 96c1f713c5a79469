"""XOR swizzle: elements change places within their shared row by a pattern of the row's number."""

from __future__ import annotations

from dataclasses import replace

from gemmdsl.ir import Kernel, Staging
from gemmdsl.layout import swizzled
from gemmdsl.passes._tiles import map_staging
from gemmdsl.spec import StagedName


def swizzle(kernel: Kernel) -> Kernel:
    """Spreads the columns of neighbouring rows over the banks without spending memory.

    Before: column c of every row lies at c.  After: it lies at c ^ (pattern of the row) * unit, where a unit
    is the widest vector stored or read, so that vectors stay whole and aligned.  Needs: no padding, a row of
    a power-of-two number of units.
    """

    def change(name: StagedName, staging: Staging) -> Staging:
        stage = kernel.spec.schedule.stage(name)
        return replace(staging, tile=swizzled(staging.tile, stage.unit)) if stage.swizzle else staging

    return map_staging(kernel, change)
