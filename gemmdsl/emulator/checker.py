"""Tells a library that was built with the checker what it works on, and where its findings are."""

from __future__ import annotations

import ctypes
import re
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from gemmdsl.cuda_source import CudaSource, SharedStages
from gemmdsl.emulator.causes import function_at
from gemmdsl.emulator.symbols import Place, call_sites, places, thread_variables
from gemmdsl.spec import OperandName, Order

# What a finding is about, and a person may ask for.
Sanitizer = Literal["race", "memory", "init", "align"]
SANITIZERS: tuple[Sanitizer, ...] = get_args(Sanitizer)

_DYNAMIC = "gemm_emu_dynamic_shared"
_OPERANDS: tuple[OperandName, ...] = ("A", "B", "C")
_NAME_BYTES = 96
# Functions of the emulator that are called where the kernel accesses memory.
_ACCESSES = re.compile(r"__tsan_(unaligned_)?(read|write)\d+|.*gemm_emu.*copy_async.*")


class _Operand(ctypes.Structure):
    """Mirrors gemm_emu::WatchedOperand."""

    _fields_ = (
        ("address", ctypes.c_uint64),
        ("lines", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("ld", ctypes.c_int64),
        ("row_major", ctypes.c_int32),
        ("readable", ctypes.c_int32),
    )


class _Variable(ctypes.Structure):
    """Mirrors gemm_emu::WatchedVariable."""

    _fields_ = (
        ("offset", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("owner", ctypes.c_void_p),
        ("name", ctypes.c_char * _NAME_BYTES),
    )


class _Watch(ctypes.Structure):
    """Mirrors gemm_emu::Watch."""

    _fields_ = (
        ("operands", _Operand * 3),
        ("variable_count", ctypes.c_uint32),
        ("kinds", ctypes.c_uint32),
        ("variables", ctypes.POINTER(_Variable)),
        ("parts", ctypes.c_uint32),
        ("busy_parts", ctypes.c_uint32),
        ("scaled", ctypes.c_uint32),
    )


@dataclass(frozen=True, slots=True)
class Located:
    """A message with lines of the text for its places, and how they were reached: see `library.Outcome`."""

    message: str
    calls: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()


class Checker:
    """The checker inside an open library."""

    def __init__(
        self, library: ctypes.CDLL, path: Path, source: CudaSource, address_of: Callable[[str], int]
    ) -> None:
        """`address_of` gives the address of a function of the library by its name."""
        self._library = library
        self._problem, self._text = source.problem, source.text
        self._parts = source.plan.parts
        library.gemm_emu_places.restype = ctypes.POINTER(ctypes.c_uint64 * 2)
        # Stays readable when the file is removed.
        self._file = path.open("rb")
        weakref.finalize(self, self._file.close)
        data = self._file.read()
        variables = []
        for variable in thread_variables(data):
            if variable.name == _DYNAMIC:
                variables.append(_Variable(variable.offset, 0, None, b"dynamic shared memory"))
            elif variable.shared:
                owner = _owner(variable.function, address_of)
                name = variable.name.encode()[: _NAME_BYTES - 1]
                variables.append(_Variable(variable.offset, variable.size, owner, name))
        self._variables = (_Variable * len(variables))(*variables)
        if source.shared is not None:
            self._forbid(source.shared, data)

    def _forbid(self, shared: SharedStages, data: bytes) -> None:
        """Tell the checker which code is a function's that has no business in one of the arrays."""
        sites = call_sites(data, _ACCESSES)
        foreign = {
            function: sum(1 << other for other in range(len(shared.arrays)) if other != own)
            for own, array in enumerate(shared.arrays)
            for function in array.functions
        }
        found = {}
        for site, place in zip(sites, places(self._file, sites), strict=True):
            if arrays := next((foreign[name] for name in place.functions if name in foreign), 0):
                found[site] = arrays
        count = len(found)
        sites_of, arrays_of = (ctypes.c_uint32 * count)(*found), (ctypes.c_uint8 * count)(*found.values())
        self._library.gemm_emu_forbid(sites_of, arrays_of, ctypes.c_uint32(count))

    def watch(self, arguments: Mapping[str, float], wanted: Collection[Sanitizer]) -> None:
        """The operands of the next launch, those that may be read, and the findings that end it."""
        sizes = {name: int(value) for name, value in arguments.items() if name not in ("alpha", "beta")}
        product = arguments.get("alpha", 1.0) != 0 and sizes["K"] > 0
        readable = {"A": product, "B": product, "C": arguments.get("beta", 0.0) != 0}
        operands = []
        for operand in map(self._problem.operand, _OPERANDS):
            operands.append(
                _Operand(
                    address=sizes[operand.name],
                    lines=sizes[operand.strided],
                    width=sizes[operand.contiguous],
                    ld=max(1, sizes[operand.ld]),
                    row_major=operand.order is Order.ROW,
                    readable=readable[operand.name],
                )
            )
        kinds = sum(1 << bit for bit, kind in enumerate(SANITIZERS) if kind in wanted)
        watch = _Watch((_Operand * 3)(*operands), len(self._variables), kinds, self._variables)
        if self._parts is not None and self._parts.atomic:
            watch.parts = self._parts.count
            watch.busy_parts = self._parts.busy(sizes["K"]) if product else 0
            # What is multiplied by 1 need not be.
            watch.scaled = arguments.get("beta", 0.0) != 1
        self._library.gemm_emu_watch(ctypes.byref(watch))

    def complete(self) -> bool:
        """Whether the call since `watch`, which succeeded, did all to C that it has to do."""
        return bool(self._library.gemm_emu_call_ends())

    def _named(self, place: Place) -> Place:
        """The place with the name of its innermost function, for which tools give that of the outermost."""
        if not place.frames:
            return place
        (function, line), *callers = place.frames
        return Place(((function_at(self._text, line) or function, line), *callers))

    def located(self, message: str) -> Located:
        """The last launch's message; {here} and {there} in it stand for places that the library knows."""
        if "{here}" not in message:
            return Located(message)
        found = places(self._file, tuple(self._library.gemm_emu_places().contents))
        here, there = map(self._named, found)
        if not here.frames:
            message = message.removesuffix("; last seen {here}")
        spoken_of = (here, there) if "{there}" in message else (here,)
        calls = tuple(place.calls for place in spoken_of if place.frames)
        text = message.replace("{here}", str(here)).replace("{there}", str(there))
        return Located(text, calls, here.functions)


def _owner(function: str, address_of: Callable[[str], int]) -> int | None:
    """The kernel that declares a variable; None for other functions, which several kernels may call."""
    if not function:
        return None
    try:
        return address_of(function)
    except AttributeError:
        return None
