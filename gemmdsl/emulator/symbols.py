"""What a compiled library says about itself: its shared variables, and the source lines of its code."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from dataclasses import dataclass
from typing import BinaryIO

_PT_TLS = 7
_SHT_SYMTAB = 2
_STT_TLS = 6
_TIMEOUT_SECONDS = 60.0
# A variable of a function: _ZZ, the function's encoding, E, the name with its length, perhaps a number.
_LOCAL = re.compile(r"_ZZ(?P<function>.+)E(?P<length>\d+)(?P<name>.+)")
_PLAIN_FUNCTION = re.compile(r"(?P<length>\d+)(?P<name>\w+)")


@dataclass(frozen=True, slots=True)
class ThreadVariable:
    """A thread-local object: bytes from the start of the segment's uninitialised part, size, names.

    `shared` says that a function declares it; `function` is that function if it is a C function, else "".
    """

    name: str
    shared: bool
    function: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the code, innermost first: (function, line of the emitted text) of it and its callers."""

    frames: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return f"on line {self.frames[0][1]}" if self.frames else "on an unknown line"

    @property
    def calls(self) -> str:
        """The way from the kernel to the place, innermost first."""
        return ", called from ".join(f"line {line} in {function}" for function, line in self.frames)


def thread_variables(data: bytes) -> tuple[ThreadVariable, ...]:
    """The thread-local symbols of a 64-bit little-endian ELF file; none of any other file."""
    if data[:6] != b"\x7fELF\x02\x01":
        return ()
    initialised = 0
    for header in _table(data, 0x20, 0x36, 0x38, "<IIQQQQQQ"):
        if header[0] == _PT_TLS:
            initialised = header[5]
    sections = _table(data, 0x28, 0x3A, 0x3C, "<IIQQQQIIQQ")
    found = []
    for section in sections:
        if section[1] != _SHT_SYMTAB:
            continue
        start, size, strings = section[4], section[5], sections[section[6]][4]
        for name, info, _, _, value, length in struct.iter_unpack("<IBBHQQ", data[start : start + size]):
            if info & 15 == _STT_TLS and length > 0:
                symbol = data[strings + name : data.index(b"\0", strings + name)].decode()
                found.append(ThreadVariable(*_names(symbol), value - initialised, length))
    return tuple(found)


def places(library: BinaryIO, offsets: tuple[int, ...]) -> tuple[Place, ...]:
    """Where in the emitted text the code at these offsets comes from; unknown where no tool can say it."""
    unknown = tuple(Place(()) for _ in offsets)
    tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if tool is None:
        return unknown
    found = []
    for offset in offsets:
        try:
            told = subprocess.run(
                [tool, "-e", f"/dev/fd/{library.fileno()}", "-i", "-f", "-C", "-s", f"{offset:#x}"],
                pass_fds=(library.fileno(),),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return unknown
        words = told.stdout.splitlines()
        frames = [_frame(function, where) for function, where in zip(words[::2], words[1::2], strict=False)]
        found.append(Place(tuple(frame for frame in frames if frame is not None)))
    return tuple(found)


def _frame(function: str, where: str) -> tuple[str, int] | None:
    """The bare name of a function and the line, if it is one of the emitted text."""
    match = re.match(r"kernel\.cu:(\d+)", where)
    if match is None:
        return None
    bare = re.sub(r"<.*>|\(.*\)(?!::)", "", function.replace("(anonymous namespace)::", ""))
    return bare.split()[-1] if bare.split() else function, int(match[1])


def _table(data: bytes, offset_at: int, size_at: int, count_at: int, form: str) -> list[tuple[int, ...]]:
    """Program or section headers, whose place, size and number the file header tells."""
    (offset,) = struct.unpack_from("<Q", data, offset_at)
    (size,) = struct.unpack_from("<H", data, size_at)
    (count,) = struct.unpack_from("<H", data, count_at)
    return [struct.unpack_from(form, data, offset + i * size) for i in range(count)]


def _names(symbol: str) -> tuple[str, bool, str]:
    """The name of a variable, whether a function declares it, and which one."""
    local = _LOCAL.fullmatch(symbol)
    if local is None:
        return symbol, False, ""
    name = local["name"][: int(local["length"])]
    plain = _PLAIN_FUNCTION.fullmatch(local["function"])
    function = plain["name"] if plain and len(plain["name"]) == int(plain["length"]) else ""
    return name, True, function
