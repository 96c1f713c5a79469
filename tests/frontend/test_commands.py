"""The commands check, fmt and rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gemmdsl.cli import group
from gemmdsl.rules import RULES
from tests.frontend.texts import HEAD

GOOD = f"{HEAD}\nschedule s for p on sm_75 {{ block 8 x 8 }}\n".replace("p {", "p  {")
FORMATTED = GOOD.replace("p  {", "p {").replace(f"1\n{'problem'}", "1\n\nproblem")


def run(*arguments: str | Path, input: str | None = None) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments], input=input)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.gemm"
    path.write_text(GOOD, encoding="utf-8")
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.gemm"
    path.write_text(GOOD.replace("8 x 8", "8 x 0 x 8 thread 3 x 3"), encoding="utf-8")
    return path


def test_check(good: Path, bad: Path) -> None:
    fine = run("check", good)
    assert (fine.exit_code, fine.stdout) == (0, "1 file checked, nothing to report\n")
    wrong = run("check", good, bad, "missing.gemm")
    assert wrong.exit_code == 1
    assert "bad.gemm:4:29" in wrong.stdout
    assert "error[G001]: missing.gemm cannot be read" in wrong.stdout
    assert wrong.stdout.endswith("2 errors\n")


def test_check_reads_standard_input() -> None:
    assert run("check", "-", input=GOOD).exit_code == 0
    assert "--> <stdin>:1:1" in run("check", "-", input="x").stdout


def test_check_for_another_target(tmp_path: Path) -> None:
    path = tmp_path / "async.gemm"
    path.write_text(GOOD.replace("8 x 8", "8 x 8 x 8 buffers 2 async"), encoding="utf-8")
    assert run("check", path).exit_code == 1
    assert run("check", path, "--target", "sm_80").exit_code == 0
    unknown = run("check", path, "--target", "sm_8")
    assert unknown.exit_code == 1
    assert "there is no target `sm_8`; did you mean `sm_80`?" in unknown.stderr


@pytest.mark.parametrize("form", ["json", "sarif", "github"])
def test_check_for_programs(good: Path, bad: Path, form: str) -> None:
    fine, wrong = (run("check", path, "--output-format", form) for path in (good, bad))
    assert (fine.exit_code, wrong.exit_code) == (0, 1)
    assert "G201" not in fine.stdout
    assert "G201" in wrong.stdout
    if form != "github":
        assert json.loads(fine.stdout)
        assert json.loads(wrong.stdout)


def test_warnings_and_notes_are_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "unused.gemm"
    path.write_text(HEAD, encoding="utf-8")
    result = run("check", path)
    assert result.exit_code == 0
    assert result.stdout.endswith("1 warning\n")


def test_fmt(good: Path) -> None:
    unchanged = run("fmt", "--check", good)
    assert (unchanged.exit_code, unchanged.stdout) == (1, f"{good} would be changed\n")
    assert good.read_text(encoding="utf-8") == GOOD
    changed = run("fmt", good)
    assert (changed.exit_code, changed.stdout) == (0, f"{good} changed\n")
    assert good.read_text(encoding="utf-8") == FORMATTED
    again = run("fmt", "--check", good)
    assert (again.exit_code, again.stdout) == (0, "")
    assert run("fmt", good).stdout == ""


def test_fmt_changes_line_ends(good: Path) -> None:
    good.write_bytes(b"\xef\xbb\xbf" + FORMATTED.replace("\n", "\r\n").encode())
    assert run("fmt", "--check", good).exit_code == 1
    assert run("fmt", good).exit_code == 0
    assert good.read_bytes() == FORMATTED.encode()


def test_fmt_as_a_filter() -> None:
    result = run("fmt", "-", input=GOOD)
    assert (result.exit_code, result.stdout) == (0, FORMATTED)
    assert run("fmt", "-", "--check", input=GOOD).exit_code == 1
    assert run("fmt", "-", "--check", input=FORMATTED).exit_code == 0


def test_fmt_leaves_what_it_cannot_read(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken.gemm"
    path.write_text("gemm 1 {", encoding="utf-8")
    result = run("fmt", path, "missing.gemm", good)
    assert result.exit_code == 1
    assert "error[G010]" in result.stderr
    assert "error[G001]" in result.stderr
    assert path.read_text(encoding="utf-8") == "gemm 1 {"
    assert good.read_text(encoding="utf-8") == FORMATTED


def test_rules() -> None:
    listed = run("rules").stdout
    assert all(rule.code in listed and rule.formula in listed for rule in RULES)
    rows = json.loads(run("rules", "--output-format", "json").stdout)["rules"]
    assert {row["code"]: row["formula"] for row in rows} == {rule.code: rule.formula for rule in RULES}


@pytest.mark.parametrize("command", ["check", "fmt"])
def test_misuse(command: str) -> None:
    assert run(command).exit_code == 2
    assert run(command, "--nonsense", "x").exit_code == 2
