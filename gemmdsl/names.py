"""Which names problems and schedules may have: together they name C functions and files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from gemmdsl.syntax import Name

Report = Callable[..., None]

MAX_NAME = 64
# C++ keywords and names of the standard headers that are two words joined by an underscore.
_TAKEN = re.compile(
    r"(const|dynamic|reinterpret|static)_cast|static_assert|thread_local|co_(await|return|yield)"
    r"|(and|or|xor|not)_eq|(wchar|char(8|16|32)|size|ssize|ptrdiff|max_align|nullptr|time|clock|div|off)_t"
    r"|u?int(_fast|_least)?(8|16|32|64)_t|u?int(max|ptr)_t"
)


def check_name(name: Name, report: Report) -> None:
    """Refuses names that C++ reserves or that are too long for a file."""
    text = name.text
    if len(text) > MAX_NAME:
        report("G120", f"a name has at most {MAX_NAME} characters, not {len(text)}", name.span)
    elif text.startswith("_") or text.endswith("_") or "__" in text:
        why = "names that begin or end with an underscore, or have two in a row, are reserved in C++"
        report("G120", f"`{text}` cannot be part of a function's name", name.span, because=why)


def check_symbol(pairs: Iterable[tuple[str, Name]], report: Report) -> None:
    """Refuses a problem and schedule whose function PROBLEM_SCHEDULE C++ or another schedule already has."""
    seen: dict[str, Name] = {}
    for problem, schedule in pairs:
        symbol = f"{problem}_{schedule.text}"
        before = seen.setdefault(symbol, schedule)
        if _TAKEN.fullmatch(symbol):
            report("G121", f"the function would be called `{symbol}`, which C++ already has", schedule.span)
        elif before is not schedule:
            text = f"the function would be called `{symbol}`, like that of schedule `{before.text}`"
            report("G121", text, schedule.span, other_schedule=before.span)
