"""The user's folder of compiled kernels: named by what they were made of, put in place in one step.

Several processes may fill it at once: each works in a folder of its own and renames the result, so a name
never stands for part of a file.  Where the folder cannot be written, everything works uncached.

The place: GEMMDSL_CACHE, else XDG_CACHE_HOME/gemmdsl, else ~/.cache/gemmdsl; a folder for each kind below it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Literal

from gemmdsl.diagnostics import GemmError
from gemmdsl.toolchain.errors import ToolError

Kind = Literal["emulator", "cubin"]

_VARIABLE = "GEMMDSL_CACHE"
_WORK_PREFIX = "making-"
_MAX_FILES = 1024
_ABANDONED_SECONDS = 24 * 3600


def no_room(folder: str, reason: str) -> ToolError:
    """There is no place for a compiler's files, or no space left in it."""
    return ToolError(
        "G915",
        f"no room for a compiled kernel in {folder}: {reason}",
        help=f"set TMPDIR, or {_VARIABLE} for the folder of compiled kernels",
    )


def key(*parts: str) -> str:
    """A file's name: equal for equal parts, in practice never for others."""
    digest = sha256()
    for part in parts:
        # Names of files and programs need not be text.
        digest.update(f"{len(part)}:{part}".encode(errors="surrogatepass"))
    return digest.hexdigest()[:40]


def location() -> Path | None:
    """Where the folders of all kinds lie, whether or not they are there; None when there is no such place."""
    if named := os.environ.get(_VARIABLE):
        try:
            return Path(named).absolute()
        except OSError:
            # The working folder is gone.
            return None
    if (base := os.environ.get("XDG_CACHE_HOME")) and os.path.isabs(base):
        return Path(base) / "gemmdsl"
    try:
        return Path.home() / ".cache" / "gemmdsl"
    except RuntimeError:
        return None


def folder(kind: Kind) -> Path | None:
    """The folder of one kind, made if need be; None when it cannot be written."""
    base = location()
    if base is None:
        return None
    path = base / kind
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return path if os.access(path, os.W_OK | os.X_OK) else None


def find(kind: Kind, name: str) -> Path | None:
    """The cached file, marked as used; None when it is not there.  A read-only cache is read."""
    base = location()
    if base is None:
        return None
    path = base / kind / name
    # Unlike the methods of Path, this is no error where the folder cannot be searched.
    if not os.path.isfile(path):
        return None
    with suppress(OSError):
        os.utime(path)
    return path


def put(kind: Kind, name: str, make: Callable[[Path], Path]) -> Path | None:
    """Let `make` produce a file in a new folder and give it its name in the cache.

    None when there is no cache to write; errors of `make` pass through, and leave nothing behind.
    """
    home = folder(kind)
    if home is None:
        return None
    with ExitStack() as cleanup:
        try:
            work = cleanup.enter_context(work_folder(home))
        except GemmError:
            return None
        made = make(work)
        path = home / name
        try:
            os.replace(made, path)
        except OSError as problem:
            raise no_room(str(home), problem.strerror or str(problem)) from problem
    _prune(home)
    return path


@contextmanager
def work_folder(parent: Path | None = None) -> Iterator[Path]:
    """A new folder, removed at the end; ToolError when none can be made."""
    try:
        work = Path(tempfile.mkdtemp(prefix=_WORK_PREFIX, dir=parent))
    except OSError as problem:
        where = str(parent) if parent else "the folder for temporary files"
        raise no_room(where, problem.strerror or str(problem)) from problem
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def forget(path: Path) -> None:
    """Remove a file that turned out to be damaged."""
    with suppress(OSError):
        path.unlink()


def _prune(home: Path) -> None:
    """Keep the most recently used files, and no work folder that a killed process left."""
    now = time.time()
    files: list[tuple[float, str]] = []
    with suppress(OSError), os.scandir(home) as entries:
        for entry in entries:
            with suppress(OSError):
                age = now - entry.stat().st_mtime
                if not entry.name.startswith(_WORK_PREFIX):
                    files.append((age, entry.path))
                elif age > _ABANDONED_SECONDS:
                    shutil.rmtree(entry.path, ignore_errors=True)
    if len(files) > _MAX_FILES:
        for _, path in sorted(files)[_MAX_FILES // 2 :]:
            forget(Path(path))
