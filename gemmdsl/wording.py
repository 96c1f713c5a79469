"""Numbers with the nouns that they count."""

from __future__ import annotations


def several(count: int, noun: str, plural: str = "") -> str:
    """`1 block`, `1,024 blocks`; `plural` for nouns that take more than an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
