"""Hand-written kernels of the shape that the emitter produces, and small ones for single questions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gemmdsl.conditions import Condition, Multiple
from gemmdsl.cuda_source import CudaSource, EntryPoint, LaunchPlan, Parameter
from gemmdsl.spec import Operand, Order, Problem

KERNELS = Path(__file__).parent / "kernels"
SIGNATURE = (
    "int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta,"
    " float* C, int ldc"
)
CALL = "M, N, K, alpha, A, lda, B, ldb, beta, C, ldc"

SGEMM = Problem(
    "sgemm",
    Operand("A", "M", "K", Order.ROW),
    Operand("B", "K", "N", Order.ROW),
    Operand("C", "M", "N", Order.ROW),
)
PLAIN_TN = replace(SGEMM, name="plain_tn", a=Operand("A", "M", "K", Order.COLUMN), alpha=False, beta=False)


def parameters(problem: Problem) -> tuple[Parameter, ...]:
    absent = {"alpha": not problem.alpha, "beta": not problem.beta}
    declared = [words.rsplit(" ", 1) for words in SIGNATURE.split(", ")]
    return tuple(Parameter(name, ctype) for ctype, name in declared if not absent.get(name))


def source(
    text: str,
    name: str,
    *paths: str,
    problem: Problem = SGEMM,
    block: tuple[int, int] = (16, 16),
    threads: int = 256,
    static: int = 0,
    dynamic: int = 0,
    preconditions: tuple[Condition, ...] = (),
    target: str = "sm_80",
) -> CudaSource:
    plan = LaunchPlan(
        launcher=name,
        parameters=parameters(problem),
        entries=tuple(EntryPoint(f"{name}_{path}", path, preconditions) for path in paths),
        preconditions=preconditions,
        block_m=block[0],
        block_n=block[1],
        threads=threads,
        static_shared_bytes=static,
        dynamic_shared_bytes=dynamic,
    )
    return CudaSource(problem, target, text, header="", main="", plan=plan)


def _file(name: str) -> str:
    return (KERNELS / f"{name}.cu").read_text(encoding="utf-8")


NAIVE = source(_file("naive"), "naive", "general", block=(8, 16), threads=128)
SHARED_TILE = source(
    _file("shared_tile"), "shared_tile", "general", problem=PLAIN_TN, static=4 * 16 * (17 + 16)
)
PINGPONG = source(
    _file("pingpong"),
    "pingpong",
    "fast",
    block=(64, 32),
    threads=128,
    static=4 * 2 * 8 * (68 + 32),
    preconditions=(Multiple("M", 64), Multiple("N", 32), Multiple("K", 8)),
)
PIPELINE = source(
    _file("pipeline"), "pipeline", "edge", block=(32, 64), threads=128, dynamic=3 * 4 * (32 * 48 + 48 * 64)
)


def one_block(
    body: str,
    threads: int = 64,
    *,
    prologue: str = "",
    dynamic: int = 0,
    static: int = 0,
    target: str = "sm_80",
) -> CudaSource:
    """One block that runs `body`, with M, N, K, A, B, C at hand and `t` for the thread's number."""
    text = f"""#include <cuda_runtime.h>
#include <cuda_pipeline_primitives.h>
#include <cstdint>
{prologue}
extern "C" __global__ void probe_general({SIGNATURE}) {{
    const int t = static_cast<int>(threadIdx.x);
{body}
}}

extern "C" int probe({SIGNATURE}, cudaStream_t stream) {{
    cudaLaunchConfig_t config = {{}};
    config.gridDim = dim3(1);
    config.blockDim = dim3({threads});
    config.dynamicSmemBytes = {dynamic};
    config.stream = stream;
    return cudaLaunchKernelEx(&config, probe_general, {CALL}) == cudaSuccess ? 0 : 7;
}}
"""
    return source(
        text,
        "probe",
        "general",
        block=(1 << 20, 1 << 20),
        threads=threads,
        dynamic=dynamic,
        static=static,
        target=target,
    )
