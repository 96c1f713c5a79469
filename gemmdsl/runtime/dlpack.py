"""Reads DLPack capsules: where an array of another library lies.

The structures are those of DLPack's C header, version 1 and the one before.  A capsule stays unconsumed:
whoever keeps it keeps the memory, and its own destructor gives the memory back.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

# Device types: CUDA, CUDA managed memory.
CUDA, CUDA_MANAGED = 2, 13
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_READ_ONLY_FLAG = 1
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype = ctypes.c_int
_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a capsule describes; strides in elements, `dtype` as in `float32`."""

    address: int
    device_type: int
    device: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    read_only: bool


def read(capsule: Any) -> Tensor:
    """The tensor of a capsule; ValueError when it is none, or of a later major version."""
    if _is_valid(capsule, b"dltensor"):
        tensor, read_only = _Tensor.from_address(_get_pointer(capsule, b"dltensor")), False
    elif _is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_get_pointer(capsule, b"dltensor_versioned"))
        if versioned.major > 1:
            raise ValueError(f"DLPack {versioned.major}.{versioned.minor} is not known")
        tensor, read_only = versioned.tensor, bool(versioned.flags & _READ_ONLY_FLAG)
    else:
        raise ValueError("no DLPack capsule")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else _contiguous(shape)
    dtype = f"{_KINDS.get(tensor.code, 'opaque')}{tensor.bits}" + (f"x{tensor.lanes}" * (tensor.lanes > 1))
    address = (tensor.data or 0) + tensor.byte_offset
    return Tensor(address, tensor.device_type, tensor.device_id, dtype, shape, strides, read_only)


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)
