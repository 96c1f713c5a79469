"""cuBLAS in FP32, through a library that binds it: torch, else cupy.

TF32 is off: cuBLAS computes in FP32 as our kernels do.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from gemmdsl.bench.errors import baseline_failed, no_baseline
from gemmdsl.bench.timing import Enqueue
from gemmdsl.runtime.device import Gpu, Handle
from gemmdsl.spec import Operand, Order, Problem

# cuBLAS's own numbers: operations, and the mode in which it uses no TF32.
_PLAIN, _TRANSPOSED = 0, 1
_DEFAULT_MATH = 0


@dataclass(frozen=True, slots=True)
class Buffers:
    """One set of operands, by address, and the sizes M, N, K.

    Leading dimensions are `pad` elements more than the least ones.
    """

    a: int
    b: int
    c: int
    shape: tuple[int, int, int]
    pad: int = 0

    def ld(self, operand: Operand) -> int:
        """Elements from line to line."""
        return leading(operand, self.shape, self.pad)


def leading(operand: Operand, shape: tuple[int, int, int], pad: int) -> int:
    """The leading dimension of an operand in a product of these sizes, `pad` more than the least one."""
    return max(1, dict(zip(("M", "N", "K"), shape, strict=True))[operand.contiguous]) + pad


class Baseline(Protocol):
    """Something that multiplies: C = A @ B."""

    title: str
    # Whether its calls can become part of a CUDA graph.
    capturable: bool

    def prepare(self, gpu: Gpu, stream: Handle, problem: Problem, sets: tuple[Buffers, ...]) -> Enqueue:
        """Puts a product of one of the sets into a pycuda stream."""


def cublas() -> Baseline:
    """The first binding that is installed; GemmError G951 when none is."""
    reasons = []
    for make in (_Torch, _Cupy):
        try:
            return make()
        except (ImportError, OSError) as missing:
            # Shared libraries that are not there are errors of the system.
            reasons.append(str(missing))
    raise no_baseline("; ".join(reasons))


def prepared(
    baseline: Baseline, gpu: Gpu, stream: Handle, problem: Problem, sets: tuple[Buffers, ...]
) -> Enqueue:
    """As `baseline.prepare`; GemmError G959 for what its library says, now or at a call."""
    try:
        multiply = baseline.prepare(gpu, stream, problem, sets)
    except (RuntimeError, MemoryError) as failed:
        raise baseline_failed(baseline.title, failed) from failed

    def enqueue(turn: int) -> None:
        try:
            multiply(turn)
        except (RuntimeError, MemoryError) as failed:
            raise baseline_failed(baseline.title, failed) from failed

    return enqueue


class _Torch:
    capturable = True

    def __init__(self) -> None:
        self._torch = import_module("torch")
        if not self._torch.backends.cuda.is_built():
            raise ImportError("torch is built without CUDA")
        self._torch.backends.cuda.matmul.allow_tf32 = False
        self.title = f"cuBLAS FP32 (torch {self._torch.__version__})"

    def prepare(self, gpu: Gpu, stream: Handle, problem: Problem, sets: tuple[Buffers, ...]) -> Enqueue:
        torch = self._torch
        theirs = torch.cuda.ExternalStream(stream.handle, device=gpu.index)
        tensors = []
        for buffers in sets:
            m, n, k = buffers.shape
            a = self._tensor(gpu, buffers.a, problem.a, m, k, buffers.ld(problem.a))
            b = self._tensor(gpu, buffers.b, problem.b, k, n, buffers.ld(problem.b))
            c = self._tensor(gpu, buffers.c, problem.c, m, n, buffers.ld(problem.c))
            # A column-major C is the row-major product of the transposes.
            tensors.append((a, b, c) if problem.c.order is Order.ROW else (b.T, a.T, c.T))

        def enqueue(turn: int) -> None:
            left, right, out = tensors[turn]
            with torch.cuda.stream(theirs):
                torch.mm(left, right, out=out)

        return enqueue

    def _tensor(self, gpu: Gpu, address: int, operand: Operand, rows: int, cols: int, ld: int) -> Any:
        """A tensor over memory that is there."""
        lines, length = (rows, cols) if operand.order is Order.ROW else (cols, rows)
        shown = _Shown(address, (lines, length), ld)
        tensor = self._torch.as_tensor(shown, device=f"cuda:{gpu.index}")
        return tensor if operand.order is Order.ROW else tensor.T


@dataclass(frozen=True)
class _Shown:
    address: int
    shape: tuple[int, int]
    ld: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "strides": (4 * self.ld, 4),
            "typestr": "<f4",
            "data": (self.address, False),
            "version": 2,
        }


class _Cupy:
    # cupy refuses to call cuBLAS on a stream that is being captured.
    capturable = False

    def __init__(self) -> None:
        self._cupy = import_module("cupy")
        self._cublas = import_module("cupy.cuda").cublas
        self._handle: Any = None
        self.title = f"cuBLAS FP32 (cupy {self._cupy.__version__})"

    def prepare(self, gpu: Gpu, stream: Handle, problem: Problem, sets: tuple[Buffers, ...]) -> Enqueue:
        multiply = self._cublas.sgemm
        if self._handle is None:
            with self._cupy.cuda.Device(gpu.index):
                self._handle = self._cublas.create()
                self._cublas.setMathMode(self._handle, _DEFAULT_MATH)
        handle, theirs = self._handle, self._cupy.cuda.ExternalStream(stream.handle)
        one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)

        def enqueue(turn: int) -> None:
            *sizes, a, lda, b, ldb, c, ldc = _column_major(problem, sets[turn])
            with theirs:
                multiply(handle, *sizes, one.ctypes.data, a, lda, b, ldb, zero.ctypes.data, c, ldc)

        return enqueue


def _column_major(problem: Problem, buffers: Buffers) -> tuple[int, ...]:
    """cuBLAS's arguments: it knows column-major matrices alone, so a row-major C is asked for transposed."""
    m, n, k = buffers.shape
    left, right = (problem.a, buffers.a), (problem.b, buffers.b)
    by_row = problem.c.order is Order.ROW
    if by_row:
        left, right, m, n = right, left, n, m
    plain = Order.ROW if by_row else Order.COLUMN
    operations = [_PLAIN if operand.order is plain else _TRANSPOSED for operand, _ in (left, right)]
    lds = [buffers.ld(operand) for operand in (left[0], right[0], problem.c)]
    return (*operations, m, n, k, left[1], lds[0], right[1], lds[1], buffers.c, lds[2])
