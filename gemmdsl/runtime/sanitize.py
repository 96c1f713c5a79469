"""Has compute-sanitizer watch kernels: a process of its own runs them, one tool at a time.

What runs there is `gemmdsl.runtime.exercise`; results are compared there too.
"""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from gemmdsl.cuda_source import CudaSource
from gemmdsl.toolchain.locate import find_tool
from gemmdsl.toolchain.nvcc import workspace
from gemmdsl.toolchain.process import run_tool

Tool = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
TOOLS: tuple[Tool, ...] = get_args(Tool)
# What the words of --sanitize ask for here.
TOOLS_OF: dict[str, tuple[Tool, ...]] = {
    "race": ("racecheck", "synccheck"),
    "memory": ("memcheck",),
    "init": ("initcheck",),
    "align": ("memcheck",),
}

_FOUND = 86
_TIMEOUT = 900.0
_SHOWN_LINES = 24
_PREFIX = "========="
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (.*)")
_CHILD = "import sys; sys.path.insert(0, {root!r}); from gemmdsl.runtime.exercise import main; main({jobs!r})"


@dataclass(frozen=True, slots=True)
class Sanitized:
    """What a tool said: `title` is its summary, `text` the beginning of its findings, "" when it is clean."""

    clean: bool
    title: str
    text: str = ""


def sanitized(sources: Sequence[CudaSource], tool: Tool) -> Sanitized:
    """Run kernels under a tool of compute-sanitizer, each entry point on shapes of its own.

    ToolError without compute-sanitizer, or when it is not done after fifteen minutes.
    """
    sanitizer = find_tool("compute-sanitizer")
    with workspace() as folder:
        jobs = folder / "jobs"
        jobs.write_bytes(pickle.dumps(tuple(sources)))
        child = _CHILD.format(root=str(Path(__file__).parents[2]), jobs=str(jobs))
        # The driver's own probing calls fail on purpose; only accesses of kernels are of interest.
        words = ["--tool", tool, "--error-exitcode", str(_FOUND), "--report-api-errors", "no"]
        outcome = run_tool([sanitizer.path, *words, sys.executable, "-c", child], timeout=_TIMEOUT)
    return judged(outcome.status, outcome.text, outcome.messages)


def judged(status: int, text: str, messages: str) -> Sanitized:
    """The verdict on a run that ended with `status`, having written `text` and, as stderr, `messages`."""
    lines = [line.removeprefix(_PREFIX).rstrip() for line in text.splitlines() if line.startswith(_PREFIX)]
    summaries = [match[1] for line in lines if (match := _SUMMARY.search(line))]
    if status == 0 and summaries:
        return Sanitized(True, summaries[-1])
    said = [line for line in lines if not _SUMMARY.search(line)] if status == _FOUND else []
    said = said or (messages or text).strip().splitlines()[-_SHOWN_LINES:]
    title = summaries[-1] if status == _FOUND and summaries else f"the run ended with status {status}"
    return Sanitized(False, title, "\n".join(said[:_SHOWN_LINES]))
