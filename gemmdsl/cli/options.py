"""Values of options that several commands have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gemmdsl.emulator.checker import Sanitizer


def sanitizers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[Sanitizer, ...]:
    """What is watched: a list with commas, or nothing for `none`; BadParameter for other words."""
    from gemmdsl.emulator.checker import SANITIZERS

    words = [word.strip() for word in value.split(",")]
    if words == ["none"]:
        return ()
    for word in words:
        if word not in SANITIZERS:
            raise click.BadParameter(f"{word!r} is none of {', '.join(SANITIZERS)}, or 'none'")
    return tuple(known for known in SANITIZERS if known in words)
