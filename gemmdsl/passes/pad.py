"""Padding: unused elements at the end of each shared row move rows to other banks."""

from __future__ import annotations

from dataclasses import replace

from gemmdsl.ir import Kernel, Staging
from gemmdsl.layout import padded
from gemmdsl.passes._tiles import map_staging
from gemmdsl.spec import StagedName


def pad(kernel: Kernel) -> Kernel:
    """Lengthens the shared rows of every operand whose stage says `pad N` by N elements.

    Before: rows follow each other without a gap, so that equal columns of rows 32 words apart share a bank.
    After: row r starts r * N words later.  Needs: the padded row still holds whole vectors.
    """

    def change(name: StagedName, staging: Staging) -> Staging:
        extra = kernel.spec.schedule.stage(name).pad
        return replace(staging, tile=padded(staging.tile, extra)) if extra else staging

    return map_staging(kernel, change)
