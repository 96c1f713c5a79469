"""Runs a compiled kernel on numpy arrays, or on operands that are already in memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gemmdsl.cuda_source import CudaSource, EntryPoint, Status
from gemmdsl.emulator.causes import cause
from gemmdsl.emulator.library import ORDERS, Landing, RunOptions, ThreadOrder, load
from gemmdsl.launch_errors import check_range, check_sizes, extent, from_status, scalars, unusable
from gemmdsl.matrices import host_matrix
from gemmdsl.memory import require
from gemmdsl.reference import Floats, StoredMatrix
from gemmdsl.spec import Operand, OperandName


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch that succeeded: the entry point that ran, None if none had to, and the wall time it took."""

    entry: EntryPoint | None
    seconds: float


def run(
    source: CudaSource,
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    *,
    lda: int | None = None,
    ldb: int | None = None,
    ldc: int | None = None,
    entry: str | None = None,
    order: ThreadOrder = "forward",
    seed: int = 0,
    async_landing: Landing = "late",
    checked: bool = False,
) -> Floats:
    """alpha * a @ b + beta * c as the kernel computes it; shapes (M, K), (K, N) and (M, N), any strides.

    Operands are copied into the problem's layout with the given leading dimensions, 256-byte aligned.
    Without `c`, C starts as NaN, and beta has to be 0.  `entry` is the path or name of an entry point to run
    in place of the one that the launcher picks.  With `checked`, a race, an access outside of an array, a
    misaligned vector and a read of what nobody wrote end the launch.  LaunchError for wrong arguments and a
    failed launch, ToolError when the kernel cannot be compiled.
    """
    alpha, beta = scalars(source.problem, alpha, beta)
    left, right = host_matrix("a", a), host_matrix("b", b)
    (m, k), (k_of_b, n) = left.shape, right.shape
    if k != k_of_b:
        raise unusable("b", f"a is {m} x {k} and b is {k_of_b} x {n}: the inner sizes differ")
    output = None if c is None else host_matrix("c", c)
    if output is not None and output.shape != (m, n):
        raise unusable("c", f"c is {output.shape[0]} x {output.shape[1]}, and the product is {m} x {n}")
    if output is None and beta != 0:
        raise unusable("c", f"beta = {beta:g} needs c")
    stored = store(source, m, n, k, lda=lda, ldb=ldb, ldc=ldc)
    stored["A"].fill(left)
    stored["B"].fill(right)
    if output is not None:
        stored["C"].fill(output)
    if order not in ORDERS:
        raise unusable("order", f"order is {order!r}, and has to be one of {', '.join(ORDERS)}")
    options = RunOptions(order, seed, async_landing)
    launch(source, arguments_of(stored, m, n, k), alpha, beta, entry=entry, options=options, checked=checked)
    return np.ascontiguousarray(stored["C"].matrix)


def store(
    source: CudaSource,
    m: int,
    n: int,
    k: int,
    *,
    lda: int | None = None,
    ldb: int | None = None,
    ldc: int | None = None,
) -> dict[OperandName, StoredMatrix]:
    """Poisoned memory for the three operands; leading dimensions default to the least legal ones.

    LaunchError for a leading dimension that is too small, and when there is no memory.
    """
    problem = source.problem
    shapes: tuple[tuple[Operand, int, int, int | None], ...] = (
        (problem.a, m, k, lda),
        (problem.b, k, n, ldb),
        (problem.c, m, n, ldc),
    )
    sizes = {"M": m, "N": n, "K": k}
    for operand, _, _, ld in shapes:
        sizes[operand.ld] = max(1, sizes[operand.contiguous]) if ld is None else ld
    check_sizes(source, sizes)
    needed = sum(4 * extent(operand, sizes) for operand, *_ in shapes)
    require(needed, f"operands of {m} x {n} x {k}")
    try:
        return {
            operand.name: StoredMatrix(operand, rows, cols, ld=sizes[operand.ld])
            for operand, rows, cols, _ in shapes
        }
    except MemoryError as too_large:
        raise unusable("", f"no memory for operands of {m} x {n} x {k}: {too_large}") from too_large


def arguments_of(stored: Mapping[OperandName, StoredMatrix], m: int, n: int, k: int) -> dict[str, int]:
    """What `launch` is to be called with."""
    arguments = {"M": m, "N": n, "K": k}
    for name, matrix in stored.items():
        arguments[name] = matrix.address
        arguments[matrix.operand.ld] = matrix.ld
    return arguments


def launch(
    source: CudaSource,
    arguments: Mapping[str, int],
    alpha: float = 1.0,
    beta: float = 0.0,
    *,
    entry: str | None = None,
    options: RunOptions | None = None,
    cached: bool = True,
    checked: bool = False,
) -> Launch:
    """Call the launcher, or with `entry` one entry point, on operands in memory.

    `arguments` holds M, N, K, lda, ldb, ldc and the addresses A, B, C.  Errors as those of `run`.
    """
    alpha, beta = scalars(source.problem, alpha, beta)
    check_range(source, arguments)
    forced = None if entry is None else _forced(source, entry, arguments)
    library = load(source, cached=cached, checked=checked)
    values: dict[str, float] = {**arguments, "alpha": alpha, "beta": beta}
    options = options or RunOptions()
    started = time.perf_counter()
    if forced is None:
        outcome = library.launch(values, options)
    else:
        if source.plan.grid(arguments["M"], arguments["N"])[0] == 0:
            return Launch(None, 0.0)
        outcome = library.run_entry(forced, values, options)
    seconds = time.perf_counter() - started
    if outcome.status != 0:
        status = int(Status.LAUNCH_FAILED) if forced else outcome.status
        told = outcome.message
        found = cause(source, told, outcome.functions) if status == Status.LAUNCH_FAILED else None
        raise from_status(status, source, arguments, told, outcome.calls, found)
    return Launch(outcome.entry, seconds)


def _forced(source: CudaSource, entry: str, arguments: Mapping[str, int]) -> EntryPoint:
    """The entry point called `entry`; LaunchError when there is none or it is not made for the arguments."""
    known = {candidate.path: candidate for candidate in source.plan.entries}
    found = known.get(entry) or {candidate.name: candidate for candidate in known.values()}.get(entry)
    if found is None:
        paths = ", ".join(known)
        raise unusable("entry", f"{source.plan.launcher} has no entry point {entry}; it has {paths}")
    for condition in found.requires:
        if not condition.holds(arguments):
            raise unusable("entry", f"entry point {found.name} needs {condition}")
    check_sizes(source, arguments)
    return found
