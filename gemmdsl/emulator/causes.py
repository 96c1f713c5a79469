"""From a place in the emitted text to the word of the schedule that it follows from."""

from __future__ import annotations

import re

from gemmdsl.cuda_source import CudaSource
from gemmdsl.source import Source, Span

_LINE = re.compile(r"\bon line (\d+)")
_FUNCTION = re.compile(r"(?:__device__[^(;]*?|__global__ void __launch_bounds__\([^)]*\)\s+)(\w+)\(")
# Findings about the order of accesses, which the number of buffers decides before all else.
_ORDER = ("race on", "no wait between", "no thread has written", "barrier", "deadlock")


def cause(source: CudaSource, message: str, functions: tuple[str, ...]) -> tuple[Source, Span] | None:
    """Where the schedule says what the failed launch's `message` is about; None when that is not known.

    `functions` are those around the place of which the message speaks, innermost first; without them, the
    line that it names tells the function.
    """
    schedule = source.schedule
    if schedule is None:
        return None
    if not functions and (line := _LINE.search(message)):
        functions = tuple(filter(None, [function_at(source.text, int(line[1]))]))
    words = {origin.function: origin.words for origin in source.origins}
    known = next((words[function] for function in functions if function in words), None)
    if known is None:
        return None
    if any(mark in message for mark in _ORDER):
        known = ("buffers", *known)
    return schedule.source, schedule.find(known)


def function_at(text: str, line: int) -> str:
    """The function or kernel that a line of the text belongs to; "" for a line before all of them."""
    before = "\n".join(text.split("\n")[:line])
    names = _FUNCTION.findall(before)
    return names[-1] if names else ""
