"""Streams of other libraries: what orders our work with theirs.

pycuda launches on its own streams and on the default one.  For a stream of torch, cupy or any other library,
the kernel runs on a stream of ours that waits for theirs before and that theirs waits for afterwards; nobody
waits on the host.  The events for it come from the cuda-bindings package.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gemmdsl.resources import installs
from gemmdsl.runtime import errors
from gemmdsl.runtime.bindings import bindings, called
from gemmdsl.runtime.device import Gpu, Handle

# The default stream by its two names in CUDA's interfaces, and the default stream of each thread.
_DEFAULT = (0, 1)
_NO_TIMING = 2


def handle_of(stream: object) -> int:
    """The address of a stream: an int, pycuda's, or anything with `__cuda_stream__`; GpuError for others."""
    match stream:
        case None:
            return 0
        case bool():
            raise errors.no_stream(f"it is {stream}")
        case int():
            if stream < 0:
                raise errors.no_stream(f"{stream} is no address")
            return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        version, handle = protocol() if callable(protocol) else protocol
        if version != 0:
            raise errors.no_stream(f"version {version} of __cuda_stream__ is not known")
        return int(handle)
    # pycuda, torch and cupy, from before the protocol.
    for name in ("handle", "cuda_stream", "ptr"):
        found = getattr(stream, name, None)
        if isinstance(found, int):
            return found
    raise errors.no_stream(f"a {type(stream).__name__} has no __cuda_stream__")


@contextmanager
def ordered(gpu: Gpu, stream: object) -> Iterator[Handle]:
    """What is launched on the given pycuda stream (None: the default one) runs in the order of `stream`.

    GpuError when that cannot be had.
    """
    if isinstance(stream, gpu.cuda.Stream):
        yield stream
        return
    theirs = handle_of(stream)
    if theirs in _DEFAULT:
        yield None
        return
    with gpu.current():
        ours = gpu.stand_in()
        after(ours.handle, theirs)
        yield ours
        after(theirs, ours.handle)


def after(later: int, earlier: int) -> None:
    """Let one stream wait for what another has been given so far."""
    cuda = bindings()
    if cuda is None:
        raise errors.no_stream(f"streams of other libraries need cuda-bindings: {installs('gpu')}")
    event = called(cuda.cuEventCreate(_NO_TIMING))
    try:
        called(cuda.cuEventRecord(event, cuda.CUstream(earlier)))
        called(cuda.cuStreamWaitEvent(cuda.CUstream(later), event, 0))
    finally:
        called(cuda.cuEventDestroy(event))
