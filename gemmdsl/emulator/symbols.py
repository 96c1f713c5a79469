"""What a compiled library says about itself: its shared variables, and the source lines of its code."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

_EM_X86_64 = 62
_EM_AARCH64 = 183
_PT_LOAD = 1
_PT_TLS = 7
_PF_X = 1
_SHT_SYMTAB = 2
_STT_FUNC = 2
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
    def functions(self) -> tuple[str, ...]:
        """The functions around the place, innermost first."""
        return tuple(function for function, _ in self.frames)

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
    return tuple(
        ThreadVariable(*_names(symbol), address - initialised, size)
        for symbol, kind, address, size in _symbols(data)
        if kind == _STT_TLS and size > 0
    )


def _symbols(data: bytes) -> Iterator[tuple[str, int, int, int]]:
    """Name, kind, address and size of every symbol."""
    sections = _table(data, 0x28, 0x3A, 0x3C, "<IIQQQQIIQQ")
    for section in sections:
        if section[1] != _SHT_SYMTAB:
            continue
        start, size, strings = section[4], section[5], sections[section[6]][4]
        for name, info, _, _, value, length in struct.iter_unpack("<IBBHQQ", data[start : start + size]):
            symbol = data[strings + name : data.index(b"\0", strings + name)].decode(errors="replace")
            yield symbol, info & 15, value, length


def call_sites(data: bytes, callees: re.Pattern[str]) -> tuple[int, ...]:
    """Return addresses of the calls of functions whose symbols `callees` matches, as offsets in the image.

    Empty for a file or processor whose code is not understood.
    """
    if data[:6] != b"\x7fELF\x02\x01" or (machine := struct.unpack_from("<H", data, 18)[0]) not in _CALLS:
        return ()
    targets = {
        address for name, kind, address, _ in _symbols(data) if kind == _STT_FUNC and callees.fullmatch(name)
    }
    found = []
    for kind, flags, offset, address, _, size, _, _ in _table(data, 0x20, 0x36, 0x38, "<IIQQQQQQ"):
        if kind == _PT_LOAD and flags & _PF_X:
            for behind, distance in _CALLS[machine](data[offset : offset + size]):
                if address + behind + distance in targets:
                    found.append(address + behind)
    return tuple(found)


def _x86_calls(code: bytes) -> Iterator[tuple[int, int]]:
    """Offsets behind each instruction that may be a call, and how far from there it leads."""
    at = code.find(0xE8)
    while 0 <= at <= len(code) - 5:
        yield at + 5, int.from_bytes(code[at + 1 : at + 5], "little", signed=True)
        at = code.find(0xE8, at + 1)


def _arm_calls(code: bytes) -> Iterator[tuple[int, int]]:
    """The same for AArch64, whose distances count from the instruction itself, in words of four bytes."""
    for index, (word,) in enumerate(struct.iter_unpack("<I", code[: len(code) & ~3])):
        if word >> 26 == 0b100101:
            distance = (word & 0x3FFFFFF) - ((word & 0x2000000) << 1)
            yield 4 * index + 4, 4 * distance - 4


_CALLS: dict[int, Callable[[bytes], Iterator[tuple[int, int]]]] = {
    _EM_X86_64: _x86_calls,
    _EM_AARCH64: _arm_calls,
}


def places(library: BinaryIO, returns: tuple[int, ...]) -> tuple[Place, ...]:
    """Where in the emitted text calls with these return addresses stand; unknown where no tool tells it."""
    unknown = tuple(Place(()) for _ in returns)
    tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if tool is None or not returns:
        return unknown
    try:
        told = subprocess.run(
            [tool, "-e", f"/dev/fd/{library.fileno()}", "-a", "-i", "-f", "-C", "-s"],
            pass_fds=(library.fileno(),),
            # A return address lies behind the call.
            input="".join(f"{place - 1:#x}\n" for place in returns),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return unknown
    found = [_place(words) for words in re.split(r"^0x[0-9a-f]+\n", told.stdout, flags=re.MULTILINE)[1:]]
    return tuple(found) if len(found) == len(returns) else unknown


def _place(words: str) -> Place:
    """A place from lines that are in turn a function and its file and line."""
    lines = words.splitlines()
    frames = [_frame(function, where) for function, where in zip(lines[::2], lines[1::2], strict=False)]
    return Place(tuple(frame for frame in frames if frame is not None))


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
