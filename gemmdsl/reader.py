"""Files to sources, with a coded error for everything that can be wrong with a file."""

from __future__ import annotations

import os
import sys
from os import PathLike
from pathlib import Path

from gemmdsl.diagnostics import GemmError, error
from gemmdsl.source import Source

# Thousands of schedules, and a second's work.
MAX_BYTES = 1 << 18


def read(path: str | PathLike[str], what: str = "spec") -> Source:
    """The source in a file; `-` is standard input.  `what` names what it should be, for messages.

    A byte order mark is dropped and line ends become newlines.  GemmError: G001 the file cannot be read,
    G002 it is not a file, G003 it is not text, G004 it is larger than 256 KiB.
    """
    name = os.fspath(path)
    data = _stdin() if name == "-" else read_bytes(name, what)
    return source_of(data, "<stdin>" if name == "-" else name, what)


def source_of(data: bytes, name: str, what: str = "spec") -> Source:
    """The source in bytes; GemmError as for `read`."""
    if len(data) > MAX_BYTES:
        raise GemmError([error("G004", f"{name} has more than {MAX_BYTES:,} bytes, too many for a {what}")])
    if b"\0" in data:
        raise GemmError([error("G003", f"{name} is a binary file, not a {what}")])
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as wrong:
        text = f"{name} is not UTF-8 text: byte {wrong.start} is 0x{data[wrong.start]:02x}"
        raise GemmError([error("G003", text)]) from None
    ends = text.count("\r\n")
    return Source(name, normal(text), "\r\n" if ends and ends == text.count("\n") else "\n")


def normal(text: str) -> str:
    """A text as it is read: without a byte order mark, every line ending in a newline."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _stdin() -> bytes:
    """As `read_bytes`, of standard input, which a process can be started without."""
    if sys.stdin is None:
        raise GemmError([error("G001", "standard input cannot be read: it is closed")])
    try:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    except OSError as wrong:
        reason = (wrong.strerror or str(wrong)).lower()
        raise GemmError([error("G001", f"standard input cannot be read: {reason}")]) from None


def read_bytes(name: str, what: str = "spec") -> bytes:
    """At most one byte more than a spec may have; GemmError G001 or G002."""
    try:
        if Path(name).is_dir():
            raise GemmError([error("G002", f"{name} is a folder, not a {what}")])
        with open(name, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else str(wrong)
        raise GemmError([error("G001", f"{name} cannot be read: {reason.lower()}")]) from None
