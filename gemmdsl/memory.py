"""How much memory a run may take: asked before any of it is allocated.

A process that takes more than there is is often ended without a word, long after its allocation succeeded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from gemmdsl.launch_errors import unusable

_GROUPS = Path("/sys/fs/cgroup")
_KIB = 1024


def require(needed: int, what: str) -> None:
    """LaunchError when `needed` bytes, which `what` takes, are more than there are."""
    free = available()
    if needed > free:
        raise unusable("", f"{what} take {_shown(needed)} of memory, and {_shown(free)} are free")


def available() -> int:
    """Bytes that this process can use: of the machine, and of the control groups (containers) around it."""
    return min((_of_machine(), *_of_groups()))


def _of_machine() -> int:
    told = re.search(r"^MemAvailable:\s*(\d+) kB", _text(Path("/proc/meminfo")), re.MULTILINE)
    if told:
        return int(told[1]) * _KIB
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_groups() -> Iterator[int]:
    """What each control group with a limit has left; files of programs that can be dropped count as free."""
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers == "":
            root, limit_name, usage_name = _GROUPS, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            root, limit_name, usage_name = (
                _GROUPS / "memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )
        else:
            continue
        own = PurePosixPath(name).relative_to("/")
        for group in (own, *own.parents):
            folder = root / group
            limit, usage = _text(folder / limit_name).strip(), _text(folder / usage_name).strip()
            if limit.isdigit() and usage.isdigit():
                cached = re.search(
                    r"^(?:total_)?inactive_file (\d+)$", _text(folder / "memory.stat"), re.MULTILINE
                )
                yield max(0, int(limit) - int(usage) + (int(cached[1]) if cached else 0))


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _shown(size: int) -> str:
    """As in `1.5 GiB`."""
    for unit, name in ((_KIB**3, "GiB"), (_KIB**2, "MiB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size:,} bytes"
