"""`gemmdsl test`: what it prints, what it keeps and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

import gemmdsl
from gemmdsl.cli import group
from gemmdsl.testing import engine, trial
from gemmdsl.testing.outcome import Outcome

TEXT = """\
gemm 1

problem sgemm {
  A: f32[M, K]
  B: f32[K, N]
  C: f32[M, N] = alpha * A @ B + beta * C
}

schedule tiny for sgemm on sm_80 { block 8 x 4 x 4 thread 2 x 2 }
schedule naive for sgemm on sm_75 { block 8 x 4 }
"""


def _test(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["test", *arguments])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.gemm").write_text(TEXT)
    source = gemmdsl.loads(TEXT).compile("tiny").source
    (tmp_path / "wrong.cu").write_text(source.replace("scale * acc", "acc"))
    return tmp_path


def test_every_schedule_is_tested() -> None:
    done = _test("two.gemm", "--examples", "10")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert re.fullmatch(
        r"tiny for sm_80: right in \d+ runs \(fast \d+, general \d+, .*\),"
        r" and in \d+ calls with wrong or odd arguments",
        lines[0],
    )
    assert lines[1].startswith("naive for sm_75: right in ")
    assert re.fullmatch(r"2 schedules right: \d+ runs in [\d.]+ s", lines[2])


def test_the_same_seed_gives_the_same_runs() -> None:
    first, again, other = (
        json.loads(_test("two.gemm", "-s", "tiny", "--seed", seed, "--output-format", "json").output)
        for seed in ("1", "1", "2")
    )
    assert first["schedules"][0]["paths"] == again["schedules"][0]["paths"]
    assert first["schedules"][0]["paths"] != other["schedules"][0]["paths"]


def test_a_hand_edited_kernel_is_tested_and_its_failure_kept(folder: Path) -> None:
    done = _test("two.gemm", "-s", "tiny", "--source", "wrong.cu")
    assert done.exit_code == 1
    lines = done.output.splitlines()
    assert re.fullmatch(r"tiny for sm_80: WRONG, after \d+ right runs?", lines[0])
    assert lines[1].startswith("  result  1 element wrong, worst C[0, 0] = ")
    command = lines[2].removeprefix("  repeat  ")
    assert re.fullmatch(
        r"gemmdsl run two.gemm --schedule tiny --source wrong.cu --shape 1x1x1 --alpha \S+", command
    )
    saved = Path(lines[3].removeprefix("  saved   "))
    assert saved.parent == Path(".gemmdsl/failures")
    assert saved.with_suffix(".cu").read_text() == (folder / "wrong.cu").read_text()
    assert lines[4].startswith("1 of 1 schedule FAILED: ")
    again = CliRunner().invoke(group, command.split()[1:])
    assert again.exit_code == 1
    assert "result  WRONG: 1 element wrong" in again.output
    # What failed before is tried first, and is right with the text that was emitted.
    right = _test("two.gemm", "-s", "tiny", "--examples", "0", "--output-format", "json")
    without = _test("two.gemm", "-s", "tiny", "--examples", "0", "--output-format", "json", "--failures", "x")
    runs = [json.loads(result.output)["schedules"][0]["runs"] for result in (right, without)]
    assert runs[0] == runs[1] + 1


def test_json_and_junit_say_what_failed() -> None:
    words = ("two.gemm", "-s", "tiny", "--source", "wrong.cu", "--output-format")
    told = json.loads(_test(*words, "json").output)
    assert told["schema"] == "gemmdsl.test/1"
    assert not told["ok"]
    (schedule,) = told["schedules"]
    assert schedule["findings"][0]["kind"] == "result"
    assert (schedule["case"]["m"], schedule["case"]["n"], schedule["case"]["k"]) == (1, 1, 1)
    assert schedule["command"].startswith("gemmdsl run two.gemm ")
    suite = ElementTree.fromstring(_test(*words, "junit").output)
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "repeat  gemmdsl run" in (failure.text or "")


def test_a_failure_is_told_even_where_it_cannot_be_kept(folder: Path) -> None:
    (folder / "file").write_text("")
    done = _test("two.gemm", "-s", "tiny", "--source", "wrong.cu", "--failures", "file")
    assert done.exit_code == 1
    assert "error[G701]" in done.output
    assert "repeat  gemmdsl run" in done.output


@pytest.mark.parametrize("output", ["text", "json"])
def test_an_interruption_loses_no_failure(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    """What has failed is kept and told, however far it could be made smaller."""
    wrong = 0

    def until(*arguments: Any, **options: Any) -> Outcome:
        nonlocal wrong
        outcome = trial.run_case(*arguments, **options)
        wrong += not outcome.ok
        if wrong == 3:
            raise KeyboardInterrupt
        return outcome

    monkeypatch.setattr(engine, "run_case", until)
    done = _test("two.gemm", "-s", "tiny", "--source", "wrong.cu", "--output-format", output)
    assert done.exit_code == 130
    assert done.stderr == "interrupted\n"
    assert "gemmdsl run two.gemm --schedule tiny --source wrong.cu" in done.stdout
    kept = list(Path(".gemmdsl/failures").glob("*.json"))
    assert len(kept) == 1
    assert kept[0].stem in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("missing.gemm",), 1, "missing.gemm"),
        (("two.gemm", "-s", "tny"), 1, "did you mean `tiny`"),
        (("two.gemm", "--source", "wrong.cu"), 2, "name its schedule"),
        (("two.gemm", "-s", "tiny", "--source", "missing.cu"), 1, "G930"),
        (("two.gemm", "-s", "naive", "--source", "wrong.cu"), 1, "G931"),
        (("two.gemm", "--sanitize", "rice"), 2, "'rice' is none of race, memory, init, align"),
        (("two.gemm", "--examples", "-1"), 2, "-1"),
    ],
)
def test_wrong_arguments_are_told(arguments: tuple[str, ...], status: int, message: str) -> None:
    done = _test(*arguments)
    assert done.exit_code == status
    assert message in done.output
    assert "Traceback" not in done.output


def test_a_text_that_does_not_compile_is_told(folder: Path) -> None:
    (folder / "broken.cu").write_text((folder / "wrong.cu").read_text() + "\nint broken(;\n")
    done = _test("two.gemm", "-s", "tiny", "--source", "broken.cu")
    assert done.exit_code == 2
    assert "error[G913]" in done.output


def test_without_a_compiler_the_tool_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A kernel that no other test has compiled in this process.
    (folder / "new.gemm").write_text(TEXT.replace("8 x 4 x 4", "8 x 12 x 4"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    done = _test("new.gemm", "-s", "tiny")
    assert done.exit_code == 2
    assert "error[G911]" in done.output


def test_a_binary_source_is_told(folder: Path) -> None:
    (folder / "binary.cu").write_bytes(b"\xff\xfe\x00")
    done = _test("two.gemm", "-s", "tiny", "--source", "binary.cu")
    assert done.exit_code == 1
    assert "G930" in done.output
    assert "not UTF-8" in done.output
