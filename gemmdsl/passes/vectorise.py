"""Vectorisation: neighbours move together, 2 or 4 floats per instruction."""

from __future__ import annotations

from dataclasses import replace

from gemmdsl.index import Int, Named
from gemmdsl.ir import Kernel, Staging
from gemmdsl.layout import copy_map, word_map
from gemmdsl.passes._tiles import map_staging
from gemmdsl.spec import StagedName


def vectorise(kernel: Kernel) -> Kernel:
    """Widens global loads, shared stores, shared reads and the stores of C as the schedule asks.

    Before: one float per access.  After: a thread copies vectors along the operand's contiguous axis, stores
    them whole where the shared tile keeps that axis, reads fragments as vectors where a shared row holds
    one k, and stores C in vectors.  Where vectors of an operand may be unaligned in global memory, its tile
    is copied word by word, by a map of its own: the words of torn vectors would lie apart for neighbouring
    threads.  Needs: widths that divide rows and pieces; rows of whole vectors.
    """
    schedule = kernel.spec.schedule

    def change(name: StagedName, staging: Staging) -> Staging:
        stage = schedule.stage(name)
        if (stage.load, stage.store, stage.read) == (1, 1, 1):
            return staging
        aligned = name in kernel.paths[-1].aligned
        return replace(
            staging,
            copy=copy_map(staging.tile, kernel.threads.threads, stage.load),
            words=word_map(staging.tile, kernel.threads.threads) if stage.load > 1 and not aligned else None,
            store=Named(staging.store.name, Int(stage.store), staging.store.note),
            read=Named(staging.read.name, Int(stage.read), staging.read.note),
        )

    changed = map_staging(kernel, change)
    if schedule.c_vector == kernel.c_vector.value:
        return changed
    return replace(changed, c_vector=Named("C_VECTOR", Int(schedule.c_vector), kernel.c_vector.note))
