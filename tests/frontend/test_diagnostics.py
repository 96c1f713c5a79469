"""Diagnostics as a person and as a program reads them.

Each text in cases/ has its diagnostics in goldens/; GEMMDSL_UPDATE_GOLDENS=1 rewrites those.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gemmdsl.checker import check
from gemmdsl.diagnostics import Diagnostic, GemmError, Note, Severity, error, render, render_all, summary
from gemmdsl.reports import report
from gemmdsl.rules import RULES
from gemmdsl.source import Source, Span
from tests.golden import assert_no_orphans, compare

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CASES = sorted((HERE / "cases").glob("*.gemm"))
SOURCE = Source("dir/a,b.gemm", "gemm 1\n  é\tblock 8 x 8\n")
FINDING = Diagnostic("G207", "50% off", SOURCE, Span(11, 16), (Note("rule", "a == b"),))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_rendered(case: Path) -> None:
    found = check(Source(case.name, case.read_text(encoding="utf-8")))
    compare(HERE / "goldens" / f"{case.stem}.txt", report(found, "text", "0"))


def test_no_orphans() -> None:
    assert_no_orphans(HERE / "goldens", {f"{case.stem}.txt" for case in CASES})


def test_layout() -> None:
    text = Source("tall.gemm", "\n" * 8 + "  warp 32 x 256\n")
    diagnostic = error("G207", "too tall", text, Span(10, 23), rule="m * n", nearest_legal="warp 32 x 128")
    assert (
        render(diagnostic)
        == """error[G207]: too tall
  --> tall.gemm:9:3
   |
 9 |   warp 32 x 256
   |   ^^^^^^^^^^^^^
   = rule: m * n
   = nearest legal: warp 32 x 128"""
    )


def test_tabs_and_wide_letters_keep_the_carets_in_place() -> None:
    text = Source("t.gemm", "\t漢字 x\x07 !")
    lines = render(error("G010", "odd", text, Span(4, 5))).splitlines()
    assert lines[3:] == [" 1 |     漢字 x\N{REPLACEMENT CHARACTER} !", "   |          ^"]


def test_findings_without_a_place() -> None:
    assert render(error("G001", "gone")) == "error[G001]: gone"
    assert render(error("G005", "empty", Source("a.gemm", ""))) == "error[G005]: empty\n --> a.gemm"
    assert (
        render(error("G010", "end", Source("a.gemm", "x\n"), Span(2, 2))).splitlines()[1]
        == "  --> a.gemm:2:1"
    )


def test_many() -> None:
    warning = Diagnostic("G801", "unused", severity=Severity.WARNING)
    assert render_all([]) == ""
    assert render_all([warning, warning]) == "warning[G801]: unused\n\nwarning[G801]: unused\n"
    assert summary([FINDING, FINDING, warning]) == "2 errors, 1 warning"
    assert str(GemmError([warning])) == "warning[G801]: unused"


def test_json() -> None:
    (finding,) = json.loads(report([FINDING], "json", "1.0"))["diagnostics"]
    assert finding == {
        "code": "G207",
        "severity": "error",
        "message": "50% off",
        "file": "dir/a,b.gemm",
        "line": 2,
        "column": 5,
        "end_line": 2,
        "end_column": 10,
        "notes": [{"label": "rule", "text": "a == b"}],
    }
    (placeless,) = json.loads(report([error("G001", "gone")], "json", "1.0"))["diagnostics"]
    assert (placeless["file"], placeless["line"]) == (None, None)


def test_sarif() -> None:
    log = json.loads(report([FINDING, error("G001", "gone")], "sarif", "1.0"))
    (run,) = log["runs"]
    assert (log["version"], run["columnKind"]) == ("2.1.0", "unicodeCodePoints")
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["G001", "G207"]
    first, second = run["results"]
    assert first["ruleIndex"] == 1
    assert first["message"]["text"] == "50% off\nrule: a == b"
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "dir/a%2Cb.gemm"
    assert place["region"] == {"startLine": 2, "startColumn": 5, "endLine": 2, "endColumn": 10}
    assert "locations" not in second


def test_github() -> None:
    assert report([FINDING], "github", "1.0") == (
        "::error title=G207,file=dir/a%2Cb.gemm,line=2,col=5,endLine=2,endColumn=10::"
        "50%25 off%0Arule: a == b\n"
    )


def test_unknown_form() -> None:
    with pytest.raises(ValueError, match="no report format 'xml'"):
        report([], "xml", "1.0")


def _generated(document: str, name: str, text: str) -> None:
    """Compares the part of a document between two marks with the text."""
    path = ROOT / "docs" / document
    begin, end = f"<!-- {name}: generated -->\n", f"<!-- {name}: end -->\n"
    whole = path.read_text(encoding="utf-8")
    head, _, rest = whole.partition(begin)
    tail = rest.partition(end)[2]
    assert tail or whole.endswith(end)
    compare(path, f"{head}{begin}\n{text}\n{end}{tail}")


def test_the_language_reference_lists_the_rules() -> None:
    rows = [
        f"| {rule.code} | `{rule.formula}` | {', '.join(f'`{word}`' for word in rule.words)} |"
        for rule in sorted(RULES, key=lambda rule: rule.code)
    ]
    _generated("language.md", "rules", "\n".join(["| Code | Rule | Words |", "|---|---|---|", *rows, ""]))


def test_the_documents_show_the_twenty_mistakes() -> None:
    text = (ROOT / "docs" / "mistakes.gemm").read_text(encoding="utf-8")
    shown = report(check(Source("docs/mistakes.gemm", text)), "text", "0")
    numbered = [int(n) for line in re.findall(r"^# (\d[\d, ]*):", text, re.M) for n in line.split(",")]
    assert numbered == list(range(1, 21))
    _generated("diagnostics.md", "mistakes", f"```\n{shown}```\n")


def test_every_code_is_documented() -> None:
    text = (ROOT / "docs" / "diagnostics.md").read_text(encoding="utf-8")
    modules = [path for path in (ROOT / "gemmdsl").glob("*.py") if not path.name.startswith("rules_")]
    used = {
        code for path in modules for code in re.findall(r'"(G[018]\d\d)"', path.read_text(encoding="utf-8"))
    }
    assert {code for code in used if f"| {code} |" not in text} == set()
    documented = set(re.findall(r"^\| (G[018]\d\d) \|", text, re.M))
    assert documented - used == set()
