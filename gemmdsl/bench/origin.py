"""Where and when figures are from."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gemmdsl.diagnostics import GemmError
from gemmdsl.runtime.device import Gpu
from gemmdsl.toolchain.locate import find_tool
from gemmdsl.version import __version__

_DRIVER = Path("/proc/driver/nvidia/version")
_DRIVER_VERSION = re.compile(r"\b[0-9]{3,}\.[0-9]+(?:\.[0-9]+)?\b")
_PACKAGE = Path(__file__).parents[1]
# The commit alone, whatever tags there are.
_DESCRIBE = ("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where and when figures are from; what is not known is "". `toolkit` is nvcc's release."""

    device: str
    target: str
    driver: str
    toolkit: str
    gemmdsl: str
    commit: str
    date: str


def origin_of(gpu: Gpu, commit: str = "") -> Origin:
    """Now, here; `commit` stands for that of a checkout without its history."""
    toolkit = ""
    with suppress(GemmError):
        toolkit = find_tool("nvcc").release
    return Origin(
        device=gpu.limits.name,
        target=gpu.limits.target,
        driver=_driver(),
        toolkit=toolkit,
        gemmdsl=__version__,
        commit=commit or _commit(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _driver() -> str:
    """The driver's version, where the system tells it."""
    try:
        found = _DRIVER_VERSION.search(_DRIVER.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return found[0] if found else ""


def _commit() -> str:
    """The commit of the checkout that gemmdsl runs from, if it runs from one."""
    if not (_PACKAGE.parent / ".git").exists():
        return ""
    words = ["git", "-C", str(_PACKAGE.parent), *_DESCRIBE]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
