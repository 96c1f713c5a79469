"""Diagnostics for machines: JSON, SARIF 2.1.0 and annotations of GitHub's CI."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import PurePath
from urllib.parse import quote

from gemmdsl.diagnostics import Diagnostic, Severity, render_all, summary
from gemmdsl.rules import RULES

SCHEMA = "gemmdsl.check/1"
FORMATS = ("text", "json", "sarif", "github")


def report(diagnostics: Iterable[Diagnostic], form: str, version: str) -> str:
    """All diagnostics in one of FORMATS; `version` is that of the tool.  Ends in a newline if not empty."""
    found = tuple(diagnostics)
    match form:
        case "json":
            return _dumped({"schema": SCHEMA, "diagnostics": [_plain(diagnostic) for diagnostic in found]})
        case "sarif":
            return _dumped(_sarif(found, version))
        case "github":
            return "".join(f"{_annotation(diagnostic)}\n" for diagnostic in found)
        case "text":
            return render_all(found) + (f"\n{summary(found)}\n" if found else "")
        case _:
            raise ValueError(f"no report format {form!r}")


def _dumped(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _region(diagnostic: Diagnostic) -> tuple[int, int, int, int] | None:
    """First and last line and column; the last column is the one behind the text."""
    if diagnostic.source is None or diagnostic.span is None:
        return None
    first = diagnostic.source.position(diagnostic.span.start)
    return (*first, *diagnostic.source.position(max(diagnostic.span.end, diagnostic.span.start)))


def _plain(diagnostic: Diagnostic) -> dict[str, object]:
    region = _region(diagnostic)
    names = ("line", "column", "end_line", "end_column")
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "file": diagnostic.source.name if diagnostic.source else None,
        **dict(zip(names, region or (None,) * 4, strict=True)),
        "notes": [{"label": note.label, "text": note.text} for note in diagnostic.notes],
    }


def _sarif(found: tuple[Diagnostic, ...], version: str) -> dict[str, object]:
    formulas = {rule.code: rule.formula for rule in RULES}
    codes = sorted({diagnostic.code for diagnostic in found})
    rules = [
        {"id": code, **({"shortDescription": {"text": formulas[code]}} if code in formulas else {})}
        for code in codes
    ]
    driver = {"name": "gemmdsl", "version": version, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(diagnostic, codes) for diagnostic in found],
    }
    schema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
    return {"$schema": schema, "version": "2.1.0", "runs": [run]}


def _result(diagnostic: Diagnostic, codes: list[str]) -> dict[str, object]:
    text = "\n".join([diagnostic.message, *map(str, diagnostic.notes)])
    result: dict[str, object] = {
        "ruleId": diagnostic.code,
        "ruleIndex": codes.index(diagnostic.code),
        "level": diagnostic.severity.value,
        "message": {"text": text},
    }
    if diagnostic.source is not None:
        path = PurePath(diagnostic.source.name).as_posix()
        place: dict[str, object] = {"artifactLocation": {"uri": quote(path, errors="surrogateescape")}}
        region = _region(diagnostic)
        if region is not None:
            names = ("startLine", "startColumn", "endLine", "endColumn")
            place["region"] = dict(zip(names, region, strict=True))
        result["locations"] = [{"physicalLocation": place}]
    return result


def _annotation(diagnostic: Diagnostic) -> str:
    command = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
    properties: dict[str, object] = {"title": diagnostic.code}
    if diagnostic.source is not None:
        properties["file"] = diagnostic.source.name
    region = _region(diagnostic)
    if region is not None:
        properties |= dict(zip(("line", "col", "endLine", "endColumn"), region, strict=True))
    listed = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in properties.items())
    text = "\n".join([diagnostic.message, *map(str, diagnostic.notes)])
    return f"::{command[diagnostic.severity]} {listed}::{_escaped(text)}"


def _escaped(text: str, also: str = "") -> str:
    """The text with the characters that a workflow command gives a meaning as %XX."""
    return "".join(f"%{ord(char):02X}" if char in "%\r\n" + also else char for char in text)
