"""Global memory: how many 32-byte sectors the access of a warp touches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

SECTOR = 32
_NOWHERE = np.iinfo(np.int64).max


def sectors(
    width_bytes: int, byte_addresses: ArrayLike, active: ArrayLike | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(sectors, ideal) of each access: [accesses][32] byte addresses, multiples of `width_bytes`.

    `sectors` counts the distinct 32-byte sectors that active lanes touch; `ideal` is how many the distinct
    bytes they touch would fill.  Both are 0 for an access without an active lane.
    """
    addresses = np.asarray(byte_addresses, dtype=np.int64)
    mask = np.ones(addresses.shape, dtype=np.bool_) if active is None else np.asarray(active, dtype=np.bool_)
    first = _distinct(np.where(mask, addresses // SECTOR, _NOWHERE))
    units = _distinct(np.where(mask, addresses // width_bytes, _NOWHERE))
    return first, -(-units * width_bytes // SECTOR)


def _distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many different numbers each row has, _NOWHERE aside."""
    ordered = np.sort(numbers, axis=1)
    new = np.ones_like(ordered, dtype=np.bool_)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    count: NDArray[np.int64] = (new & (ordered != _NOWHERE)).sum(axis=1)
    return count
