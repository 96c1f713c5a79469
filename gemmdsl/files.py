"""Writes files so that a reader sees the old content or the new, never a part.

Content goes to a temporary file in the same folder, which is then renamed into place.
Codes: `G701` to `G705`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gemmdsl.diagnostics import Diagnostic, GemmError, Note

_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class OutputError(GemmError):
    """A file cannot be written where it was asked for."""

    def __init__(self, code: str, message: str, help: str = "") -> None:
        notes = (Note("help", help),) if help else ()
        super().__init__([Diagnostic(code, message, notes=notes)])


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 with its line ends as they are; OutputError as in `write_bytes`.

    Halves of surrogate pairs, which stand for what is no text in a file's name, are spelled out.
    """
    write_bytes(path, text.encode(errors="backslashreplace"))


def write_bytes(path: Path, data: bytes) -> None:
    """Make `data` the content of `path` in one step; OutputError, and no change, if that cannot be done.

    A link is followed, an existing file keeps its permissions, devices such as /dev/stdout are written to.
    """
    with _reported(path), ExitStack() as cleanup:
        target = _target(path)
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            path.write_bytes(data)
        else:
            os.replace(_stage(target, data, cleanup), target)


def check_writable(path: Path) -> None:
    """OutputError, as from `write_bytes`, when `path` cannot be written as things are; changes nothing.

    For work that takes long, whose result would be lost.
    """
    with _reported(path), ExitStack() as cleanup:
        target = _target(path)
        if not os.path.exists(path) or os.path.isfile(path) or os.path.isdir(path):
            _stage(target, b"", cleanup)


def write_tree(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write all of `files` (plain name to content) into `folder`, which is made if its parent is there.

    A link to a folder is followed, also to one that is still to be made.  Nothing is put in place before
    everything has been written to the same folder, so a full disk or a refused file leaves what was there.
    Other files of the folder stay.  OutputError as in `write_bytes`.
    """
    with ExitStack() as cleanup:
        with _reported(folder):
            place = _target(folder)
            if not os.path.isdir(place):
                place.mkdir()
                cleanup.callback(_remove_folder, place)
        staged: list[tuple[Path, Path]] = []
        for name, data in files.items():
            path = folder / name
            with _reported(path):
                target = _target(path)
                staged.append((_stage(target, data, cleanup), target))
        for temporary, target in staged:
            with _reported(target):
                os.replace(temporary, target)
        cleanup.pop_all()


def make_folder(folder: Path) -> None:
    """Make `folder`, and its parents, if it is not there; OutputError as in `write_bytes`."""
    with _reported(folder):
        _target(folder).mkdir(parents=True, exist_ok=True)


def stream_refused(name: str, problem: OSError) -> OutputError:
    """The error for a stream of the process, such as standard output, that takes no more."""
    if problem.errno in _FULL:
        return OutputError("G704", f"cannot write to {name}: no space is left")
    return OutputError("G705", f"cannot write to {name}: {problem.strerror or problem}")


def working_folder_gone() -> OutputError:
    """The error for a folder that somebody removed while the process was in it."""
    return OutputError(
        "G701", "the folder that this was called in does not exist any more", help="cd to another"
    )


def _target(path: Path) -> Path:
    """Where links lead; OSError when they lead in a circle, or the way there is barred."""
    with suppress(FileNotFoundError):
        os.stat(path)
    return Path(os.path.realpath(path))


def _stage(target: Path, data: bytes, cleanup: ExitStack) -> Path:
    """Write `data` to a new file beside `target`, with the permissions it will have; removed by `cleanup`."""
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if os.path.exists(target) and not os.access(target, os.W_OK):
        # A rename would get past the file's own permissions, which the user set for a reason.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    temporary = target.parent / f".gemmdsl-{os.urandom(8).hex()}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    cleanup.callback(_remove_file, temporary)
    with os.fdopen(handle, "wb") as file:
        if os.path.exists(target):
            os.fchmod(handle, target.stat().st_mode & 0o7777)
        file.write(data)
    return temporary


def _remove_file(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _remove_folder(folder: Path) -> None:
    # Refused when someone else has put a file there meanwhile: theirs is not ours to remove.
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Turn what the system refuses about `path` into an OutputError."""
    try:
        yield
    except OSError as problem:
        raise _diagnosed(path, problem) from problem


def _diagnosed(path: Path, problem: OSError) -> OutputError:
    parent = Path(os.path.realpath(path)).parent if os.path.islink(path) else path.parent
    if problem.errno == errno.EISDIR:
        return OutputError("G702", f"cannot write {path}: it is a folder", help="name a file in it")
    if problem.errno == errno.ENOENT and not os.path.exists(parent):
        return OutputError("G701", f"cannot write {path}: the folder {parent} does not exist")
    if problem.errno == errno.ENOENT:
        # What /proc says, and other folders that no program can put a file into.
        return OutputError("G703", f"cannot write {path}: {parent} takes no new files")
    if problem.errno == errno.ENOTDIR:
        return OutputError("G701", f"cannot write {path}: {parent} is not a folder")
    if problem.errno == errno.EEXIST:
        return OutputError("G701", f"cannot write into {path}: it is a file, not a folder")
    if problem.errno in _DENIED:
        return OutputError("G703", f"cannot write {path}: no permission to write there")
    if problem.errno in _FULL:
        unchanged = "the old file is unchanged" if os.path.isfile(path) else ""
        return OutputError("G704", f"cannot write {path}: no space is left", help=unchanged)
    if problem.errno == errno.ELOOP:
        return OutputError("G705", f"cannot write {path}: it is a link that leads in a circle")
    return OutputError("G705", f"cannot write {path}: {problem.strerror or problem}")
