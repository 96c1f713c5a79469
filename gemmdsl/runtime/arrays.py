"""Arrays that people already have, as operands: where their elements lie, and whether a kernel can use them.

On the GPU: pycuda's GPUArray and whatever has `__cuda_array_interface__` or DLPack, without a copy.
Everything else is data of the host.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmdsl.launch_errors import LaunchError, unusable
from gemmdsl.runtime import dlpack
from gemmdsl.runtime.bindings import owner_of
from gemmdsl.runtime.device import Gpu
from gemmdsl.spec import Operand, Order

_FLOAT_BYTES = 4
_LEGACY_STREAM = 1


@dataclass(frozen=True, slots=True)
class View:
    """A matrix in the GPU's memory.

    Strides are in bytes.  `owner` keeps the memory; `stream` is the address of the stream that has to be
    waited for, 0 when there is none.
    """

    argument: str
    address: int
    shape: tuple[int, int]
    strides: tuple[int, int]
    writable: bool
    owner: object
    stream: int = 0


def view(argument: str, value: object, gpu: Gpu, stream: int = 0) -> View | None:
    """The matrix that `value` is on this GPU; None when it is data of the host.

    `stream` is the address of the stream that will use it.  LaunchError when it is on another device, is no
    matrix, or does not have float32 elements.
    """
    if isinstance(value, (np.ndarray, np.generic, list, tuple, int, float)):
        return None
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
    except Exception as refusal:  # torch: tensors that need a gradient
        raise unusable(argument, f"{argument} cannot be used as it is: {refusal}") from refusal
    if interface is not None:
        return _from_interface(argument, value, interface, gpu)
    if not hasattr(value, "__dlpack__"):
        return None
    device_type = int(value.__dlpack_device__()[0]) if hasattr(value, "__dlpack_device__") else dlpack.CUDA
    if device_type not in (dlpack.CUDA, dlpack.CUDA_MANAGED):
        return None
    try:
        capsule = value.__dlpack__(stream=stream or _LEGACY_STREAM)
        tensor = dlpack.read(capsule)
    except (BufferError, RuntimeError, TypeError, ValueError) as refusal:
        raise unusable(argument, f"{argument} cannot be used as it is: {refusal}") from refusal
    if tensor.device != gpu.index:
        raise _on_another_device(argument, tensor.device, gpu)
    _check(argument, tensor.dtype, tensor.shape)
    rows, cols = (_FLOAT_BYTES * stride for stride in tensor.strides)
    shape = (tensor.shape[0], tensor.shape[1])
    return View(argument, tensor.address, shape, (rows, cols), not tensor.read_only, (value, capsule))


def _from_interface(argument: str, value: object, interface: dict[str, Any], gpu: Gpu) -> View:
    shape = tuple(interface["shape"])
    _check(argument, np.dtype(interface["typestr"]).name, shape)
    if interface.get("mask") is not None:
        raise unusable(argument, f"{argument} has a mask")
    address, read_only = interface["data"]
    try:
        owner = owner_of(address or 0)
    except ValueError as unknown:
        raise unusable(argument, f"{argument} is not in the GPU's memory: {unknown}") from unknown
    if owner is not None and owner[0] != gpu.index:
        raise _on_another_device(argument, owner[0], gpu)
    if owner is not None and owner[1] not in (0, gpu.context):
        raise unusable(
            argument,
            f"{argument} is of another context than the device's primary one, which gemmdsl uses;"
            " pycuda.autoprimaryctx in place of pycuda.autoinit shares it",
        )
    strides = interface.get("strides") or (_FLOAT_BYTES * shape[1], _FLOAT_BYTES)
    return View(
        argument,
        address or 0,
        (shape[0], shape[1]),
        (strides[0], strides[1]),
        not read_only,
        value,
        interface.get("stream") or 0,
    )


def _check(argument: str, dtype: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise unusable(argument, f"{argument} has {len(shape)} axes, and a matrix has 2")
    if dtype != "float32":
        raise unusable(argument, f"{argument} has dtype {dtype}, and float32 is needed")


def _on_another_device(argument: str, device: int, gpu: Gpu) -> LaunchError:
    return unusable(argument, f"{argument} is on GPU {device}, and the kernel runs on {gpu}")


def placed(found: View, operand: Operand) -> int:
    """The leading dimension of a matrix; LaunchError when it is not stored as the problem says."""
    by_row = operand.order is Order.ROW
    (rows, cols), (row_stride, col_stride) = found.shape, found.strides
    lines, length = (rows, cols) if by_row else (cols, rows)
    pitch, step = (row_stride, col_stride) if by_row else (col_stride, row_stride)
    if lines == 0 or length == 0:
        return max(1, length)
    kind = "row" if by_row else "column"
    told = f"its shape is {rows} x {cols} and its strides are {row_stride} and {col_stride} bytes"
    if length > 1 and step != _FLOAT_BYTES:
        other = f"; it is {'column' if by_row else 'row'}-major" if pitch == _FLOAT_BYTES else ""
        raise unusable(
            found.argument,
            f"the problem stores {operand.name} {kind}-major, neighbours of a {kind} 4 bytes apart, and"
            f" {found.argument} is not so: {told}{other}",
        )
    if lines == 1:
        # One line has no pitch; a multiple of four keeps vectors possible.
        return -(-length // 4) * 4
    if pitch % _FLOAT_BYTES or pitch < _FLOAT_BYTES * length:
        raise unusable(
            found.argument, f"the {kind}s of {found.argument} overlap, run backwards or lie askew: {told}"
        )
    return pitch // _FLOAT_BYTES


def empty_like(gpu: Gpu, like: Any, operand: Operand, rows: int, cols: int) -> Any:
    """A new matrix on the GPU in the operand's order, of the library that `like` is of, else a GPUArray."""
    by_row = operand.order is Order.ROW
    library = type(like).__module__.split(".")[0]
    if library == "torch":
        return like.new_empty((rows, cols)) if by_row else like.new_empty((cols, rows)).T
    if library == "cupy":
        with like.device:
            return sys.modules["cupy"].empty((rows, cols), "float32", order="C" if by_row else "F")
    return gpu.empty(rows, cols, "C" if by_row else "F", operand.name)
