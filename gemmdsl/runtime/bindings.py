"""The cuda-bindings package, where it is installed: what pycuda lacks.

That is events between streams of other libraries, CUDA graphs, whose memory an address is, what is current.
Everything goes by addresses, so both packages can work on the same streams and contexts.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gemmdsl.runtime import errors


def bindings() -> Any:
    """The module cuda.bindings.driver; None when the package is not installed."""
    try:
        return import_module("cuda.bindings.driver")
    except ImportError:
        return None


def called(result: tuple[Any, ...]) -> Any:
    """The value of a call; GpuError when it failed."""
    status, *values = result
    if int(status) != 0:
        raise errors.refused("calling the driver through cuda-bindings", str(status))
    return values[0] if values else None


def current_context() -> int:
    """Address of the context that is current in this thread; 0 when none is, or it cannot be told."""
    cuda = bindings()
    return 0 if cuda is None else int(called(cuda.cuCtxGetCurrent()))


def pop_context() -> None:
    """Take the context off that is current."""
    if (cuda := bindings()) is not None:
        called(cuda.cuCtxPopCurrent())


def owner_of(address: int) -> tuple[int, int] | None:
    """Number of the device and address of the context (0: any) that memory belongs to; None when it cannot be
    told.

    ValueError when CUDA does not know the address.
    """
    cuda = bindings()
    if cuda is None or address == 0:
        return None
    kinds = cuda.CUpointer_attribute
    status, device = cuda.cuPointerGetAttribute(kinds.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)
    if int(status) != 0:
        raise ValueError(f"{address:#x} is no address of CUDA's")
    # Memory that is mapped, as some allocators do it, is of no context.
    status, context = cuda.cuPointerGetAttribute(kinds.CU_POINTER_ATTRIBUTE_CONTEXT, address)
    return int(device), int(context) if int(status) == 0 and context is not None else 0
