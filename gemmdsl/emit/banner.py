"""The header comment of the emitted CUDA: where it comes from, what was done, what was proved."""

from __future__ import annotations

from gemmdsl.cuda_source import LaunchPlan
from gemmdsl.diagnostics import printable
from gemmdsl.emit.launch import describe, shape
from gemmdsl.ir import Kernel


def banner(kernel: Kernel, plan: LaunchPlan, proofs: tuple[str, ...]) -> tuple[str, ...]:
    """Rows of a label and what it says; a label that repeats itself is left out."""
    spec, problem = kernel.spec, kernel.spec.problem
    kind = "dynamic" if plan.dynamic_shared_bytes else "static"
    blocks = f"ceil(M / {plan.block_m}) * ceil(N / {plan.block_n})"
    if plan.parts is not None:
        blocks += f" x {plan.parts.count}"
    rows: list[tuple[str, str]] = [
        ("source", f"{_named(spec.file)}, schedule {spec.schedule.name} (gemm {spec.language})"),
        ("target", spec.target.name),
        ("operands", ", ".join(shape(operand) for operand in (problem.a, problem.b, problem.c))),
        ("passes", ", ".join(kernel.applied) or "none: the naive kernel"),
        *(("fallback", sentence) for sentence in spec.fallbacks),
        *(("launch", f"{sweep.name}, all elements of C") for sweep in plan.before),
        ("launch", f"{blocks} blocks of {plan.threads} threads"),
        *(("launch", f"{sweep.name}, all elements of C") for sweep in plan.after),
        ("shared", f"{kernel.shared_bytes} bytes, {kind}" if kernel.shared_bytes else "none"),
        *((path.name, describe(path.requires) or "always right") for path in kernel.paths),
        # Of the plan that this text prints; the text itself is tested.
        *(("proved", proof) for proof in proofs),
    ]
    lines, previous = [], ""
    for label, value in rows:
        lines.append(f"{label if label != previous else '':<10}{value}")
        previous = label
    return tuple(lines)


def _named(file: str) -> str:
    """A file's name as part of a comment: no line break, and no backslash where a line may end."""
    return printable(file.replace("\\", r"\x5c"))
