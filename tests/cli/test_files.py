"""Output files are written whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gemmdsl.files import OutputError, check_writable, make_folder, write_bytes, write_text, write_tree


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


def bar(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Refuse whatever lies in a folder, as the system does where the right to search it is missing."""
    access = os.access
    for call in ("stat", "open", "mkdir", "replace", "access"):
        real = getattr(os, call)

        def refused(path: object, *others: object, real: Any = real, **options: object) -> object:
            if isinstance(path, (str, Path)) and folder in Path(path).absolute().parents:
                if real is access:
                    return False
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return real(path, *others, **options)

        monkeypatch.setattr(os, call, refused)


def test_a_folder_that_cannot_be_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "barred" / "inner").mkdir(parents=True)
    bar(monkeypatch, tmp_path / "barred")
    writes: tuple[Callable[[], None], ...] = (
        lambda: write_text(tmp_path / "barred" / "a.cu", "x"),
        lambda: write_tree(tmp_path / "barred" / "inner", {"a.cu": b""}),
        lambda: make_folder(tmp_path / "barred" / "inner"),
        lambda: make_folder(tmp_path / "barred" / "new"),
    )
    for write in writes:
        with pytest.raises(OutputError, match="no permission to write there") as caught:
            write()
        assert code(caught) == "G703"


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


def test_links_in_a_circle_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    writes: tuple[Callable[[], None], ...] = (
        lambda: write_text(tmp_path / "a", "x"),
        lambda: write_tree(tmp_path / "a", {"a.cu": b""}),
        lambda: make_folder(tmp_path / "a"),
    )
    for write in writes:
        with pytest.raises(OutputError, match="leads in a circle") as caught:
            write()
        assert code(caught) == "G705"
    assert (tmp_path / "a").is_symlink()


def test_a_link_to_a_folder_that_is_still_to_be_made(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("new")
    write_tree(tmp_path / "link", {"a.cu": b"1"})
    assert (tmp_path / "new" / "a.cu").read_bytes() == b"1"
    (tmp_path / "other").symlink_to("deep/folder")
    make_folder(tmp_path / "other")
    assert (tmp_path / "deep" / "folder").is_dir()


def test_what_is_no_text_is_spelled_out(tmp_path: Path) -> None:
    write_text(tmp_path / "a.cu", "\udcff")
    assert (tmp_path / "a.cu").read_bytes() == rb"\udcff"


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
    # There is no old file.
    assert caught.value.diagnostics[0].notes == ()


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


def test_checking_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old")
    for path in (old, new, Path(os.devnull)):
        check_writable(path)
    assert names(tmp_path) == ["old"]
    assert old.read_text() == "old"
    for path, found in ((tmp_path, "G702"), (tmp_path / "no" / "x", "G701"), (old / "x", "G701")):
        with pytest.raises(OutputError) as caught:
            check_writable(path)
        assert code(caught) == found
    bar(monkeypatch, tmp_path)
    with pytest.raises(OutputError) as caught:
        check_writable(old)
    assert code(caught) == "G703"
