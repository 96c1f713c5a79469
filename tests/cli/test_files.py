"""Output files are written whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gemmdsl.files import OutputError, write_bytes, write_text, write_tree


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def code(caught: pytest.ExceptionInfo[OutputError]) -> str:
    return caught.value.diagnostics[0].code


def refuse(monkeypatch: pytest.MonkeyPatch, number: int, call: str = "open", after: int = 0) -> None:
    """Make a call of the operating system fail from its `after`-th use on."""
    real = getattr(os, call)
    uses = iter(range(1_000_000))

    def failing(*arguments: object, **options: object) -> object:
        if next(uses) >= after:
            raise OSError(number, os.strerror(number))
        return real(*arguments, **options)

    monkeypatch.setattr(os, call, failing)


def test_text_is_written_byte_for_byte(tmp_path: Path) -> None:
    write_text(tmp_path / "a.cu", "one\r\ntwo\n\u00b5\n")
    assert (tmp_path / "a.cu").read_bytes() == "one\r\ntwo\n\u00b5\n".encode()
    assert names(tmp_path) == ["a.cu"]


def test_new_files_follow_the_umask_and_old_ones_keep_their_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "new", b"")
        (tmp_path / "old").touch()
        (tmp_path / "old").chmod(0o600)
        write_bytes(tmp_path / "old", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o600


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_devices_are_written_to(tmp_path: Path) -> None:
    write_text(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"the folder .*missing does not exist") as caught:
        write_text(tmp_path / "missing" / "a.cu", "x")
    assert code(caught) == "G701"
    assert names(tmp_path) == []


def test_a_link_into_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("missing/a.cu")
    with pytest.raises(OutputError, match=r"the folder .*missing does not exist") as caught:
        write_text(tmp_path / "link", "x")
    assert code(caught) == "G701"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_folder_that_takes_no_files() -> None:
    with pytest.raises(OutputError) as caught:
        write_text(Path("/proc/gemmdsl.cu"), "x")
    assert code(caught) == "G703"


def test_parent_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="file is not a folder") as caught:
        write_text(tmp_path / "file" / "a.cu", "x")
    assert code(caught) == "G701"


def test_path_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.cu").mkdir()
    with pytest.raises(OutputError, match="it is a folder") as caught:
        write_text(tmp_path / "a.cu", "x")
    assert code(caught) == "G702"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EACCES, "G703"),
        (errno.EROFS, "G703"),
        (errno.ENOSPC, "G704"),
        (errno.EDQUOT, "G704"),
        (errno.EIO, "G705"),
        (errno.ENAMETOOLONG, "G705"),
    ],
)
@pytest.mark.parametrize("call", ["open", "replace"])
def test_what_the_system_refuses_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, expected: str
) -> None:
    (tmp_path / "a.cu").write_text("old")
    refuse(monkeypatch, number, call)
    with pytest.raises(OutputError) as caught:
        write_text(tmp_path / "a.cu", "new")
    monkeypatch.undo()
    assert code(caught) == expected
    assert (tmp_path / "a.cu").read_text() == "old"
    assert names(tmp_path) == ["a.cu"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("old")
    (tmp_path / "a.cu").chmod(0o444)
    with pytest.raises(OutputError) as caught:
        write_text(tmp_path / "a.cu", "new")
    assert code(caught) == "G703"
    assert (tmp_path / "a.cu").read_text() == "old"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        write_text(Path("/dev/full"), "x")
    assert code(caught) == "G704"


def test_a_tree_makes_its_folder_and_keeps_what_else_is_there(tmp_path: Path) -> None:
    write_tree(tmp_path / "out", {"a.cu": b"1", "b.cu": b"2"})
    write_tree(tmp_path / "out", {"b.cu": b"3"})
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {
        "a.cu": b"1",
        "b.cu": b"3",
    }


def test_a_tree_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.ENOSPC, after=1)
    with pytest.raises(OutputError) as caught:
        write_tree(tmp_path / "out", {"a.cu": b"1", "b.cu": b"2"})
    assert code(caught) == "G704"
    assert names(tmp_path) == []


def test_a_tree_that_fails_leaves_the_old_files(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("old")
    (tmp_path / "b.cu").mkdir()
    with pytest.raises(OutputError) as caught:
        write_tree(tmp_path, {"a.cu": b"1", "b.cu": b"2"})
    assert code(caught) == "G702"
    assert (tmp_path / "a.cu").read_text() == "old"
    assert names(tmp_path) == ["a.cu", "b.cu"]


def test_a_tree_cannot_replace_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(OutputError, match="it is a file, not a folder") as caught:
        write_tree(tmp_path / "out", {"a.cu": b"1"})
    assert code(caught) == "G701"


def test_a_tree_needs_its_parent(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="missing does not exist") as caught:
        write_tree(tmp_path / "missing" / "out", {"a.cu": b"1"})
    assert code(caught) == "G701"
