"""Texts and specs for the tests of the front end."""

from __future__ import annotations

from gemmdsl.checker import analyse, loads
from gemmdsl.diagnostics import Diagnostic, GemmError
from gemmdsl.source import Source
from gemmdsl.spec import Spec

PROBLEM = "problem p { A: f32[M, K]  B: f32[K, N]  C: f32[M, N] = alpha * A @ B + beta * C }\n"
HEAD = f"gemm 1\n{PROBLEM}"


def spec(options: str, target: str = "sm_90", problem: str = PROBLEM) -> Spec:
    """The Spec of one schedule with these options."""
    return loads(f"gemm 1\n{problem}schedule s for p on {target} {{ {options} }}").spec()


def errors(text: str) -> list[Diagnostic]:
    """What is wrong with a whole text, rules included."""
    program, found = analyse(Source("test.gemm", text))
    return [*found, *(d for d in program.check() if d.severity.value == "error")]


def codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in errors(text)]


def broken(options: str, target: str = "sm_90", problem: str = PROBLEM) -> list[Diagnostic]:
    """What is wrong with one schedule with these options; empty when it is legal."""
    try:
        spec(options, target, problem)
    except GemmError as wrong:
        return list(wrong.diagnostics)
    return []
