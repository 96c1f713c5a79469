"""Tiles in shared memory: who leaves one, by name, and which word of the schedule it follows from."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import gemmdsl
from gemmdsl.diagnostics import Diagnostic
from gemmdsl.launch_errors import LaunchError

PROGRAM = """gemm 1

problem sgemm {
  A: f32[M, K]
  B: f32[K, N]
  C: f32[M, N] = alpha * A @ B + beta * C
}

schedule single for sgemm on sm_80 {
  block  32 x 32 x 8
  thread 4 x 4
  stage A { transpose  pad 4 }
}

schedule double extends single {
  stage B { vector 4 }
  buffers 2
}

schedule large for sgemm on sm_80 {
  block  64 x 64 x 32
  thread 4 x 4
  stage A { vector 1  pad 2 }
  buffers 4 async
}
"""


@cache
def kernel(schedule: str) -> gemmdsl.CompiledKernel:
    return gemmdsl.loads(PROGRAM, "tiles.gemm").compile(schedule)


def edited(schedule: str, *edits: tuple[str, str]) -> gemmdsl.CompiledKernel:
    text = kernel(schedule).source
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return kernel(schedule).with_source(text)


def multiply(made: gemmdsl.CompiledKernel, size: int = 64, entry: str | None = None) -> np.ndarray:
    ones = np.ones((size, size))
    found = made.run(ones, ones, checked=True, entry=entry)
    assert isinstance(found, np.ndarray)
    return found


def finding(made: gemmdsl.CompiledKernel) -> Diagnostic:
    with pytest.raises(LaunchError) as caught:
        multiply(made)
    return caught.value.diagnostics[0]


def place(found: Diagnostic) -> str:
    """The line of the schedule that a finding points to."""
    assert found.source is not None
    assert found.span is not None
    assert found.source.name == "tiles.gemm"
    return found.source.text[found.span.start : found.span.end]


@pytest.mark.parametrize("schedule", ["single", "double", "large"])
def test_right_kernels_are_passed_over_in_silence(schedule: str) -> None:
    for size in (64, 70):
        assert (multiply(kernel(schedule), size) == size).all()


@pytest.mark.parametrize(
    ("schedule", "old", "new", "words"),
    [
        ("single", "const int a_to = ", "const int a_to = 1 + ", "of padding on line"),
        ("single", "const int a_to = ", "const int a_to = 1 + ", "stage.A[0][32] holds nothing"),
        ("single", "const int a_to = ", "const int a_to = BLOCK_K * A_ROW + ",
         "write outside A's tile on line"),
        ("single", "const int a_to = ", "const int a_to = BLOCK_K * A_ROW + ", "lands in stage.B[0][0]"),
        ("single", "const int b_to = ", "const int b_to = -4 + ", "lands in stage.A[7][32]"),
        ("double", "const int a_to = ", "const int a_to = BLOCK_K * A_ROW + ",
         "lands in stages[0].B[0][0]"),
        ("double", "? (thread / B_ROW_VECTORS)", "? BLOCK_K * B_ROW + (thread / B_ROW_VECTORS)",
         "lands in stages[1].A[0][0]"),
        ("double", "&tile[k][thread_row", "&tile[k][BLOCK_K * A_ROW + thread_row",
         "read outside A's tile on line"),
        ("double", "&tile[k][thread_row", "&tile[k][4 + thread_row", "stages[0].A[0][32] holds nothing"),
        ("double", "&tile[k][thread_col", "&tile[k + 1][thread_col", "read outside B's tile on line"),
        ("large", "const int a_to = ", "const int a_to = BLOCK_M * A_ROW + ",
         "outside A's tile on line"),
    ],
)  # fmt: skip
def test_who_leaves_a_tile_is_named(schedule: str, old: str, new: str, words: str) -> None:
    assert words in finding(edited(schedule, (old, new))).message


def test_a_race_names_the_element_and_the_buffers() -> None:
    found = finding(edited("double", ("    __syncthreads();  // the next", "    //")))
    assert "stages[1].A[0][" in found.message
    assert place(found) == "buffers 2"


@pytest.mark.parametrize(
    ("schedule", "edit", "words"),
    [
        ("single", ("const int a_to = ", "const int a_to = 1 + "), "transpose"),
        ("double", ("? (thread / B_ROW_VECTORS)", "? BLOCK_K * B_ROW + (thread / B_ROW_VECTORS)"),
         "vector 4"),
        ("double", ("&tile[k][thread_row", "&tile[k][1 + thread_row"), "transpose"),
        ("double", ("float* const to = C + ", "float* const to = C + 1 + "), "thread 4 x 4"),
        ("double", ("    __syncthreads();  // the next", "    if (thread < 32) __syncthreads();  //"),
         "buffers 2"),
    ],
)  # fmt: skip
def test_findings_point_to_the_word_of_the_schedule(schedule: str, edit: tuple[str, str], words: str) -> None:
    assert place(finding(edited(schedule, edit))) == words


def test_a_text_with_another_padding_is_watched_as_it_is() -> None:
    planned = ("sizeof(Stage) == ", "0 < ")
    wider = edited("double", ("constexpr int A_PAD = 4", "constexpr int A_PAD = 8"), planned)
    assert (multiply(wider) == 64).all()
    beyond = wider.with_source(wider.source.replace("const int a_to = ", "const int a_to = 8 + "))
    assert "stages[0].A[0][32] holds nothing" in finding(beyond).message


def test_a_text_with_other_names_is_watched_as_words() -> None:
    renamed = edited("double", ("Stage", "Tiles"))
    assert (multiply(renamed) == 64).all()
    found = finding(renamed.with_source(renamed.source.replace("__syncthreads();  // the next", "//")))
    assert "of stages" in found.message


def test_a_kernel_without_tiles_has_none() -> None:
    text = PROGRAM + "\nschedule naive for sgemm on sm_80 { block 16 x 16 }\n"
    naive = gemmdsl.loads(text).compile("naive")
    assert naive.cuda.shared is None
    assert (multiply(naive, 20) == 20).all()
