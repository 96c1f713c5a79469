"""Whatever a path leads to, the answer is a source or a coded error, soon."""

from __future__ import annotations

import errno
import io
import os
import sys
import time
from pathlib import Path

import pytest

from gemmdsl.checker import check, load, loads
from gemmdsl.diagnostics import GemmError
from gemmdsl.reader import MAX_BYTES, read
from gemmdsl.source import Source
from tests.frontend.texts import HEAD, PROBLEM

SCHEDULE = "schedule s for p on sm_75 { block 8 x 8 }\n"


def code(path: Path | str) -> str:
    with pytest.raises(GemmError) as wrong:
        load(path)
    (diagnostic,) = wrong.value.diagnostics
    return diagnostic.code


def test_paths_that_are_no_specs(tmp_path: Path) -> None:
    assert code(tmp_path / "missing.gemm") == "G001"
    assert code(tmp_path / "missing" / "missing.gemm") == "G001"
    assert code("a\0b") == "G001"
    assert code("x" * 5000) == "G001"
    assert code(tmp_path) == "G002"


def test_an_unreadable_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Permissions do not stop root, who may well run the tests.
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("builtins.open", refuse)
    assert code(tmp_path / "secret.gemm") == "G001"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "G005"),
        (b" \n # nothing\n", "G005"),
        (b"gemm 1\n", "G005"),
        (b"gemm 1\n" + PROBLEM.encode(), None),
        (b"\x7fELF\0\0\0", "G003"),
        ("gemm 1 # é".encode("latin-1"), "G003"),
        ("gemm 1".encode("utf-16"), "G003"),
        (b"#" * (MAX_BYTES + 1), "G004"),
        (b"gemm 1 # " + b"x" * 10_000_000, "G004"),
    ],
)
def test_contents(tmp_path: Path, data: bytes, expected: str | None) -> None:
    path = tmp_path / "file.gemm"
    path.write_bytes(data)
    if expected is None:
        assert load(path).schedules == ()
    else:
        assert code(path) == expected


def test_byte_order_marks_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "windows.gemm"
    path.write_bytes(b"\xef\xbb\xbf" + (HEAD + SCHEDULE + "schedule t {}").replace("\n", "\r\n").encode())
    with pytest.raises(GemmError) as wrong:
        load(path)
    assert {d.position for d in wrong.value.diagnostics} == {(4, 10)}


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((HEAD + SCHEDULE).encode())))
    assert load("-").schedules == ("s",)
    assert read.__doc__


def test_only_the_base_name_goes_into_the_spec(tmp_path: Path) -> None:
    path = tmp_path / "base.gemm"
    path.write_text(HEAD + SCHEDULE)
    assert load(path).spec().file == "base.gemm"
    assert loads(HEAD + SCHEDULE).spec().file == "<string>"


@pytest.mark.parametrize(
    "unit",
    [
        "schedule s{} for p on sm_75 {{ block 8x8 }}\n",
        "schedule s{} extends t{} {{}}\n",
        "schedule s{} for p on sm_75 {{ block 7x9x3 thread 2x2 stage A {{ vector 4 }} }}\n",
    ],
)
def test_long_files_are_answered(unit: str) -> None:
    text = HEAD
    for number in range(600):
        text += unit.format(number, number)
    started = time.process_time()
    assert len(check(Source("long.gemm", text))) <= 101
    assert time.process_time() - started < 5


def test_texts_are_read_as_files_are(tmp_path: Path) -> None:
    text = f"\ufeffgemm 1\r{PROBLEM}# a comment\r\nschedule s for p on sm_90 {{\r  block 8 x 8 }}\r".replace(
        "\n", "\r"
    )
    path = tmp_path / "file.gemm"
    path.write_bytes(text.encode())
    assert loads(text).spec().schedule == load(path).spec().schedule
    assert loads(text).source.text == load(path).source.text
