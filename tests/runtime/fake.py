"""A GPU made of the host: pycuda and cuda-bindings as far as gemmdsl uses them.

Memory is memory of this process, and a kernel runs on the CPU emulator, so results are real.  What the real
driver refuses is refused: work without a current context, freeing twice, too much memory, kernels that are
not in a module.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from gemmdsl.cuda_source import CudaSource, Launch
from gemmdsl.emulator.library import RunOptions
from gemmdsl.emulator.library import load as load_library
from gemmdsl.toolchain import Cubin, Usage
from tests.runtime.fake_memory import SUPPORT, words

ATTRIBUTES = {
    "MULTIPROCESSOR_COUNT": 4,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232_448,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 233_472,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "L2_CACHE_SIZE": 2**20,
}


# Address of the primary context of device 0.
CONTEXT = 0x900000


class Error(Exception):
    """pycuda.driver.Error."""


class LogicError(Error):
    """Wrong use."""


class MemoryRefused(Error):
    """pycuda.driver.MemoryError."""


@dataclass
class World:
    """The machine: its devices, what lies in their memory, and what is asked of them."""

    devices: int = 1
    capability: tuple[int, int] = (9, 0)
    driver: int = 13000
    memory: int = 2**30
    stack: list[Any] = field(default_factory=list)
    retained: int = 0
    used: dict[int, tuple[int, Any, int]] = field(default_factory=dict)
    sources: dict[str, CudaSource] = field(default_factory=dict)
    captures: dict[int, list[Callable[[], None]]] = field(default_factory=dict)
    graphs: int = 0
    # Allocations of other contexts than the primary one.
    foreign: dict[int, int] = field(default_factory=dict)
    refuse_cubins: bool = False
    fail_waiting: bool = False
    launches: list[tuple[str, int, int, int]] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)
    synchronized: int = 0
    clock: float = 0.0
    milliseconds: Callable[[str], float] = lambda name: 1.0
    usage: tuple[Usage, ...] = ()
    opted_in: dict[str, int] = field(default_factory=dict)
    carveouts: dict[str, int] = field(default_factory=dict)

    def know(self, source: CudaSource) -> CudaSource:
        """Let the kernels of this source be loadable."""
        self.sources[source.text] = source
        return source

    def compile(self, text: str, target: str) -> Cubin:
        return Cubin(target, text.encode(), self.usage, "nvcc 13.0")

    def do(self, stream: int, work: Callable[[], None]) -> None:
        """Do it now, or when the graph that the stream is captured for is launched."""
        if stream in self.captures:
            self.captures[stream].append(work)
        else:
            work()

    def bytes_used(self) -> int:
        return sum(size for size, _, _ in self.used.values())

    def device_of(self, address: int) -> int | None:
        for start, (size, _, device) in self.used.items():
            if start <= address < start + size:
                return device
        return None

    def need_context(self) -> int:
        if not self.stack:
            raise LogicError("invalid device context")
        return int(self.stack[-1].device)


def modules(world: World) -> dict[str, ModuleType]:
    """The modules to put into sys.modules."""
    driver = ModuleType("pycuda.driver")
    vars(driver).update(_driver(world))
    arrays = ModuleType("pycuda.gpuarray")
    vars(arrays).update(_arrays(driver))
    bindings = ModuleType("cuda.bindings.driver")
    vars(bindings).update(_bindings(world))
    return {
        "pycuda": ModuleType("pycuda"),
        "pycuda.driver": driver,
        "pycuda.gpuarray": arrays,
        "cuda": ModuleType("cuda"),
        "cuda.bindings": ModuleType("cuda.bindings"),
        "cuda.bindings.driver": bindings,
    }


def _driver(world: World) -> dict[str, Any]:
    class Context:
        def __init__(self, device: int) -> None:
            self.device, self.handle = device, CONTEXT + device

        def push(self) -> None:
            world.stack.append(self)

        @staticmethod
        def pop() -> None:
            world.stack.pop()

        def detach(self) -> None:
            assert self not in world.stack
            world.retained -= 1
            # As pycuda does, and does not undo.
            world.stack.append(self)

        @staticmethod
        def synchronize() -> None:
            world.need_context()
            world.synchronized += 1
            if world.fail_waiting:
                raise LogicError("cuCtxSynchronize failed: an illegal memory access was encountered")

    class Device:
        def __init__(self, index: int) -> None:
            self.index = index

        @staticmethod
        def count() -> int:
            return world.devices

        def name(self) -> str:
            return "Fake H200"

        def compute_capability(self) -> tuple[int, int]:
            return world.capability

        def total_memory(self) -> int:
            return world.memory

        def get_attribute(self, attribute: str) -> int:
            return ATTRIBUTES[attribute]

        def retain_primary_context(self) -> Context:
            world.retained += 1
            return Context(self.index)

    class Allocation:
        def __init__(self, size: int) -> None:
            device = world.need_context()
            if world.bytes_used() + size > world.memory:
                raise MemoryRefused("cuMemAlloc failed: out of memory")
            buffer = np.full(size + 512, 0xA5, np.uint8)
            self.address = -(-buffer.ctypes.data // 256) * 256
            world.used[self.address] = (size, buffer, device)

        def __int__(self) -> int:
            return self.address

        def __del__(self) -> None:
            if hasattr(self, "address"):
                world.used.pop(self.address)

    class Stream:
        made = 0

        def __init__(self, flags: int = 0) -> None:
            world.need_context()
            Stream.made += 1
            self.handle = 0x1000 + Stream.made

        def synchronize(self) -> None:
            Context.synchronize()

    class Event:
        def record(self, stream: Stream | None = None) -> Event:
            world.need_context()
            self.at = world.clock
            return self

        def synchronize(self) -> Event:
            return self

        def time_since(self, other: Event) -> float:
            return self.at - other.at

    class Function:
        def __init__(self, name: str, source: CudaSource | None) -> None:
            self.name, self.source, self.format = name, source, ""

        def prepare(self, types: str) -> None:
            self.format = types

        def set_attribute(self, attribute: str, value: int) -> None:
            known = {"MAX_DYNAMIC": world.opted_in, "CARVEOUT": world.carveouts}
            known[attribute][self.name] = value

        def prepared_async_call(
            self,
            grid: tuple[int, int, int],
            block: tuple[int, int, int],
            stream: Stream | None,
            *arguments: float,
            shared_size: int = 0,
        ) -> None:
            world.need_context()
            assert stream is None or isinstance(stream, Stream)
            assert len(arguments) == len(self.format)
            if shared_size > max(49152, world.opted_in.get(self.name, 0)):
                raise LogicError("cuLaunchKernel failed: invalid argument")
            handle = stream.handle if stream else 0
            world.do(handle, lambda: self._run(grid, block, shared_size, handle, arguments))

        def _run(
            self,
            grid: tuple[int, int, int],
            block: tuple[int, int, int],
            shared_size: int,
            handle: int,
            arguments: tuple[float, ...],
        ) -> None:
            world.launches.append((self.name, grid[0], shared_size, handle))
            world.clock += world.milliseconds(self.name)
            if self.source is None:
                SUPPORT[self.name](*arguments)
                return
            taken = dict(self.source.plan.kernels)[self.name]
            values = dict(zip((parameter.name for parameter in taken), arguments, strict=True))
            library = load_library(self.source)
            if shared_size and self.source.plan.parts is None:
                # The launcher asks the emulator for so much; it must come to the same choice.
                outcome = library.launch(values, RunOptions())
                assert outcome.entry is not None
                assert outcome.entry.name == self.name
            else:
                one = Launch(self.name, grid, block[0], shared_size, taken)
                outcome = library.run_kernel(one, values, RunOptions())
            if outcome.status:
                raise LogicError(f"cuLaunchKernel failed: {outcome.message}")

    class Module:
        def __init__(self, text: str) -> None:
            self.text = text

        def get_function(self, name: str) -> Function:
            source = world.sources.get(self.text)
            if name not in self.text:
                raise LogicError("cuModuleGetFunction failed: named symbol not found")
            return Function(name, source)

    def load(data: bytes) -> Module:
        world.need_context()
        if world.refuse_cubins:
            raise LogicError("cuModuleLoadDataEx failed: device kernel image is invalid")
        return Module(data.decode())

    def upload(address: int, data: Any) -> None:
        world.need_context()
        assert data.flags.c_contiguous
        ctypes.memmove(int(address), data.ctypes.data, data.nbytes)

    def download(data: Any, address: int) -> None:
        world.need_context()
        assert data.flags.c_contiguous
        ctypes.memmove(data.ctypes.data, int(address), data.nbytes)

    def fill(address: int, word: int, count: int, stream: Stream | None = None) -> None:
        world.need_context()
        words(address, count)[...] = word

    def copy(to: int, origin: int, size: int, stream: Stream | None = None) -> None:
        world.need_context()
        world.clock += world.milliseconds("copy")
        ctypes.memmove(to, origin, size)

    class Memcpy2D:
        src_pitch = dst_pitch = width_in_bytes = height = 0

        def set_src_device(self, address: int) -> None:
            self.src = address

        def set_dst_device(self, address: int) -> None:
            self.dst = address

        def set_src_host(self, data: Any) -> None:
            self.src = data.ctypes.data

        def set_dst_host(self, data: Any) -> None:
            self.dst = data.ctypes.data

        def __call__(self, stream: Stream | None = None, aligned: bool = True) -> None:
            world.need_context()
            for line in range(self.height):
                ctypes.memmove(
                    self.dst + line * self.dst_pitch, self.src + line * self.src_pitch, self.width_in_bytes
                )

    return {
        "Error": Error,
        "LogicError": LogicError,
        "MemoryError": MemoryRefused,
        "init": lambda: None,
        "get_driver_version": lambda: world.driver,
        "Device": Device,
        "Context": Context,
        "Stream": Stream,
        "Event": Event,
        "Memcpy2D": Memcpy2D,
        "mem_alloc": Allocation,
        "mem_get_info": lambda: (world.memory - world.bytes_used(), world.memory),
        "module_from_buffer": load,
        "memcpy_htod": upload,
        "memcpy_dtoh": download,
        "memset_d32_async": fill,
        "memcpy_dtod_async": copy,
        "device_attribute": SimpleNamespace(**{name: name for name in ATTRIBUTES}),
        "function_attribute": SimpleNamespace(
            MAX_DYNAMIC_SHARED_SIZE_BYTES="MAX_DYNAMIC", PREFERRED_SHARED_MEMORY_CARVEOUT="CARVEOUT"
        ),
    }


def _arrays(driver: ModuleType) -> dict[str, Any]:
    class GPUArray:
        def __init__(self, shape: tuple[int, int], dtype: str, order: str) -> None:
            self.shape, self.dtype = shape, np.dtype(dtype)
            size = shape[0] * shape[1] * self.dtype.itemsize
            self.gpudata = driver.mem_alloc(size) if size else None
            item, (rows, cols) = self.dtype.itemsize, shape
            self.strides = (cols * item, item) if order == "C" else (item, rows * item)

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {
                "shape": self.shape,
                "strides": self.strides,
                "data": (int(self.gpudata) if self.gpudata else 0, False),
                "typestr": self.dtype.str,
                "stream": None,
                "version": 3,
            }

        def get(self) -> Any:
            raw = np.ctypeslib.as_array((ctypes.c_byte * self._bytes()).from_address(int(self.gpudata)))
            return np.lib.stride_tricks.as_strided(raw.view(self.dtype), self.shape, self.strides).copy()

        def set(self, values: Any) -> GPUArray:
            raw = np.ctypeslib.as_array((ctypes.c_byte * self._bytes()).from_address(int(self.gpudata)))
            np.lib.stride_tricks.as_strided(raw.view(self.dtype), self.shape, self.strides)[...] = values
            return self

        def _bytes(self) -> int:
            return int(np.prod(self.shape)) * self.dtype.itemsize

    def empty(shape: tuple[int, int], dtype: str, order: str = "C") -> GPUArray:
        return GPUArray(shape, dtype, order)

    return {"GPUArray": GPUArray, "empty": empty}


def _bindings(world: World) -> dict[str, Any]:
    recorded: dict[int, int] = {}

    def create(flags: int) -> tuple[int, int]:
        recorded[len(recorded) + 1] = 0
        return 0, len(recorded)

    def record(event: int, stream: int) -> tuple[int]:
        recorded[event] = stream
        return (0,)

    def wait(stream: int, event: int, flags: int) -> tuple[int]:
        world.waits.append((stream, recorded[event]))
        return (0,)

    def attribute(which: str, address: int) -> tuple[int, int]:
        device = world.device_of(address)
        if device is None:
            return 1, 0
        return 0, device if which == "ordinal" else world.foreign.get(address, CONTEXT + device)

    def begin(stream: int, mode: str) -> tuple[int]:
        world.captures[stream] = []
        return (0,)

    def end(stream: int) -> tuple[int, Any]:
        return 0, world.captures.pop(stream)

    def instantiate(graph: Any, flags: int) -> tuple[int, Any]:
        world.graphs += 1
        return 0, graph

    def launch(graph: Any, stream: int) -> tuple[int]:
        for work in graph:
            work()
        return (0,)

    def destroy(graph: Any) -> tuple[int]:
        world.graphs -= 1
        return (0,)

    return {
        "CUstreamCaptureMode": SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed"),
        "cuStreamBeginCapture": begin,
        "cuStreamEndCapture": end,
        "cuGraphInstantiate": instantiate,
        "cuGraphDestroy": lambda graph: (0,),
        "cuGraphLaunch": launch,
        "cuGraphExecDestroy": destroy,
        "CUstream": int,
        "cuCtxGetCurrent": lambda: (0, id(world.stack[-1]) if world.stack else 0),
        "cuCtxPopCurrent": lambda: (0, world.stack.pop()),
        "CUpointer_attribute": SimpleNamespace(
            CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL="ordinal", CU_POINTER_ATTRIBUTE_CONTEXT="context"
        ),
        "cuEventCreate": create,
        "cuEventRecord": record,
        "cuEventDestroy": lambda event: (0,),
        "cuStreamWaitEvent": wait,
        "cuPointerGetAttribute": attribute,
    }
