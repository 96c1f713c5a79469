"""Failing examples as files: what is needed to repeat one, whatever becomes of the file it came from.

NAME.gemm holds the schedule as it was compiled, every word written out, below a comment with the command and
what was wrong; NAME.cu the text of a kernel that was edited by hand; NAME.json the case, for later runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from gemmdsl.diagnostics import printable
from gemmdsl.emulator.checker import SANITIZERS
from gemmdsl.files import make_folder, write_text
from gemmdsl.spec import Spec
from gemmdsl.testing import case as cases
from gemmdsl.testing.case import Case
from gemmdsl.testing.outcome import Finding
from gemmdsl.testing.text import spec_text

# The folder where they are kept.
FAILURES = ".gemmdsl/failures"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Saved:
    """Where a failing example is, and the command that repeats it from there."""

    path: Path
    command: str


def save(folder: Path, spec: Spec, case: Case, findings: tuple[Finding, ...], edited: str = "") -> Saved:
    """Write the example; `edited` is the text of a hand-edited kernel.  OutputError when that fails."""
    text = spec_text(spec)
    data: dict[str, Any] = {"format": _FORMAT, "schedule": spec.symbol, "case": cases.to_json(case)}
    digest = sha256(json.dumps([text, data, edited]).encode()).hexdigest()[:10]
    make_folder(folder)
    path = folder / f"{spec.symbol}-{digest}.gemm"
    source = str(path.with_suffix(".cu")) if edited else ""
    watched = ",".join(finding.kind for finding in findings if finding.kind in SANITIZERS)
    command = cases.command(
        spec.problem, case, str(path), spec.schedule.name, source=source, sanitize=watched
    )
    told = [f"# {printable(line)}" for finding in findings for line in str(finding).splitlines()]
    if edited:
        write_text(path.with_suffix(".cu"), edited)
    write_text(path, "\n".join([*told, f"# {printable(command)}", text]))
    data |= {"findings": [str(finding) for finding in findings], "command": command}
    write_text(path.with_suffix(".json"), json.dumps(data, indent=2) + "\n")
    return Saved(path, command)


def saved_cases(folder: Path, spec: Spec) -> Iterator[Case]:
    """Cases on which a schedule of that name failed before; files that are no such case are passed over."""
    with suppress(OSError):
        for path in sorted(folder.glob(f"{spec.symbol}-*.json")):
            with suppress(OSError, ValueError, KeyError, TypeError):
                data = json.loads(path.read_text(encoding="utf-8"))
                if data["format"] == _FORMAT and data["schedule"] == spec.symbol:
                    yield cases.from_json(data["case"])
