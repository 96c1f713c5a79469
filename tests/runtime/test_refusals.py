"""Everything that a GPU, its driver or an argument can be at fault for; afterwards the GPU still works."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gemmdsl.cuda_source import CudaSource
from gemmdsl.diagnostics import GemmError
from gemmdsl.launch_errors import LaunchError
from gemmdsl.resources import installs
from gemmdsl.runtime import Gpu, GpuError, device, gpu, run
from tests.runtime.fake import Error, World
from tests.runtime.test_run import code, on_gpu, source, view_of

ONES = np.ones((8, 8), np.float32)


def still_works(kernel: CudaSource) -> bool:
    return bool((run(gpu(), kernel, ONES, ONES) == 8).all())


def on_other_device(world: World) -> Any:
    world.devices = 2
    with Gpu(1) as other, other.current():
        from pycuda import gpuarray  # type: ignore[attr-defined]

        return gpuarray.empty((8, 8), "float32")


def unknown_address() -> Any:
    interface = {"shape": (8, 8), "typestr": "<f4", "data": (4096, False), "version": 3}
    return SimpleNamespace(__cuda_array_interface__=interface)


class NeedsGradient:
    @property
    def __cuda_array_interface__(self) -> Any:
        raise RuntimeError("use detach() first")


def test_arrays_that_cannot_be_operands(world: World) -> None:
    kernel = source(world)
    a, b = on_gpu(ONES), on_gpu(ONES)
    whole = on_gpu(np.ones((8, 16)))
    read_only = view_of(a, slice(0, 8), slice(0, 8))
    read_only.__cuda_array_interface__["data"] = (int(a.gpudata), True)
    backwards = view_of(a, slice(0, 8), slice(0, 8))
    backwards.__cuda_array_interface__["strides"] = (-32, 4)
    foreign = on_gpu(ONES)
    world.foreign[int(foreign.gpudata)] = 1
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("a", "another context than the device's primary one", {"a": foreign, "b": b}),
        ("a", "dtype float64, and float32 is needed", {"a": on_gpu(ONES, dtype="float64"), "b": b}),
        ("b", "b is in the host's memory, and a is on the GPU", {"a": a, "b": ONES}),
        ("a", "it is column-major", {"a": on_gpu(ONES, "F"), "b": b}),
        ("a", "its strides are 64 and 8 bytes", {"a": view_of(whole, slice(0, 8), slice(0, 16, 2)), "b": b}),
        ("a", "overlap, run backwards", {"a": backwards, "b": b}),
        ("a", "use detach", {"a": NeedsGradient(), "b": b}),
        ("b", "a is 8 x 8 and b is 3 x 8: the inner sizes differ", {"a": a, "b": on_gpu(np.ones((3, 8)))}),
        ("out", "out is 8 x 7, and the product is 8 x 8", {"a": a, "b": b, "out": on_gpu(np.ones((8, 7)))}),
        ("out", "out is read-only", {"a": a, "b": b, "out": read_only}),
        ("C", "C at .* overlaps A at", {"a": a, "b": b, "out": a}),
        ("C", "C at .* overlaps B at", {"a": a, "b": b, "out": b}),
        ("c", "beta = 2 needs c", {"a": a, "b": b, "beta": 2.0}),
        ("a", "a is on GPU 1, and the kernel runs on GPU 0", {"a": on_other_device(world), "b": b}),
        ("a", "a is not in the GPU's memory", {"a": unknown_address(), "b": b}),
        ("a", "a has 1 axes", {"a": np.ones(8), "b": ONES}),
        ("a", "dtype complex64", {"a": ONES * 1j, "b": ONES}),
        ("a", "a is no matrix", {"a": [[1.0], [2.0, 3.0]], "b": ONES}),
        ("out", "has to be a float32 array of numpy", {"a": ONES, "b": ONES, "out": ONES.astype(np.float64)}),
    ]
    for argument, message, arguments in cases:
        with pytest.raises(LaunchError, match=message) as caught:
            run(gpu(), kernel, **arguments)
        assert caught.value.argument == argument, message
        assert still_works(kernel)


def test_out_that_covers_part_of_c(world: World) -> None:
    kernel = source(world)
    a, whole = on_gpu(ONES), on_gpu(np.ones((9, 8)))
    c, out = view_of(whole, slice(0, 8), slice(0, 8)), view_of(whole, slice(1, 9), slice(0, 8))
    with pytest.raises(LaunchError, match=r"out at 0x.* overlaps c at 0x"):
        run(gpu(), kernel, a, on_gpu(ONES), c, 1.0, 1.0, out=out)


def test_panels_of_one_matrix(world: World) -> None:
    """Side by side in the same rows, they share no element, though each begins before another one ends."""
    kernel = source(world)
    values = np.arange(8 * 40, dtype=np.float32).reshape(8, 40) % 7
    whole = on_gpu(values)
    rows = slice(0, 8)
    a, b, c, out = (view_of(whole, rows, slice(first, first + 8)) for first in (0, 8, 16, 32))
    run(gpu(), kernel, a, b, c, 2.0, 3.0, out=out)
    expected = values.copy()
    expected[:, 32:] = 2 * values[:, :8] @ values[:, 8:16] + 3 * values[:, 16:24]
    assert (whole.get() == expected).all()
    for first, message in ((1, "overlaps A"), (9, "overlaps B")):
        with pytest.raises(LaunchError, match=message):
            run(gpu(), kernel, a, b, out=view_of(whole, rows, slice(first, first + 8)))
    with pytest.raises(LaunchError, match="overlaps c"):
        run(gpu(), kernel, a, b, c, 2.0, 3.0, out=view_of(whole, rows, slice(17, 25)))


def test_scalars_and_assumptions(world: World) -> None:
    fortran = source(world, "layouts.gemm", "fast_fortran")
    with pytest.raises(LaunchError, match="beta = 2, and problem fortran has no beta"):
        run(gpu(), fortran, ONES, ONES, ONES, beta=2.0)
    exact = source(world, "assume.gemm", "exact")
    with pytest.raises(LaunchError, match=r"M = 8, and \w+ assumes M % 128 == 0") as caught:
        run(gpu(), exact, ONES, ONES)
    assert (code(caught), caught.value.argument) == ("G925", "M")


def test_no_memory(world: World) -> None:
    kernel = source(world)
    world.memory = 2_000
    with pytest.raises(
        GpuError, match=r"no memory on GPU 0 .* for C of 20 x 20: 1600 bytes are needed and"
    ) as c:
        run(gpu(), kernel, np.ones((20, 8)), np.ones((8, 20)))
    assert code(c) == "G943"
    del c  # it keeps the frames, and those the operands
    assert world.used == {}
    assert still_works(kernel)
    a, b = on_gpu(np.ones((20, 8))), on_gpu(np.ones((8, 20)))
    with pytest.raises(GpuError, match="no memory on GPU 0"):
        run(gpu(), kernel, a, b)


def test_a_schedule_that_the_device_cannot_run(world: World) -> None:
    world.capability = (7, 5)
    newer = source(world, "ladder.gemm", "v5_async")
    with pytest.raises(GpuError, match="compiled for sm_80, which is newer than sm_75") as caught:
        run(gpu(), newer, ONES, ONES)
    assert code(caught) == "G944"
    large = replace(source(world), plan=replace(source(world).plan, static_shared_bytes=300_000))
    with pytest.raises(GpuError, match="takes 300000 bytes of shared memory, and has 232448"):
        run(gpu(), large, ONES, ONES)
    assert still_works(source(world))


def test_a_driver_that_is_too_old(world: World) -> None:
    kernel = source(world)
    world.refuse_cubins, world.driver = True, 12020
    with pytest.raises(GpuError, match=r"supports CUDA 12\.2, and nvcc 13\.0 compiled the kernel") as caught:
        run(gpu(), kernel, ONES, ONES)
    assert code(caught) == "G942"
    assert "newer driver" in str(caught.value)
    world.refuse_cubins = False
    assert still_works(kernel)


def test_a_kernel_that_fails(world: World) -> None:
    kernel = source(world)
    world.fail_waiting = True
    with pytest.raises(GpuError, match="kernel sgemm_odd of schedule odd failed on the GPU") as caught:
        run(gpu(), kernel, ONES, ONES)
    assert code(caught) == "G945"
    assert "illegal memory access" in str(caught.value)


def test_a_launch_that_is_refused(world: World) -> None:
    kernel = source(world, "swizzle.gemm", "swizzled_async")
    run(gpu(), kernel, ONES, ONES)
    world.opted_in.clear()
    with pytest.raises(LaunchError, match=r"sgemm_swizzled_async_edge on GPU 0 .*invalid argument") as caught:
        run(gpu(), kernel, ONES, ONES)
    assert code(caught) == "G927"


def test_no_such_device(world: World) -> None:
    with pytest.raises(GpuError, match="there is no GPU 1: this machine has 1 device") as caught:
        gpu(1)
    assert code(caught) == "G941"
    world.devices = 0
    with pytest.raises(GpuError, match="no CUDA device can be used"):
        gpu()


def test_a_driver_that_does_not_start(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def init() -> None:
        raise Error("cuInit failed: no CUDA-capable device is detected")

    monkeypatch.setattr(sys.modules["pycuda.driver"], "init", init)
    with pytest.raises(GpuError, match="no CUDA-capable device is detected") as caught:
        gpu()
    assert code(caught) == "G941"


def test_no_pycuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    with pytest.raises(GpuError, match="running on a GPU needs pycuda") as caught:
        gpu()
    assert code(caught) == "G940"
    assert installs("gpu") in str(caught.value)


def importing(monkeypatch: pytest.MonkeyPatch, library: str, loaded: list[str]) -> None:
    """Let pycuda need a shared library, and cuda-pathfinder be able to load it."""
    real = import_module

    def load(name: str) -> Any:
        if name == "cuda.pathfinder":
            return SimpleNamespace(load_nvidia_dynamic_lib=loaded.append)
        if name == "pycuda.driver" and not loaded:
            raise ImportError(f"{library}: cannot open shared object file: No such file or directory")
        return real(name)

    monkeypatch.setattr(device, "import_module", load)


def test_no_driver_at_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    importing(monkeypatch, "libcuda.so.1", [])
    with pytest.raises(GpuError, match="no CUDA device can be used") as caught:
        gpu()
    assert code(caught) == "G941"


def test_a_library_of_pycudas_that_is_in_a_wheel(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    importing(monkeypatch, "libcurand.so.10", loaded)
    assert still_works(source(world))
    assert loaded == ["curand"]


def test_no_bindings_for_streams_of_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = source(world)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(GpuError, match="need cuda-bindings: pip install") as caught:
        run(gpu(), kernel, on_gpu(ONES), on_gpu(ONES), stream=0x77)
    assert code(caught) == "G947"
    assert still_works(kernel)


def test_another_thread_has_a_gpu_of_its_own(world: World) -> None:
    kernel, device, caught = source(world), gpu(), []

    def use() -> None:
        try:
            run(device, kernel, ONES, ONES)
        except GemmError as problem:
            caught.append(problem.diagnostics[0].code)
        with Gpu() as own:
            run(own, kernel, ONES, ONES)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert caught == ["G948"]
