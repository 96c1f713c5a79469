"""Runs a compiled kernel on a GPU: on arrays of any library, or on matrices that show a stray access."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmdsl.cuda_source import CudaSource, EntryPoint
from gemmdsl.launch_errors import lines_of, scalars, unusable
from gemmdsl.matrices import host_matrix
from gemmdsl.reference import POISON, Floats, StoredMatrix
from gemmdsl.runtime.arrays import View, empty_like, placed, view
from gemmdsl.runtime.device import Gpu
from gemmdsl.runtime.kernel import Kernel, choose, load
from gemmdsl.runtime.streams import after, handle_of, ordered
from gemmdsl.spec import OperandName, Order

_ALIGNMENT = 256


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch that succeeded: the entry point that ran, None if none had to, and the GPU's time for it."""

    entry: EntryPoint | None
    seconds: float


def run(
    gpu: Gpu,
    source: CudaSource,
    a: Any,
    b: Any,
    c: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    *,
    out: Any = None,
    stream: object = None,
) -> Any:
    """alpha * a @ b + beta * c for matrices of shape (M, K), (K, N) and (M, N), in the problem's layouts.

    Arrays are all of the host or all on `gpu`.  Those of the host are copied, in any layout; those on the GPU
    are used where they lie, and have to be float32.  The result goes into `out` and is returned: with beta,
    `out` is also what c is when `c` is not given.  Without `out`, a new array of a's library is made.

    Without `stream`, everything that the GPU was given before is waited for, and so is the result.  With it
    (pycuda's, an address, or anything with `__cuda_stream__`), the kernel is put into that stream's order and
    nothing is waited for.

    LaunchError for arguments that do not fit, GpuError for what fails on the GPU, ToolError when the kernel
    cannot be compiled.
    """
    alpha, beta = scalars(source.problem, alpha, beta)
    given = {"a": a, "b": b, "c": c, "out": out}
    handle = handle_of(stream)
    views = {name: view(name, value, gpu, handle) for name, value in given.items() if value is not None}
    places = {name: "on the GPU" if found else "in the host's memory" for name, found in views.items()}
    for name, place in places.items():
        if place != places["a"]:
            raise unusable(name, f"{name} is {place}, and a is {places['a']}")
    if views["a"] is None:
        return _run_on_host_arrays(gpu, source, given, alpha, beta)
    found = {name: matrix for name, matrix in views.items() if matrix is not None}
    return _run_on_gpu_arrays(gpu, source, given, found, alpha, beta, stream)


def _run_on_gpu_arrays(
    gpu: Gpu,
    source: CudaSource,
    given: Mapping[str, Any],
    found: dict[str, View],
    alpha: float,
    beta: float,
    stream: object,
) -> Any:
    m, n, k = _extents({name: matrix.shape for name, matrix in found.items()}, beta)
    problem = source.problem
    for name, operand in (("a", problem.a), ("b", problem.b), ("c", problem.c), ("out", problem.c)):
        if name in found:
            placed(found[name], operand)
    kernel = load(gpu, source)
    result = given["out"]
    if result is None:
        result = empty_like(gpu, given["a"], problem.c, m, n)
        made = view("out", result, gpu, handle_of(stream))
        assert made is not None
        found["out"] = made
    if not found["out"].writable:
        raise unusable("out", "out is read-only")
    arguments = {"M": m, "N": n, "K": k}
    for name, operand in (("a", problem.a), ("b", problem.b), ("out", problem.c)):
        arguments[operand.name] = found[name].address
        arguments[operand.ld] = placed(found[name], operand)
    choose(source, arguments, alpha, beta)
    if stream is None:
        gpu.synchronize()
    with ordered(gpu, stream) as ours:
        if stream is not None:
            mine = handle_of(stream)
            for matrix in found.values():
                if matrix.stream not in (0, 1, mine):
                    after(ours.handle if ours is not None else 0, matrix.stream)
        if "c" in found and beta != 0:
            _copy(gpu, source, found["c"], found["out"], arguments, ours)
        kernel.launch(arguments, alpha, beta, stream=ours)
        if stream is None:
            kernel.wait()
    return result


def _copy(
    gpu: Gpu, source: CudaSource, c: View, out: View, arguments: Mapping[str, int], stream: Any
) -> None:
    """Put what c holds into out, unless they are the same; LaunchError when they are so in part."""
    operand = source.problem.c
    ld = placed(c, operand)
    if (c.address, ld) == (out.address, arguments[operand.ld]):
        return
    to = lines_of(operand, arguments)
    held = replace(to, address=c.address, ld=ld)
    if to.meets(held):
        raise unusable("out", f"out at {to} overlaps c at {held}")
    gpu.copy_lines(out.address, 4 * to.ld, c.address, 4 * ld, 4 * to.length, to.lines, stream)


def _run_on_host_arrays(
    gpu: Gpu, source: CudaSource, given: Mapping[str, Any], alpha: float, beta: float
) -> Floats:
    out = given["out"]
    if out is not None and not (
        isinstance(out, np.ndarray) and out.dtype == np.float32 and out.flags.writeable
    ):
        raise unusable("out", "out has to be a float32 array of numpy that can be written to")
    matrices = {name: host_matrix(name, value) for name, value in given.items() if value is not None}
    m, n, k = _extents({name: (array.shape[0], array.shape[1]) for name, array in matrices.items()}, beta)
    problem = source.problem
    shapes: dict[OperandName, tuple[int, int]] = {"A": (m, k), "B": (k, n), "C": (m, n)}
    kernel = load(gpu, source)
    buffers: dict[OperandName, Any] = {}
    arguments = {"M": m, "N": n, "K": k}
    for name, (rows, cols) in shapes.items():
        operand = problem.operand(name)
        buffers[name] = gpu.allocate(4 * rows * cols, f"{name} of {rows} x {cols}")
        arguments[name] = int(buffers[name])
        arguments[operand.ld] = max(1, {"M": m, "N": n, "K": k}[operand.contiguous])
    sources: dict[OperandName, Floats | None] = {
        "A": matrices["a"],
        "B": matrices["b"],
        "C": matrices.get("c", matrices.get("out")) if beta != 0 else None,
    }
    for name, values in sources.items():
        if values is None:
            gpu.fill_words(arguments[name], int(POISON), m * n)
        else:
            by_row = problem.operand(name).order is Order.ROW
            gpu.upload(arguments[name], np.ascontiguousarray(values if by_row else values.T))
    kernel.launch(arguments, alpha, beta)
    kernel.wait()
    by_row = problem.c.order is Order.ROW
    stored = np.empty((m, n) if by_row else (n, m), np.float32)
    gpu.download(stored, arguments["C"])
    result = stored if by_row else np.ascontiguousarray(stored.T)
    if out is None:
        return result
    out[...] = result
    return np.asarray(out)


def run_stored(
    gpu: Gpu,
    source: CudaSource,
    stored: Mapping[OperandName, StoredMatrix],
    sizes: tuple[int, int, int],
    alpha: float = 1.0,
    beta: float = 0.0,
    *,
    entry: str | None = None,
) -> Launch:
    """Run on copies of matrices with all that surrounds them, and copy everything back.

    Alignments on the GPU are those of the host.  `entry` is the path of an entry point to run in place of the
    launcher's choice.  Errors as those of `run`.
    """
    m, n, k = sizes
    kernel: Kernel = load(gpu, source)
    arguments = {"M": m, "N": n, "K": k}
    copies: list[tuple[StoredMatrix, Any, int]] = []
    for name, matrix in stored.items():
        base = matrix.buffer.ctypes.data
        memory = gpu.allocate(matrix.buffer.nbytes + _ALIGNMENT, name)
        start = int(memory) + base % _ALIGNMENT
        copies.append((matrix, memory, start))
        arguments[name] = start + matrix.address - base
        arguments[matrix.operand.ld] = matrix.ld
        gpu.upload(start, matrix.buffer)
    begun, ended = gpu.event(), gpu.event()
    with gpu.current():
        begun.record()
        chosen = kernel.launch(arguments, alpha, beta, entry=entry)
        ended.record()
        kernel.wait()
        seconds = ended.time_since(begun) * 1e-3
    for matrix, _, start in copies:
        gpu.download(matrix.buffer, start)
    return Launch(chosen, seconds if chosen else 0.0)


def _extents(shapes: Mapping[str, tuple[int, int]], beta: float) -> tuple[int, int, int]:
    """M, N and K; LaunchError when the shapes do not fit together."""
    (m, k), (k_of_b, n) = shapes["a"], shapes["b"]
    if k != k_of_b:
        raise unusable("b", f"a is {m} x {k} and b is {k_of_b} x {n}: the inner sizes differ")
    for name in ("c", "out"):
        if name in shapes and shapes[name] != (m, n):
            rows, cols = shapes[name]
            raise unusable(name, f"{name} is {rows} x {cols}, and the product is {m} x {n}")
    if beta != 0 and "c" not in shapes and "out" not in shapes:
        raise unusable("c", f"beta = {beta:g} needs c")
    return m, n, k
