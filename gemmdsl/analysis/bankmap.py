"""Which lanes meet in which bank: the passes of one access, word by word."""

from __future__ import annotations

from dataclasses import dataclass

from gemmdsl.analysis.banks import BANKS, INACTIVE, WORD, AccessKind
from gemmdsl.target import WARP_SIZE


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: for each bank, the distinct words wanted there and the lanes that want each."""

    banks: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]

    @property
    def wavefronts(self) -> int:
        return max(len(words) for words in self.banks)

    @property
    def worst(self) -> int:
        """The first of the fullest banks."""
        return max(range(BANKS), key=lambda bank: len(self.banks[bank]))


def bank_map(kind: AccessKind, width_bytes: int, word_addresses: tuple[int, ...]) -> tuple[Pass, ...]:
    """The passes of an access by the rule of `gemmdsl.analysis.banks`; those without a lane are left out."""
    words = width_bytes // WORD
    count = words
    if kind == "load" and words > 1 and any(_agree(word_addresses, distance) for distance in (1, 2)):
        count //= 2
    lanes = WARP_SIZE // count
    found = (
        _pass(word_addresses, range(start, start + lanes), words) for start in range(0, WARP_SIZE, lanes)
    )
    return tuple(one for one in found if one.wavefronts)


def _agree(addresses: tuple[int, ...], distance: int) -> bool:
    pairs = ((addresses[lane], addresses[lane ^ distance]) for lane in range(WARP_SIZE))
    return all(one == other or INACTIVE in (one, other) for one, other in pairs)


def _pass(addresses: tuple[int, ...], lanes: range, words: int) -> Pass:
    wanted: list[dict[int, list[int]]] = [{} for _ in range(BANKS)]
    for lane in lanes:
        if addresses[lane] != INACTIVE:
            for word in range(addresses[lane], addresses[lane] + words):
                wanted[word % BANKS].setdefault(word, []).append(lane)
    return Pass(tuple(tuple((word, tuple(by)) for word, by in sorted(bank.items())) for bank in wanted))
