"""Arrays of other libraries on a real GPU, without copies, in the order of their streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemmdsl.launch_errors import LaunchError
from gemmdsl.reference import integers
from gemmdsl.runtime import Gpu, GpuError, gpu, run
from tests import examples

pytestmark = pytest.mark.gpu

M, N, K = 130, 260, 70
KERNEL = ("ladder.gemm", "v3_2")


def operands() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    return integers(rng, M, K), integers(rng, K, N), integers(rng, M, N)


def test_numpy(device: Gpu) -> None:
    a, b, c = operands()
    kernel = examples.kernel(*KERNEL)
    assert (kernel.run(a, b, device="gpu") == a @ b).all()
    assert (kernel.run(a, b, c, 2.0, -1.0, device="gpu") == 2 * (a @ b) - c).all()


def test_pycuda(device: Gpu) -> None:
    a, b, c = operands()
    arrays = pytest.importorskip("pycuda.gpuarray")
    kernel = examples.kernel(*KERNEL)
    with device.current():
        on = [arrays.to_gpu(values) for values in (a, b, c)]
        result = kernel.run(on[0], on[1], device="gpu")
        assert (result.get() == a @ b).all()
        assert kernel.run(on[0], on[1], beta=1.0, out=on[2], device="gpu") is on[2]
        assert (on[2].get() == a @ b + c).all()


@pytest.mark.parametrize("schedule", ["fast_nn", "fast_nt", "fast_tn", "fast_tt"])
def test_torch(device: Gpu, schedule: str) -> None:
    torch = pytest.importorskip("torch")
    a, b, _ = operands()
    left, right = (torch.tensor(values, device="cuda") for values in (a, b))
    if schedule in ("fast_tn", "fast_tt"):
        left = left.T.contiguous().T
    if schedule in ("fast_nt", "fast_tt"):
        right = right.T.contiguous().T
    kernel = examples.kernel("layouts.gemm", schedule)
    result = kernel.run(left, right, device="gpu")
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, left @ right)
    out = torch.full((M, N + 5), 7.0, device="cuda")
    assert kernel.run(left, right, out=out[:, :N], device="gpu") is not None
    assert torch.equal(out[:, :N], left @ right)
    assert (out[:, N:] == 7).all()


def test_torch_streams(device: Gpu) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("cuda.bindings.driver")
    kernel = examples.kernel(*KERNEL)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(20):
            left = torch.randint(-8, 9, (512, 512), device="cuda", dtype=torch.float32)
            torch.cuda._sleep(2_000_000)
            left += 1
            result = kernel.run(left, left, device="gpu", stream=side)
            copy = result + 0
            result.zero_()
            assert torch.equal(copy, left @ left)


def test_cupy(device: Gpu) -> None:
    cupy = pytest.importorskip("cupy")
    a, b, c = operands()
    left, right, old = (cupy.asarray(values) for values in (a, b, c))
    kernel = examples.kernel(*KERNEL)
    result = kernel.run(left, right, device="gpu")
    assert isinstance(result, cupy.ndarray)
    assert (cupy.asnumpy(result) == a @ b).all()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        kernel.run(left, right, beta=3.0, out=old, device="gpu", stream=stream)
        assert (cupy.asnumpy(old) == a @ b + 3 * c).all()


class Capsuled:
    """Only DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_dlpack(device: Gpu, library: str) -> None:
    module = pytest.importorskip(library)
    a, b, _ = operands()
    on = [
        module.tensor(values, device="cuda") if library == "torch" else module.asarray(values)
        for values in (a, b)
    ]
    result = examples.kernel(*KERNEL).run(Capsuled(on[0]), Capsuled(on[1]), device="gpu")
    with device.current():
        assert (result.get() == a @ b).all()


def test_torch_goes_on_as_before(device: Gpu) -> None:
    torch = pytest.importorskip("torch")
    a = torch.ones((64, 64), device="cuda")
    with Gpu() as own:
        run(own, examples.kernel(*KERNEL).cuda, a, a)
    assert float((a @ a).sum()) == 64**3
    assert torch.cuda.current_device() == 0


def test_ten_thousand_calls_leak_nothing(device: Gpu) -> None:
    kernel = examples.kernel(*KERNEL).cuda
    a, b, _ = operands()
    arrays = pytest.importorskip("pycuda.gpuarray")
    with device.current():
        left, right = arrays.to_gpu(a), arrays.to_gpu(b)
    out = run(device, kernel, left, right)
    run(device, kernel, a, b)
    before = device.free_memory()
    stream = device.stream()
    for _ in range(10_000):
        run(device, kernel, left, right, out=out, stream=stream)
    for _ in range(500):
        run(device, kernel, left, right)
        run(device, kernel, a, b)
    device.synchronize()
    assert device.free_memory() == before
    with device.current():
        assert (out.get() == a @ b).all()


def test_bad_input_leaves_the_gpu_usable(device: Gpu) -> None:
    torch = pytest.importorskip("torch")
    kernel = examples.kernel(*KERNEL)
    ones = torch.ones((64, 64), device="cuda")
    cases: list[tuple[str, dict[str, Any]]] = [
        ("a has dtype float64, and float32 is needed", {"a": ones.double(), "b": ones}),
        ("a has dtype float16", {"a": ones.half(), "b": ones}),
        ("b is in the host's memory, and a is on the GPU", {"a": ones, "b": ones.cpu()}),
        ("it is column-major", {"a": torch.ones((64, 32), device="cuda").T, "b": ones}),
        ("neighbours of a row", {"a": torch.ones((64, 128), device="cuda")[:, ::2], "b": ones}),
        ("C at .* overlaps A", {"a": ones, "b": torch.ones((64, 64), device="cuda"), "out": ones}),
        (
            "a cannot be used as it is",
            {"a": torch.ones((64, 64), device="cuda", requires_grad=True), "b": ones},
        ),
        ("the inner sizes differ", {"a": ones, "b": torch.ones((3, 64), device="cuda")}),
    ]
    for message, arguments in cases:
        with pytest.raises(LaunchError, match=message) as caught:
            kernel.run(**arguments, device="gpu")
        print(caught.value)
        assert torch.equal(kernel.run(ones, ones, device="gpu"), ones @ ones)
    with pytest.raises(GpuError, match="no memory on") as refused:
        device.allocate(2**50, "a test")
    print(refused.value)
    with pytest.raises(GpuError, match="there is no GPU 99"):
        gpu(99)
    assert torch.equal(kernel.run(ones, ones, device="gpu"), ones @ ones)
