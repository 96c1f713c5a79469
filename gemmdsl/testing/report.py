"""What `gemmdsl test` found, as text for people, JSON and JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from gemmdsl.diagnostics import printable
from gemmdsl.testing import case as cases
from gemmdsl.testing.engine import KernelReport
from gemmdsl.wording import several

SCHEMA = "gemmdsl.test/1"


@dataclass(frozen=True, slots=True)
class Entry:
    """The report of one schedule, the command that repeats its failure and the file that keeps it (each ""
    when there is none)."""

    report: KernelReport
    command: str = ""
    saved: str = ""

    @property
    def title(self) -> str:
        spec = self.report.kernel.spec
        return f"{spec.schedule.name} for {spec.target.name}"


def summary(entries: Sequence[Entry]) -> str:
    """One line: how many schedules, cases and failures, and how long it took."""
    failed = sum(entry.report.failure is not None for entry in entries)
    runs = sum(entry.report.cases for entry in entries)
    seconds = sum(entry.report.seconds for entry in entries)
    schedules = several(len(entries), "schedule")
    told = f"{failed} of {schedules} FAILED" if failed else f"{schedules} right"
    return f"{told}: {several(runs, 'run')} in {seconds:.1f} s"


def text(entry: Entry) -> str:
    """A line for a schedule that is right; what is wrong, and how to repeat it, for one that is not."""
    report = entry.report
    if report.failure is None:
        taken = ", ".join(f"{path or 'nothing to launch'} {count}" for path, count in _paths(report))
        runs, calls = several(report.cases, "run"), several(report.calls, "call")
        lines = [f"{entry.title}: right in {runs} ({taken}), and in {calls} with wrong or odd arguments"]
        lines += [f"  note    no run took path {path}" for path in report.unmet]
        if report.drifting:
            lines.append(
                f"  note    errors beyond rounding that averages out in {several(report.drifting, 'run')}"
            )
        return "\n".join(lines)
    lines = [f"{entry.title}: WRONG, after {several(report.cases, 'right run')}"]
    for finding in report.failure.findings:
        lines.append(f"  {finding.kind:<7} {finding.message}")
        lines += [f"  {'':<7} {note}" for note in finding.notes]
    lines += [f"  repeat  {entry.command}"] if entry.command else []
    lines += [f"  saved   {entry.saved}"] if entry.saved else []
    return "\n".join(lines)


def to_json(entries: Sequence[Entry]) -> str:
    """One object: `ok`, and for each schedule what was run and what is wrong."""
    kernels = [_entry(entry) for entry in entries]
    ok = all(kernel["ok"] for kernel in kernels)
    return json.dumps({"schema": SCHEMA, "ok": ok, "schedules": kernels}, indent=2)


def to_junit(entries: Sequence[Entry], name: str) -> str:
    """A test suite called `name`, one test case for each schedule."""
    failures = sum(entry.report.failure is not None for entry in entries)
    seconds = sum(entry.report.seconds for entry in entries)
    counts = {"tests": str(len(entries)), "failures": str(failures), "errors": "0", "time": f"{seconds:.3f}"}
    suite = ElementTree.Element("testsuite", {"name": printable(name), **counts})
    for entry in entries:
        report = entry.report
        spec = report.kernel.spec
        attributes = {"classname": spec.problem.name, "name": entry.title, "time": f"{report.seconds:.3f}"}
        element = ElementTree.SubElement(suite, "testcase", attributes)
        if report.failure is not None:
            failure = ElementTree.SubElement(element, "failure", {"message": printable(str(report.failure))})
            failure.text = printable(text(entry), keep="\n\t")
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def _paths(report: KernelReport) -> list[tuple[str, int]]:
    """Paths in the launcher's order of preference, then the runs that launched nothing."""
    order = [entry.path for entry in report.kernel.launch_plan.entries]
    return [(path, report.paths[path]) for path in (*order, "") if report.paths[path]]


def _entry(entry: Entry) -> dict[str, Any]:
    report, failure = entry.report, entry.report.failure
    spec = report.kernel.spec
    told: dict[str, Any] = {
        "problem": spec.problem.name,
        "schedule": spec.schedule.name,
        "target": spec.target.name,
        "ok": failure is None,
        "runs": report.cases,
        "paths": {path or "none": count for path, count in _paths(report)},
        "odd_calls": report.calls,
        "drifting": report.drifting,
        "seconds": round(report.seconds, 3),
    }
    if failure is not None:
        told["findings"] = [
            {"kind": finding.kind, "message": finding.message} for finding in failure.findings
        ]
        told["case"] = None if failure.case is None else cases.to_json(failure.case)
        told["command"], told["saved"] = entry.command, entry.saved
    return told
