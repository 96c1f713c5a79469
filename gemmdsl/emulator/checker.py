"""Tells a library that was built with the checker what it works on, and where its findings are."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

from gemmdsl.emulator.symbols import places, thread_variables
from gemmdsl.spec import OperandName, Order, Problem

_DYNAMIC = "gemm_emu_dynamic_shared"
_OPERANDS: tuple[OperandName, ...] = ("A", "B", "C")
_NAME_BYTES = 96


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
        ("variables", ctypes.POINTER(_Variable)),
    )


class Checker:
    """The checker inside an open library."""

    def __init__(self, library: ctypes.CDLL, path: Path, address_of: Callable[[str], int]) -> None:
        """`address_of` gives the address of a function of the library by its name."""
        self._library = library
        library.gemm_emu_places.restype = ctypes.POINTER(ctypes.c_uint64 * 2)
        # Stays readable when the file is removed.
        self._file = path.open("rb")
        weakref.finalize(self, self._file.close)
        variables = []
        for variable in thread_variables(self._file.read()):
            if variable.name == _DYNAMIC:
                variables.append(_Variable(variable.offset, 0, None, b"dynamic shared memory"))
            elif variable.shared:
                owner = _owner(variable.function, address_of)
                name = variable.name.encode()[: _NAME_BYTES - 1]
                variables.append(_Variable(variable.offset, variable.size, owner, name))
        self._variables = (_Variable * len(variables))(*variables)

    def watch(self, problem: Problem, arguments: Mapping[str, float]) -> None:
        """The operands of the next launch: where they are, and which may be read."""
        sizes = {name: int(value) for name, value in arguments.items() if name not in ("alpha", "beta")}
        product = arguments.get("alpha", 1.0) != 0 and sizes["K"] > 0
        readable = {"A": product, "B": product, "C": arguments.get("beta", 0.0) != 0}
        operands = []
        for operand in map(problem.operand, _OPERANDS):
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
        watch = _Watch((_Operand * 3)(*operands), len(self._variables), self._variables)
        self._library.gemm_emu_watch(ctypes.byref(watch))

    def located(self, message: str) -> tuple[str, tuple[str, ...]]:
        """The message with lines of the emitted text for its places, and the calls that led to them."""
        if "{here}" not in message:
            return message, ()
        # A return address lies behind the call.
        offsets = tuple(place - 1 for place in self._library.gemm_emu_places().contents)
        here, there = places(self._file, offsets)
        spoken_of = (here, there) if "{there}" in message else (here,)
        calls = tuple(place.calls for place in spoken_of if place.frames)
        return message.replace("{here}", str(here)).replace("{there}", str(there)), calls


def _owner(function: str, address_of: Callable[[str], int]) -> int | None:
    """The kernel that declares a variable; None for other functions, which several kernels may call."""
    if not function:
        return None
    try:
        return address_of(function)
    except AttributeError:
        return None
