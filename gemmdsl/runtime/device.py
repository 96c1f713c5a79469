"""A GPU through pycuda: its primary context, memory, modules, streams and events.

The primary context is the one that CUDA's runtime uses, hence torch and cupy too: memory and streams are
shared with them.  It is made current around each call and taken off again, so that what is current for others
in this thread stays so.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from gemmdsl.runtime import errors
from gemmdsl.runtime.bindings import current_context, pop_context
from gemmdsl.target import TARGETS, Target

# Any of pycuda's objects: the package has no types.
Handle = Any


def driver() -> Any:
    """The module pycuda.driver, initialised; GpuError without pycuda, driver or device."""
    cuda = _pycuda()
    try:
        cuda.init()
        count = cuda.Device.count()
    except cuda.Error as problem:
        raise errors.no_gpu(str(problem)) from problem
    if count == 0:
        raise errors.no_gpu("the driver finds no device")
    return cuda


def _pycuda() -> Any:
    try:
        return import_module("pycuda.driver")
    except ImportError as problem:
        reason = str(problem)
    if "libcuda.so" in reason:
        # The driver's library: pycuda is there.
        raise errors.no_gpu(reason)
    if "libcurand" in reason:
        # It may be in a wheel, where the system's loader does not look; a library that is loaded is found.
        with suppress(Exception):
            import_module("cuda.pathfinder").load_nvidia_dynamic_lib("curand")
            return import_module("pycuda.driver")
    raise errors.no_pycuda(reason)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a device has; sizes in bytes."""

    name: str
    target: str
    sms: int
    shared_per_block: int
    shared_per_sm: int
    threads_per_sm: int
    l2: int
    memory: int
    driver: tuple[int, int]

    @property
    def number(self) -> int:
        """Compute capability as in `sm_90`."""
        return int(self.target.removeprefix("sm_"))

    @property
    def row(self) -> Target:
        """A row of the table for the device: of the newest target which is no newer, with its own sizes."""
        rows = sorted(TARGETS.values(), key=lambda row: row.number)
        nearest = next((row for row in reversed(rows) if row.number <= self.number), rows[0])
        return replace(
            nearest,
            name=self.target,
            shared_per_sm=self.shared_per_sm,
            max_threads_per_sm=self.threads_per_sm,
        )

    @property
    def release(self) -> str:
        """The CUDA release that the driver supports."""
        return f"{self.driver[0]}.{self.driver[1]}"


class Gpu:
    """One device, open: a context manager, for use in the thread that made it.

    Closing gives the primary context back; arrays that were allocated through it must not be used after that
    unless somebody else (torch, another Gpu) still holds the context.
    """

    def __init__(self, index: int = 0) -> None:
        """GpuError without pycuda, driver or such a device."""
        self.cuda = driver()
        count = self.cuda.Device.count()
        if not 0 <= index < count:
            raise errors.no_such_gpu(index, count)
        self.index = index
        self._device = self.cuda.Device(index)
        self.limits = self._limits()
        self._thread = threading.get_ident()
        self._context: Handle = None
        with self._guarded("retaining the primary context"):
            self._context = self._device.retain_primary_context()
        self.kernels: dict[Any, Any] = {}
        self._stand_in: Handle = None
        self._workspaces: dict[int, tuple[int, Handle]] = {}

    def __enter__(self) -> Gpu:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __str__(self) -> str:
        return f"GPU {self.index} ({self.limits.name}, {self.limits.target})"

    @property
    def context(self) -> int:
        """Address of the primary context."""
        return int(self._context.handle)

    @property
    def closed(self) -> bool:
        return self._context is None

    def close(self) -> None:
        """Unload all modules and give the context back; harmless when done twice."""
        if self._context is None:
            return
        with self.current():
            self.kernels.clear()
            self._workspaces.clear()
            self._stand_in = None
        before = current_context()
        self._context.detach()
        self._context = None
        # pycuda takes it that giving a context back takes it off too, which is not so for the primary one.
        if current_context() != before:
            pop_context()

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the device's context current for a while; GpuError in another thread or when closed."""
        if self._context is None or threading.get_ident() != self._thread:
            raise errors.other_thread(str(self))
        self._context.push()
        try:
            yield
        finally:
            self.cuda.Context.pop()

    def allocate(self, size: int, what: str) -> Handle:
        """`size` bytes (at least one) at a multiple of 256; GpuError when there are not so many."""
        with self.current():
            try:
                return self.cuda.mem_alloc(max(1, size))
            except self.cuda.MemoryError as problem:
                free, _ = self.cuda.mem_get_info()
                raise errors.out_of_memory(what, size, free, str(self)) from problem

    def workspace(self, size: int, stream: Handle = None) -> Handle:
        """At least `size` bytes for what is next in a stream's order; the same memory every time.

        It is kept for the stream's next call, and a larger one takes its place when more is asked for.
        """
        key = int(stream.handle) if stream is not None else 0
        held, memory = self._workspaces.get(key, (0, None))
        if held < size:
            memory = self.allocate(size, "partial sums")
            self._workspaces[key] = (size, memory)
        return memory

    def load(self, cubin: bytes) -> Handle:
        """A module; pycuda's Error when the driver does not accept it."""
        with self.current():
            return self.cuda.module_from_buffer(cubin)

    def upload(self, address: int, data: Any) -> None:
        """Copy a contiguous array to the device."""
        if data.nbytes:
            with self.current(), self._guarded("copying to the GPU"):
                self.cuda.memcpy_htod(address, data)

    def download(self, data: Any, address: int) -> None:
        """Fill a contiguous array from the device, once all work on the default stream is done."""
        if data.nbytes:
            with self.current(), self._guarded("copying from the GPU"):
                self.cuda.memcpy_dtoh(data, address)

    def upload_lines(self, address: int, pitch: int, data: Any) -> None:
        """Copy the rows of a contiguous array to the device, `pitch` bytes from one to the next."""
        self._copy_rows(
            data, "copying to the GPU", ("set_src_host", data), ("set_dst_device", address), pitch
        )

    def download_lines(self, data: Any, address: int, pitch: int) -> None:
        """Fill a contiguous array from rows on the device, once all work on the default stream is done."""
        places = (("set_src_device", address), ("set_dst_host", data))
        self._copy_rows(data, "copying from the GPU", *places, pitch)

    def _copy_rows(
        self, data: Any, doing: str, source: tuple[str, Any], target: tuple[str, Any], pitch: int
    ) -> None:
        if not data.nbytes:
            return
        with self.current(), self._guarded(doing):
            copy = self.cuda.Memcpy2D()
            for setter, place in (source, target):
                getattr(copy, setter)(place)
            own = data.strides[0]
            copy.src_pitch, copy.dst_pitch = (own, pitch) if source[0] == "set_src_host" else (pitch, own)
            copy.width_in_bytes, copy.height = data.shape[1] * data.itemsize, data.shape[0]
            copy(aligned=False)

    def fill_words(self, address: int, word: int, count: int, stream: Handle = None) -> None:
        """Set `count` 32-bit words."""
        if count:
            with self.current(), self._guarded("filling memory"):
                self.cuda.memset_d32_async(address, word, count, stream)

    def copy(self, to: int, origin: int, size: int, stream: Handle = None) -> None:
        """Copy `size` bytes on the device."""
        with self.current(), self._guarded("copying on the GPU"):
            self.cuda.memcpy_dtod_async(to, origin, size, stream)

    def copy_lines(
        self,
        to: int,
        to_pitch: int,
        origin: int,
        origin_pitch: int,
        width: int,
        lines: int,
        stream: Handle = None,
    ) -> None:
        """Copy `lines` lines of `width` bytes on the device; pitches are bytes from line to line."""
        if not width or not lines:
            return
        with self.current(), self._guarded("copying C"):
            copy = self.cuda.Memcpy2D()
            copy.set_src_device(origin)
            copy.set_dst_device(to)
            copy.src_pitch, copy.dst_pitch = max(width, origin_pitch), max(width, to_pitch)
            copy.width_in_bytes, copy.height = width, lines
            if stream is None:
                copy(aligned=False)
            else:
                copy(stream)

    def stream(self) -> Handle:
        """A new stream that does not wait for the default one."""
        with self.current(), self._guarded("making a stream"):
            return self.cuda.Stream(1)

    def stand_in(self) -> Handle:
        """The stream on which work for streams of other libraries is done."""
        if self._stand_in is None:
            self._stand_in = self.stream()
        return self._stand_in

    def empty(self, rows: int, cols: int, order: str, what: str) -> Handle:
        """A float32 GPUArray; `order` is C or F.  GpuError when there is no memory."""
        arrays = import_module("pycuda.gpuarray")
        with self.current():
            try:
                return arrays.empty((rows, cols), "float32", order=order)
            except self.cuda.MemoryError as problem:
                free, _ = self.cuda.mem_get_info()
                raise errors.out_of_memory(what, 4 * rows * cols, free, str(self)) from problem

    def event(self) -> Handle:
        """A new event that takes the time."""
        with self.current(), self._guarded("making an event"):
            return self.cuda.Event()

    def synchronize(self, stream: Handle = None, kernel: str = "", schedule: str = "") -> None:
        """Wait for a stream, or for all work of the device; GpuError when it failed.

        `kernel` and `schedule` are named as the culprits.
        """
        with self.current():
            try:
                self.cuda.Context.synchronize() if stream is None else stream.synchronize()
            except self.cuda.Error as problem:
                if kernel:
                    raise errors.failed(kernel, schedule, str(problem)) from problem
                raise errors.refused("waiting for the GPU", str(problem)) from problem

    def free_memory(self) -> int:
        """Bytes that can still be allocated."""
        with self.current():
            return int(self.cuda.mem_get_info()[0])

    @contextmanager
    def _guarded(self, doing: str) -> Iterator[None]:
        try:
            yield
        except self.cuda.Error as problem:
            raise errors.refused(doing, str(problem)) from problem

    def _limits(self) -> Limits:
        get, names = self._device.get_attribute, self.cuda.device_attribute
        major, minor = self._device.compute_capability()
        release = int(self.cuda.get_driver_version())
        return Limits(
            name=self._device.name(),
            target=f"sm_{major}{minor}",
            sms=get(names.MULTIPROCESSOR_COUNT),
            shared_per_block=get(names.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            shared_per_sm=get(names.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
            threads_per_sm=get(names.MAX_THREADS_PER_MULTIPROCESSOR),
            l2=get(names.L2_CACHE_SIZE),
            memory=int(self._device.total_memory()),
            driver=(release // 1000, release % 1000 // 10),
        )


_threads = threading.local()


def gpu(index: int = 0) -> Gpu:
    """This thread's Gpu for a device, opened when it is first asked for and kept for the thread's life."""
    opened: dict[int, Gpu] = _threads.__dict__.setdefault("opened", {})
    if index not in opened or opened[index].closed:
        opened[index] = Gpu(index)
    return opened[index]


def close_all() -> None:
    """Close what `gpu` opened in this thread."""
    opened: dict[int, Gpu] = _threads.__dict__.setdefault("opened", {})
    while opened:
        opened.popitem()[1].close()


# Before the driver's own clean-up, which would find contexts in use.
atexit.register(close_all)
