"""Shared memory: how many wavefronts the access of a warp takes.

The memory has 32 banks, each one word (4 bytes) wide.  A warp's access is served in passes over groups of
lanes: all 32 for 32-bit accesses, half-warps for 64-bit ones, quarter-warps for 128-bit ones.  Wide *loads*
whose neighbours (every lane i and i^1, or every lane i and i^2) read the same address need half the passes.
A pass costs as many wavefronts as there are distinct words in its fullest bank.

Asynchronous *copies* move words within one array of banks, since the L1 cache that they read and shared
memory are the same: a copy has a bank on either side.  A pass costs as many wavefronts as lanes share a bank,
on the one side or the other, with the lane that shares most; equal addresses are no exception.  Copies of 128
bits pass the L1 cache by: what comes from one line of 128 bytes and goes to one row of all banks is a
wavefront.

The rules are empirical: they reproduce every pattern that was measured with Nsight Compute on an H200
(tests/analysis/data).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from gemmdsl.target import WARP_SIZE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

BANKS = 32
WORD = 4
# Stands for a lane that takes no part in an access.
INACTIVE = -1

AccessKind = Literal["load", "store", "copy"]
# Copies as wide as this pass the L1 cache by.
BYPASS = 16


class Passes(NamedTuple):
    """What an access costs: `wavefronts` of which `ideal` are without conflict."""

    wavefronts: int
    ideal: int

    @property
    def conflicts(self) -> int:
        """Wavefronts that exist only because lanes want different words of one bank."""
        return self.wavefronts - self.ideal


def wavefronts(
    kind: AccessKind,
    width_bytes: int,
    word_addresses: Sequence[int],
    sources: Sequence[int] | None = None,
) -> Passes:
    """Wavefronts of one warp's access: `word_addresses` has, for each of 32 lanes, the first word's number.

    `width_bytes` is 4, 8 or 16; addresses are multiples of the width.  A lane at INACTIVE (-1) takes no part;
    an access without any active lane costs nothing.  A copy has `sources` besides, the numbers of the words
    in global memory that it reads, INACTIVE for a lane that reads nothing.  ValueError for a wrong width,
    count or address, and for what is no whole number.
    """
    origins = None if sources is None else _lanes(sources)[np.newaxis]
    costs, ideals = warps_wavefronts(kind, width_bytes, _lanes(word_addresses)[np.newaxis], origins)
    return Passes(int(costs[0]), int(ideals[0]))


def _lanes(numbers: Sequence[int]) -> NDArray[np.int64]:
    """[32] words' numbers; ValueError for anything that would have to be rounded or cut to be one."""
    given = np.asarray(numbers)
    if given.shape != (WARP_SIZE,):
        raise ValueError(f"a warp has {WARP_SIZE} lanes, but there are {given.size} addresses")
    if given.dtype.kind not in "iu" or (given > np.iinfo(np.int64).max).any():
        raise ValueError("word addresses are whole numbers below 2^63")
    return given.astype(np.int64)


def warps_wavefronts(
    kind: AccessKind, width_bytes: int, word_addresses: ArrayLike, sources: ArrayLike | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(wavefronts, ideal) of many warps' accesses: [accesses][32] word addresses, two results [accesses].

    `sources` are addresses as well, of the same shape; only copies have some.
    """
    addresses = np.asarray(word_addresses, dtype=np.int64)
    if kind not in ("load", "store", "copy"):
        raise ValueError(f"an access is a load, a store or a copy, not {kind!r}")
    if (kind == "copy") != (sources is not None):
        raise ValueError("a copy has addresses that it reads from, a load or a store has none")
    if not isinstance(width_bytes, int | np.integer) or width_bytes not in (4, 8, 16):
        raise ValueError(f"an access is 4, 8 or 16 bytes wide, not {width_bytes!r}")
    words = int(width_bytes) // WORD
    active = addresses != INACTIVE
    origins = None if sources is None else np.asarray(sources, dtype=np.int64)
    for numbers in (addresses,) if origins is None else (addresses, origins):
        if ((numbers < INACTIVE) | ((numbers != INACTIVE) & (numbers % words != 0))).any():
            raise ValueError(f"word addresses are multiples of {words} and not negative, or {INACTIVE}")
    if origins is not None:
        moved = _copied if width_bytes < BYPASS else _passed_by
        return moved(addresses, origins, active, words)
    full = _grouped(addresses, active, words, words)
    if kind != "load" or words == 1:
        return full
    halved = _grouped(addresses, active, words, words // 2)
    merged = _neighbours_agree(addresses, active, 1) | _neighbours_agree(addresses, active, 2)
    return np.where(merged, halved[0], full[0]), np.where(merged, halved[1], full[1])


def _copied(
    addresses: NDArray[np.int64], sources: NDArray[np.int64], active: NDArray[np.bool_], words: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cost and number of passes of copies of `words` words a lane, in as many groups of neighbours."""
    shape = (len(addresses), words, WARP_SIZE // words)
    there = active.reshape(shape)
    meet = np.zeros((*shape, shape[-1]), dtype=np.bool_)
    for numbers in (addresses, sources):
        # Lanes share all of their banks or none: addresses are multiples of the width.
        bank = numbers.reshape(shape) % BANKS // words
        taking = numbers.reshape(shape) != INACTIVE
        same = bank[..., :, np.newaxis] == bank[..., np.newaxis, :]
        meet |= same & taking[..., :, np.newaxis] & taking[..., np.newaxis, :]
    meet &= there[..., :, np.newaxis] & there[..., np.newaxis, :]
    cost: NDArray[np.int64] = meet.sum(axis=3).max(axis=2).sum(axis=1)
    ideal: NDArray[np.int64] = there.any(axis=2).sum(axis=1)
    return cost, ideal


def _passed_by(
    addresses: NDArray[np.int64], sources: NDArray[np.int64], active: NDArray[np.bool_], words: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cost and number of passes of copies that do not go through the L1 cache.

    Lanes that read nothing and write zeros are served together, as if from a line of their own.
    """
    line, row = np.where(sources == INACTIVE, INACTIVE, sources // BANKS), addresses // BANKS
    same = (line[:, :, np.newaxis] == line[:, np.newaxis, :]) & (
        row[:, :, np.newaxis] == row[:, np.newaxis, :]
    )
    # Of the lanes that move the same line to the same row, the first one counts.
    earlier = np.tril(np.ones((WARP_SIZE, WARP_SIZE), dtype=np.bool_), -1)
    first = active & ~(same & active[:, np.newaxis, :] & earlier).any(axis=2)
    ideal: NDArray[np.int64] = active.reshape(len(addresses), words, -1).any(axis=2).sum(axis=1)
    return first.sum(axis=1), ideal


def _neighbours_agree(
    addresses: NDArray[np.int64], active: NDArray[np.bool_], distance: int
) -> NDArray[np.bool_]:
    """Whether every two active lanes i and i ^ distance have the same address."""
    partner = np.arange(WARP_SIZE) ^ distance
    either_idle = ~(active & active[:, partner])
    same: NDArray[np.bool_] = ((addresses == addresses[:, partner]) | either_idle).all(axis=1)
    return same


def _grouped(
    addresses: NDArray[np.int64], active: NDArray[np.bool_], words: int, passes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cost and number of passes when the lanes are served in `passes` groups of neighbours.

    A pass without an active lane is left out.
    """
    count = len(addresses)
    lanes = WARP_SIZE // passes
    touched = np.repeat(active, words, axis=1).reshape(count * passes, lanes * words)
    word = (addresses[:, :, np.newaxis] + np.arange(words)).reshape(count * passes, lanes * words)
    # Idle lanes get the number of a word that no one else has; it is not counted.
    word = np.sort(np.where(touched, word, INACTIVE), axis=1)
    first = np.ones_like(word, dtype=np.bool_)
    first[:, 1:] = word[:, 1:] != word[:, :-1]
    first &= word != INACTIVE
    group = np.broadcast_to(np.arange(count * passes)[:, np.newaxis], word.shape)
    filled = np.bincount((group * BANKS + word % BANKS)[first], minlength=count * passes * BANKS)
    fullest = filled.reshape(count, passes, BANKS).max(axis=2)
    return fullest.sum(axis=1), (fullest > 0).sum(axis=1)
