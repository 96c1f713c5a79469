"""Runs a tool of the CUDA toolkit: output captured, time limited, nothing left running."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gemmdsl.toolchain.errors import cannot_start, timed_out


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a tool ended; `text` is its stdout, `messages` its stderr."""

    status: int
    text: str
    messages: str


def run_tool(command: Sequence[str | Path], folder: Path | None = None, timeout: float = 60.0) -> Outcome:
    """Run `command` (its first word a path) in `folder` for at most `timeout` seconds.

    ToolError when the tool cannot be started or runs out of time.  However this ends (KeyboardInterrupt too),
    the tool and the processes it started are gone.
    """
    environment = os.environ | {"LC_ALL": "C"}
    if folder is not None:
        # Intermediate files go where they are removed even if the tool is killed.
        environment["TMPDIR"] = str(folder)
    try:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            # A group of its own: nvcc starts cicc and ptxas, and all of them must end together.
            start_new_session=True,
        )
    except OSError as error:
        raise cannot_start(str(command[0]), error.strerror or str(error)) from error
    with process:
        try:
            text, messages = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            _end(process)
            raise timed_out(Path(command[0]).name, timeout) from error
        except BaseException:
            _end(process)
            raise
    return Outcome(process.returncode, text, messages)


def _end(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
