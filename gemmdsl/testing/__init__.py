"""Tests of kernels, for `gemmdsl test`, for gemmdsl's own suites and for a user's own project.

    from hypothesis import given
    from gemmdsl.testing import assert_kernel_matches_numpy, specs

    assert_kernel_matches_numpy(gemmdsl.load("my.gemm").compile("mine"))

    @given(specs())
    def test_anything_legal_compiles(spec): ...

The names below are imported when they are first used, so that commands which only run one case do not pay for
hypothesis.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gemmdsl.testing.case import Case
    from gemmdsl.testing.engine import Settings, assert_kernel_matches_numpy, check_kernel
    from gemmdsl.testing.outcome import Finding, Outcome
    from gemmdsl.testing.schedules import options, problems, specs
    from gemmdsl.testing.shapes import cases, extents, leading_dimensions, matrices, offsets, shapes
    from gemmdsl.testing.text import options_of, program_text, spec_text
    from gemmdsl.testing.trial import run_case

__all__ = [
    "Case",
    "Finding",
    "Outcome",
    "Settings",
    "assert_kernel_matches_numpy",
    "cases",
    "check_kernel",
    "extents",
    "leading_dimensions",
    "matrices",
    "offsets",
    "options",
    "options_of",
    "problems",
    "program_text",
    "run_case",
    "shapes",
    "spec_text",
    "specs",
]

_HOMES = {
    "Case": "case",
    "Finding": "outcome",
    "Outcome": "outcome",
    "Settings": "engine",
    "assert_kernel_matches_numpy": "engine",
    "cases": "shapes",
    "check_kernel": "engine",
    "extents": "shapes",
    "leading_dimensions": "shapes",
    "matrices": "shapes",
    "offsets": "shapes",
    "options": "schedules",
    "options_of": "text",
    "problems": "schedules",
    "program_text": "text",
    "run_case": "trial",
    "shapes": "shapes",
    "spec_text": "text",
    "specs": "schedules",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'gemmdsl.testing' has no attribute {name!r}")
    return getattr(import_module(f"gemmdsl.testing.{_HOMES[name]}"), name)
