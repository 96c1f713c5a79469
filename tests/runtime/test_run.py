"""Results and launches, on a GPU that is played by the host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmdsl.cuda_source import CudaSource
from gemmdsl.emulator.library import RunOptions
from gemmdsl.emulator.library import load as load_library
from gemmdsl.launch_errors import LaunchError
from gemmdsl.reference import StoredMatrix, compare, integers
from gemmdsl.runtime import Gpu, GpuError, gpu, run, run_stored
from gemmdsl.runtime.kernel import choose
from gemmdsl.spec import OperandName
from gemmdsl.toolchain import Usage
from tests import examples
from tests.runtime.fake import World

SHAPE = (70, 50, 33)


def source(world: World, file: str = "tiles.gemm", schedule: str = "odd") -> CudaSource:
    return world.know(examples.kernel(file, schedule).cuda)


def operands(m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    return integers(rng, m, k), integers(rng, k, n), integers(rng, m, n)


def on_gpu(values: Any, order: str = "C", dtype: str = "float32") -> Any:
    """A GPUArray with these values."""
    from pycuda import gpuarray  # type: ignore[attr-defined]

    device = gpu()
    with device.current():
        return gpuarray.empty(values.shape, dtype, order=order).set(values)


def code(caught: pytest.ExceptionInfo[GpuError] | pytest.ExceptionInfo[LaunchError]) -> str:
    return caught.value.diagnostics[0].code


@pytest.mark.parametrize(
    ("file", "schedule"),
    [("tiles.gemm", "odd"), ("layouts.gemm", "fast_tt"), ("layouts.gemm", "fast_fortran")],
)
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_numpy_in_and_out(world: World, file: str, schedule: str, beta: float) -> None:
    kernel = source(world, file, schedule)
    if not kernel.problem.beta and beta:
        pytest.skip("this problem has no beta")
    a, b, c = operands(*SHAPE)
    # Any layout of numpy's will do: a copy is made.
    result = run(gpu(), kernel, np.asfortranarray(a), b[:, ::-1], c.tolist(), 3.0, beta)
    assert result.dtype == np.float32
    assert compare(kernel.problem, result, a, b[:, ::-1], c, 3.0, beta, exact=True).ok
    out = np.full_like(c, 7)
    assert run(gpu(), kernel, a, b, c, 1.0, beta, out=out) is out
    assert compare(kernel.problem, out, a, b, c, 1.0, beta, exact=True).ok
    assert world.used == {}


@pytest.mark.parametrize(("file", "order"), [("nn", "CCC"), ("fortran", "FFF"), ("nt", "CFC"), ("tn", "FCC")])
def test_gpu_arrays_are_used_where_they_lie(world: World, file: str, order: str) -> None:
    kernel = source(world, "layouts.gemm", f"fast_{file}")
    a, b, c = operands(*SHAPE)
    on = [on_gpu(values, kind) for values, kind in zip((a, b, c), order, strict=True)]
    before = world.bytes_used()
    result = run(gpu(), kernel, on[0], on[1])
    assert type(result).__name__ == "GPUArray"
    assert world.bytes_used() - before == c.nbytes, "the result, and no copy"
    assert compare(kernel.problem, result.get(), a, b, exact=True).ok
    if not kernel.problem.beta:
        return
    # c stays as it is; out is both when c is not given.
    again = run(gpu(), kernel, on[0], on[1], on[2], 1.0, 2.0)
    assert compare(kernel.problem, again.get(), a, b, c, 1.0, 2.0, exact=True).ok
    assert (on[2].get() == c).all()
    assert run(gpu(), kernel, on[0], on[1], beta=2.0, out=on[2]) is on[2]
    assert compare(kernel.problem, on[2].get(), a, b, c, 1.0, 2.0, exact=True).ok


def view_of(array: Any, rows: slice, cols: slice) -> Any:
    """A part of a GPUArray, as another library would show it."""
    interface = array.__cuda_array_interface__
    part = np.lib.stride_tricks.as_strided(np.empty(1, np.float32), array.shape, array.strides)[rows, cols]
    first = (rows.start or 0) * array.strides[0] + (cols.start or 0) * array.strides[1]
    interface |= {"shape": part.shape, "strides": part.strides, "data": (interface["data"][0] + first, False)}
    return SimpleNamespace(__cuda_array_interface__=interface, owner=array)


def test_slices_have_leading_dimensions(world: World) -> None:
    kernel = source(world)
    a, b, _ = operands(*SHAPE)
    whole = on_gpu(np.full((80, 40), np.nan))
    part = view_of(whole, slice(3, 73), slice(5, 38))
    whole.set(np.pad(a, ((3, 7), (5, 2)), constant_values=np.nan))
    result = run(gpu(), kernel, part, on_gpu(b))
    assert compare(kernel.problem, result.get(), a, b, exact=True).ok
    # A result inside of a larger array leaves what surrounds it.
    frame = on_gpu(np.full((80, 60), 9.0))
    run(gpu(), kernel, part, on_gpu(b), out=view_of(frame, slice(4, 74), slice(1, 51)))
    got = frame.get()
    assert compare(kernel.problem, got[4:74, 1:51].copy(), a, b, exact=True).ok
    got[4:74, 1:51] = 9
    assert (got == 9).all()


class Capsuled:
    """An array that knows nothing but DLPack."""

    def __init__(self, array: Any, device: tuple[int, int] = (2, 0)) -> None:
        self.host, self.device, self.streams = array, device, [0]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, stream: int | None = None) -> Any:
        from gemmdsl.runtime import dlpack

        self.streams.append(stream or 0)
        capsule = self.host.__dlpack__()
        tensor = dlpack._Tensor.from_address(dlpack._get_pointer(capsule, b"dltensor"))
        tensor.device_type, tensor.device_id = self.device
        return capsule


def test_dlpack(world: World) -> None:
    kernel = source(world)
    a, b, c = operands(*SHAPE)
    left = Capsuled(a)
    out = Capsuled(np.full_like(c, np.nan))
    assert run(gpu(), kernel, left, Capsuled(b), out=out) is out
    assert compare(kernel.problem, out.host, a, b, exact=True).ok
    assert left.streams[-1] == 1
    with pytest.raises(LaunchError, match="a is on GPU 3, and the kernel runs on GPU 0"):
        run(gpu(), kernel, Capsuled(a, (2, 3)), Capsuled(b), out=out)
    with pytest.raises(LaunchError, match="dtype float64, and float32"):
        run(gpu(), kernel, Capsuled(a.astype(np.float64)), Capsuled(b), out=out)


@pytest.mark.parametrize(
    ("extents", "path"),
    [
        ((256, 128, 16), "fast"),
        ((130, 64, 9), "edge"),
        ((130, 67, 9), "general"),
        ((0, 5, 5), ""),
        ((5, 5, 0), ""),
    ],
)
def test_the_entry_that_the_plan_selects(world: World, extents: tuple[int, int, int], path: str) -> None:
    kernel = source(world, "ladder.gemm", "v5_async")
    m, n, k = extents
    a, b, _ = operands(m, n, k)
    result = run(gpu(), kernel, a, b)
    assert (result == a @ b).all()
    if m == 0:
        assert world.launches == []
        return
    name, blocks, shared, _ = world.launches[-1]
    assert name.endswith(path)
    assert (blocks, shared) == (kernel.plan.grid(m, n)[0], 0)


def test_much_shared_memory_is_opted_into(world: World) -> None:
    kernel = source(world, "swizzle.gemm", "swizzled_async")
    a, b, _ = operands(*SHAPE)
    assert (run(gpu(), kernel, a, b) == a @ b).all()
    needed = kernel.plan.dynamic_shared_bytes
    assert needed > 49152
    assert world.launches[-1][2] == needed
    assert set(world.opted_in.values()) == {needed}


@pytest.mark.parametrize(("registers", "blocks"), [(100, 2), (200, 1)])
def test_all_blocks_that_fit_get_their_shared_memory(world: World, registers: int, blocks: int) -> None:
    kernel = source(world, "swizzle.gemm", "swizzled_async")
    names = [entry.name for entry in kernel.plan.entries]
    world.usage = tuple(Usage(name, "sm_90", registers, 0, 0, 0, 0, 1, 400) for name in names)
    a, b, _ = operands(*SHAPE)
    run(gpu(), kernel, a, b)
    row = gpu().limits.row
    needed = blocks * row.shared_taken(kernel.plan.dynamic_shared_bytes)
    assert set(world.carveouts) == set(names)
    for share in world.carveouts.values():
        assert share * row.shared_per_sm >= 100 * needed > (share - 1) * row.shared_per_sm


def test_streams(world: World) -> None:
    kernel = source(world)
    a, b, _ = (on_gpu(values) for values in operands(*SHAPE))
    device = gpu()
    own = device.stream()
    run(device, kernel, a, b, stream=own)
    assert (world.launches[-1][3], world.waits, world.synchronized) == (own.handle, [], 0)
    for default in (0, 1, SimpleNamespace(ptr=0)):
        run(device, kernel, a, b, stream=default)
        assert (world.launches[-1][3], world.waits) == (0, [])
    for theirs in (
        0x77,
        SimpleNamespace(__cuda_stream__=lambda: (0, 0x77)),
        SimpleNamespace(__cuda_stream__=(0, 0x77)),
        SimpleNamespace(cuda_stream=0x77),
        SimpleNamespace(ptr=0x77),
    ):
        world.waits.clear()
        run(device, kernel, a, b, stream=theirs)
        ours = world.launches[-1][3]
        assert world.waits == [(ours, 0x77), (0x77, ours)]
    assert world.synchronized == 0
    run(device, kernel, a, b)
    assert world.synchronized == 2, "without a stream, what came before and the result are waited for"


def test_an_array_that_is_still_being_made_is_waited_for(world: World) -> None:
    kernel = source(world)
    a, b, _ = (on_gpu(values) for values in operands(*SHAPE))
    busy = view_of(a, slice(0, SHAPE[0]), slice(0, SHAPE[2]))
    busy.__cuda_array_interface__["stream"] = 0x55
    run(gpu(), kernel, busy, b, stream=0x77)
    ours = world.launches[-1][3]
    assert world.waits == [(ours, 0x77), (ours, 0x55), (0x77, ours)]


@pytest.mark.parametrize("stream", [-1, True, "default", SimpleNamespace(__cuda_stream__=(1, 5))])
def test_what_is_no_stream(world: World, stream: object) -> None:
    with pytest.raises(GpuError, match="this stream cannot be used") as caught:
        run(gpu(), source(world), np.eye(3), np.eye(3), stream=stream)
    assert code(caught) == "G947"


def test_matrices_with_guards(world: World) -> None:
    kernel = source(world)
    a, b, _ = operands(*SHAPE)
    m, n, k = SHAPE
    problem = kernel.problem
    stored: dict[OperandName, StoredMatrix] = {
        "A": StoredMatrix(problem.a, m, k, ld=37, offset=3).fill(a),
        "B": StoredMatrix(problem.b, k, n, ld=51).fill(b),
        "C": StoredMatrix(problem.c, m, n, ld=60, offset=1),
    }
    launched = run_stored(gpu(), kernel, stored, SHAPE, entry="general")
    assert launched.entry is not None
    assert (launched.entry.path, launched.seconds) == ("general", 0.001)
    assert compare(problem, stored["C"].matrix, a, b, exact=True).ok
    assert [stored[name].stray_writes() for name in stored] == ["", "", ""]
    with pytest.raises(LaunchError, match="no entry point slow; it has"):
        run_stored(gpu(), kernel, stored, SHAPE, entry="slow")
    assert world.used == {}


def test_many_calls_leave_nothing(world: World) -> None:
    kernel = source(world)
    a, b = (on_gpu(np.ones((4, 4))) for _ in range(2))
    out = on_gpu(np.ones((4, 4)))
    run(gpu(), kernel, a, b, out=out)
    before, kernels = dict(world.used), len(gpu().kernels)
    for _ in range(2_000):
        run(gpu(), kernel, a, b, out=out)
    assert (world.used, len(gpu().kernels), world.retained) == (before, kernels, 1)


def test_a_gpu_is_a_context_manager(world: World) -> None:
    kernel = source(world)
    with Gpu() as device:
        assert (run(device, kernel, np.eye(3), np.eye(3)) == np.eye(3)).all()
        assert str(device) == "GPU 0 (Fake H200, sm_90)"
    assert device.closed
    device.close()
    with pytest.raises(GpuError, match="was opened by another thread, or is closed") as caught:
        run(device, kernel, np.eye(3), np.eye(3))
    assert code(caught) == "G948"


@given(st.data())
@settings(max_examples=200, derandomize=True)
def test_the_choice_is_the_launchers(data: st.DataObject) -> None:
    file, schedule = data.draw(
        st.sampled_from([("assume.gemm", "exact"), ("ladder.gemm", "v5_async"), ("layouts.gemm", "fast_tt")])
    )
    kernel = examples.kernel(file, schedule).cuda
    size = st.sampled_from([-1, 0, 1, 4, 8, 64, 128, 2**29])
    # What is launched is small and in this memory; what is refused may lie anywhere.
    memory = np.zeros(3 * 200 * 200 + 8, np.float32)
    start = -(-memory.ctypes.data // 16) * 16
    arguments = {axis: data.draw(size) for axis in ("M", "N", "K")}
    for place, operand in enumerate((kernel.problem.a, kernel.problem.b, kernel.problem.c)):
        least = max(1, arguments[operand.contiguous])
        arguments[operand.ld] = data.draw(st.sampled_from([least, least, least, least - 1, 136]))
        offset = place * 160_000 + data.draw(st.sampled_from([0, 0, 0, 4]))
        address = data.draw(st.sampled_from([start + offset] * 8 + [0, start]))
        arguments[operand.name] = address
    alpha = data.draw(st.sampled_from([0.0, 1.0]))
    try:
        chosen = choose(kernel, arguments, alpha)
        status = 0
    except LaunchError as refused:
        chosen, status = None, int(refused.status or 0)
    if status == 0 and max(arguments[axis] for axis in ("M", "N", "K")) > 128:
        return
    outcome = load_library(kernel).launch({**arguments, "alpha": alpha, "beta": 0.0}, RunOptions(workers=1))
    assert (outcome.status, outcome.entry) == (status, chosen)
