"""Which lanes meet in which bank: the passes of one access, word by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gemmdsl.analysis.banks import BANKS, BYPASS, INACTIVE, WORD, AccessKind
from gemmdsl.target import WARP_SIZE

# For each bank, what is wanted there: words, and the lanes that want each.
Banks = tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: for each bank, the distinct words wanted there and the lanes that want each.

    A copy has a word for each lane, equal or not, and `sources` besides: the words that it reads, in the
    banks of the L1 cache.
    """

    banks: Banks
    sources: Banks = ()

    @property
    def wavefronts(self) -> int:
        return len(self.meeting) if self.sources else max(len(words) for words in self.banks)

    @property
    def worst(self) -> int:
        """The first of the fullest banks."""
        return max(range(BANKS), key=lambda bank: len(self.banks[bank]))

    @property
    def meeting(self) -> tuple[int, ...]:
        """Lanes of a copy that share a bank, on either side, with the one that shares most, and that one."""
        shared: dict[int, set[int]] = {}
        for side in (self.banks, self.sources):
            for words in side:
                lanes = {lane for _, wanting in words for lane in wanting}
                for lane in lanes:
                    shared.setdefault(lane, set()).update(lanes)
        largest: set[int] = max(shared.values(), key=lambda lanes: len(lanes)) if shared else set()
        return tuple(sorted(largest))


def bank_map(
    kind: AccessKind, width_bytes: int, word_addresses: tuple[int, ...], sources: tuple[int, ...] = ()
) -> tuple[Pass, ...]:
    """The passes of an access by the rule of `gemmdsl.analysis.banks`; those without a lane are left out."""
    words = width_bytes // WORD
    if kind == "copy" and width_bytes == BYPASS:
        return _passed_by(word_addresses, sources, words)
    count = words
    if kind == "load" and words > 1 and any(_agree(word_addresses, distance) for distance in (1, 2)):
        count //= 2
    lanes = WARP_SIZE // count
    alone = kind == "copy"
    found = []
    for start in range(0, WARP_SIZE, lanes):
        group = range(start, start + lanes)
        to = _banks(word_addresses, group, words, alone)
        found.append(Pass(to, _banks(sources, group, words, alone) if alone else ()))
    return tuple(one for one in found if one.wavefronts)


def _passed_by(addresses: tuple[int, ...], sources: tuple[int, ...], words: int) -> tuple[Pass, ...]:
    """Each pass moves from one line to one row."""
    groups: dict[tuple[int, int], list[int]] = {}
    for lane, (word, source) in enumerate(zip(addresses, sources, strict=True)):
        if word != INACTIVE:
            line = INACTIVE if source == INACTIVE else source // BANKS
            groups.setdefault((line, word // BANKS), []).append(lane)
    return tuple(Pass(_banks(addresses, lanes, words, False)) for lanes in groups.values())


def _agree(addresses: tuple[int, ...], distance: int) -> bool:
    pairs = ((addresses[lane], addresses[lane ^ distance]) for lane in range(WARP_SIZE))
    return all(one == other or INACTIVE in (one, other) for one, other in pairs)


def _banks(addresses: Sequence[int], lanes: Sequence[int], words: int, alone: bool) -> Banks:
    """Who wants which word of which bank; `alone`: lanes that want the same word do not share it."""
    wanted: list[dict[tuple[int, int], list[int]]] = [{} for _ in range(BANKS)]
    for lane in lanes:
        if addresses[lane] != INACTIVE:
            for word in range(addresses[lane], addresses[lane] + words):
                wanted[word % BANKS].setdefault((word, lane if alone else 0), []).append(lane)
    return tuple(tuple((word, tuple(by)) for (word, _), by in sorted(bank.items())) for bank in wanted)
