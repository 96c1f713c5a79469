"""Adds up what an access of the text costs, one execution by all threads of a block after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.analysis.access import Count, Kind, Space
from gemmdsl.analysis.banks import INACTIVE, warps_wavefronts
from gemmdsl.analysis.sectors import sectors
from gemmdsl.target import WARP_SIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gemmdsl.index import Array

    Mask = NDArray[np.bool_]


@dataclass(slots=True)
class Tally:
    """Adds up the executions of one access."""

    space: Space
    kind: Kind
    width: int
    total: Count = field(default_factory=Count)
    dearest: int = -1
    example: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()

    def add(self, addresses: Array, active: Mask, times: int, sources: Array | None = None) -> Count:
        """`times` executions by every warp of a block, whose cost for one is returned.

        Addresses of threads, in words or bytes: one row of them, or one row per instruction.  A copy to
        shared memory has `sources`, the words that it reads.
        """
        lanes = _warps(np.where(active, addresses, INACTIVE))
        taking = lanes != INACTIVE
        read = None if sources is None else _warps(np.where(active, sources, INACTIVE))
        if self.space == "shared":
            assert self.kind != "add", "shared memory is not added to"
            cost, ideal = warps_wavefronts(self.kind if read is None else "copy", self.width, lanes, read)
        else:
            cost, ideal = sectors(self.width, lanes, taking)
        requests = int(taking.any(axis=1).sum())
        once = Count(requests, int(cost.sum()), int(ideal.sum()))
        self.total += once * times
        warp = int(cost.argmax())
        if requests and cost[warp] > self.dearest:
            self.dearest = int(cost[warp])
            self.example = tuple(int(lane) for lane in lanes[warp])
            self.sources = () if read is None else tuple(int(lane) for lane in read[warp])
        return once


def _warps(lanes: Array) -> Array:
    """[warps][32]; a last warp with missing lanes is filled up with idle ones."""
    missing = -lanes.shape[-1] % WARP_SIZE
    if missing:
        idle = np.full((*lanes.shape[:-1], missing), INACTIVE)
        lanes = np.concatenate([lanes, idle], axis=-1)
    return lanes.reshape(-1, WARP_SIZE)
