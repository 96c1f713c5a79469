"""Kernels whose blocks share K, on the emulator: right at every edge, and watched from launch to launch."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import gemmdsl
from gemmdsl.conditions import Aligned
from gemmdsl.cuda_source import CudaSource, Status
from gemmdsl.emulator.builder import export
from gemmdsl.emulator.library import RunOptions
from gemmdsl.emulator.run import arguments_of, launch, run, store
from gemmdsl.launch_errors import LaunchError
from gemmdsl.reference import gemm_reference
from gemmdsl.testing.outcome import kind_of

TEXT = """gemm 1
problem p {{ A: f32[M, K]{a}  B: f32[K, N]{b}  C: f32[M, N]{c} = alpha * A @ B + beta * C }}
schedule s for p on sm_90 {{ block 16 x 32 x 4 thread 4 x 4 store C {{ vector 4 }} {words} }}
"""
LAYOUTS = {"row": ("", "", ""), "column": (" col", " col", " col"), "mixed": (" col", "", " col")}
KINDS = ("split_k 5 atomic", "split_k 5")
# Nothing of K, fewer tiles than parts, the last tile short, as many for each part, one more for some.
SHAPES = ((5, 7, 0), (1, 1, 1), (17, 33, 7), (16, 32, 20), (33, 5, 43), (16, 64, 48))


@cache
def kernel(words: str, layout: str = "row") -> CudaSource:
    a, b, c = LAYOUTS[layout]
    return gemmdsl.loads(TEXT.format(a=a, b=b, c=c, words=words)).compile().cuda


def operands(m: int, n: int, k: int) -> tuple[NDArray[np.float32], ...]:
    random = np.random.default_rng(m * 1009 + n * 31 + k)
    return tuple(random.integers(-8, 9, shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("words", KINDS)
def test_right_for_every_k_and_every_scalar(words: str, layout: str) -> None:
    for m, n, k in SHAPES:
        a, b, c = operands(m, n, k)
        for alpha, beta in ((1.0, 0.0), (2.0, -3.0), (1.0, 1.0), (0.0, 2.0)):
            for checked in (False, True):
                found = run(kernel(words, layout), a, b, c, alpha, beta, ldc=max(m, n) + 3, checked=checked)
                np.testing.assert_array_equal(found, alpha * (a.astype(np.float64) @ b) + beta * c)


@pytest.mark.parametrize("words", KINDS)
def test_beta_of_nought_hides_what_c_held(words: str) -> None:
    a, b, c = operands(17, 33, 43)
    c[:] = np.nan
    for k in (0, 43):
        expected = a[:, :k].astype(np.float64) @ b[:k]
        np.testing.assert_array_equal(
            run(kernel(words), a[:, :k], b[:k], c, 1.0, 0.0, checked=True), expected
        )
    np.testing.assert_array_equal(run(kernel(words), a * np.nan, b, None, 0.0, 0.0), np.zeros((17, 33)))


@pytest.mark.parametrize("words", KINDS)
@pytest.mark.parametrize("entry", ["fast", "edge", "general"])
def test_every_entry_brings_what_it_needs_along(words: str, entry: str) -> None:
    a, b, c = operands(16, 32, 40)
    source = kernel(f"{words} stage B {{ load vector 4 }}")
    found = run(source, a, b, c, 1.0, 2.0, entry=entry, checked=True)
    np.testing.assert_array_equal(found, a.astype(np.float64) @ b + 2 * c)


def test_only_blocks_that_add_to_c_ask_for_its_alignment() -> None:
    """Where parts are kept they are aligned, and what adds them up stores single words."""
    added, stored = (kernel(words).plan.entries for words in KINDS)
    aligned = Aligned("C", 4)
    assert [aligned in entry.requires for entry in added] == [True, True, False]
    assert [entry.path for entry in stored] == ["fast", "general"]
    assert not any(aligned in entry.requires for entry in stored)
    a, b, c = operands(16, 32, 40)
    found = run(kernel(KINDS[1]), a, b, c, 1.0, 2.0, entry="fast", ldc=37, checked=True)
    np.testing.assert_array_equal(found, a.astype(np.float64) @ b + 2 * c)


@pytest.mark.parametrize("words", KINDS)
def test_runs_can_be_repeated_bit_by_bit(words: str) -> None:
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((64, 160), (160, 96)))
    runs = [run(kernel(words), a, b) for _ in range(3)]
    for found in runs[1:]:
        np.testing.assert_array_equal(found, runs[0])
    # Other orders of blocks change sums that are added as they come, and no others.
    backwards = run(kernel(words), a, b, order="reversed")
    assert np.array_equal(backwards, runs[0]) == kernel(words).plan.repeatable


def test_many_blocks_add_at_once() -> None:
    source = kernel("split_k 5 atomic")
    source = replace(source, plan=replace(source.plan, parts=None))
    a, b, _ = operands(64, 64, 160)
    stored = store(source, 64, 64, 160)
    stored["A"].fill(a)
    stored["B"].fill(b)
    launch(source, arguments_of(stored, 64, 64, 160), options=RunOptions(workers=8))
    np.testing.assert_array_equal(stored["C"].matrix, a.astype(np.float64) @ b)


@pytest.mark.parametrize("words", KINDS)
def test_an_infinite_alpha_shows_whether_parts_are_scaled(words: str) -> None:
    source = kernel(words)
    a, b, _ = operands(17, 33, 43)
    # The first part is 0, and so is the last one.
    a[:, :12] = a[:, 36:] = 0
    found = run(source, a, b, None, np.inf)
    assert source.plan.parts is not None
    parts = source.plan.parts.ends(43) if source.plan.parts.atomic else ()
    expected = gemm_reference(source.problem, a, b, alpha=np.inf, parts=parts)
    np.testing.assert_array_equal(found, expected)
    assert np.isnan(found).all() == source.plan.parts.atomic


def test_sums_too_small_to_be_normal_are_nought() -> None:
    tiny = np.full((1, 8), 1e-20, np.float32)
    found = run(kernel("split_k 5 atomic"), tiny, tiny.T)
    assert found[0, 0] == 0
    assert run(kernel("split_k 5"), tiny, tiny.T)[0, 0] > 0


@pytest.mark.parametrize("words", KINDS)
def test_an_exported_library_needs_nothing_else(words: str, tmp_path: Path) -> None:
    source = kernel(words)
    (tmp_path / "split.so").write_bytes(export(source))
    function = ctypes.CDLL(str(tmp_path / "split.so"))[source.plan.launcher]
    a, b, c = operands(17, 33, 43)
    expected = 2 * a.astype(np.float64) @ b - c
    values = {"M": 17, "N": 33, "K": 43, "alpha": 2.0, "beta": -1.0, "lda": 43, "ldb": 33, "ldc": 33}
    pointers = {name: ctypes.c_void_p(array.ctypes.data) for name, array in (("A", a), ("B", b), ("C", c))}
    kinds = {"int": ctypes.c_int, "float": ctypes.c_float}
    arguments = [
        pointers.get(one.name) or kinds[one.ctype](values[one.name]) for one in source.plan.parameters
    ]
    assert function(*arguments, None) == 0
    np.testing.assert_array_equal(c, expected)


FREE = "  if (cudaFreeAsync(parts, stream) != cudaSuccess && status == SUCCESS) status = LAUNCH_FAILED;\n"
# Edits of the text, and what the checker says of the first access that they break.
FAULTS = {
    "not scaled": (
        "split_k 5 atomic",
        ("    *to = out;\n", "    if (N < 0) *to = out;\n"),
        "is added to {here} before it is scaled",
    ),
    "read while others add": (
        "split_k 5 atomic",
        ("      add_global<", "      out[0] += 0.0f * C[0];\n      add_global<"),
        "race on C[0, 0]: read {here} while other threads add to it",
    ),
    "added twice": (
        "split_k 5 atomic",
        ("  if (depth > 0) {", "  for (int again = 0; again < 2; ++again) {"),
        "is added to C[0, 0] a second time",
    ),
    "a part left out": (
        "split_k 5 atomic",
        ("  if (depth > 0) {", "  if (depth > 0 && split != 1) {"),
        "part 1 was not added to C[0, 0]",
    ),
    "not added but stored": (
        "split_k 5 atomic",
        ("if (e < valid) add<1>(to + e, from + e);", "if (e < valid) to[e] = from[e];"),
        "C[0, 0] is written a second time",
    ),
    "a part not stored": (
        "split_k 5",
        ("  store_part<", "  if (split != 2) store_part<"),
        "of the workspace {here}, which no thread has written",
    ),
    "parts in one place": (
        "split_k 5",
        ("parts += split *", "parts += split / 2 *"),
        "of the workspace is written a second time",
    ),
    "a part too many": (
        "split_k 5",
        ("part < PARTS", "part <= PARTS"),
        "read outside the workspace {here}, 0 bytes behind its last word",
    ),
    "memory freed twice": (
        "split_k 5",
        ("  return status;\n}", "  cudaFreeAsync(parts, stream);\n  return status;\n}"),
        "memory is freed a second time {here}",
    ),
    "memory freed that is not its own": (
        "split_k 5",
        ("  return status;\n}", "  cudaFreeAsync(C, stream);\n  return status;\n}"),
        "memory is freed that cudaMallocAsync did not give {here}",
    ),
    "memory not freed": (
        "split_k 5",
        (
            FREE,
            "",
        ),
        "when the call ends, memory is not freed that it allocated {here}",
    ),
    "memory used after it was freed": (
        "split_k 5",
        ("  if (status == SUCCESS) {\n", "  cudaFreeAsync(parts, stream);\n  if (status == SUCCESS) {\n"),
        # Of every array, or of one that happens to lie near.
        "read outside {here}",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_checker_follows_c_from_launch_to_launch(name: str) -> None:
    words, (right, wrong), message = FAULTS[name]
    source = kernel(words)
    assert source.text.count(right) == 1
    broken = replace(source, text=source.text.replace(right, wrong))
    a, b, c = operands(7, 9, 43)
    run(source, a, b, c, 1.0, 2.0, checked=True)
    with pytest.raises(LaunchError) as caught:
        run(broken, a, b, c, 1.0, 2.0, checked=True)
    told = str(caught.value)
    assert all(part in told for part in message.split("{here}")), told
    assert kind_of(told) != "launch"
    assert ("{here}" not in message) or re.search(r"on line \d+", told)


def test_what_was_not_freed_is_forgotten_with_the_next_call() -> None:
    source = kernel("split_k 5")
    freed = (
        "  if (cudaFreeAsync(parts, stream) != cudaSuccess && status == SUCCESS) status = LAUNCH_FAILED;\n"
    )
    assert freed in source.text
    leaking = replace(source, text=source.text.replace(FREE, ""))
    a, b, _ = operands(7, 9, 43)
    for _ in range(3):
        np.testing.assert_array_equal(run(leaking, a, b), a.astype(np.float64) @ b)
    wrong = replace(source, text=source.text.replace(FREE, FREE + FREE))
    with pytest.raises(LaunchError, match="memory is freed a second time"):
        run(wrong, a, b)


def test_a_call_without_memory_says_so_and_leaves_c_alone() -> None:
    source = kernel("split_k 5")
    a, b, c = operands(17, 33, 43)
    stored = store(source, 17, 33, 43)
    for name, values in (("A", a), ("B", b), ("C", c)):
        stored[name].fill(values)  # type: ignore[index]
    with pytest.raises(LaunchError) as caught:
        launch(source, arguments_of(stored, 17, 33, 43), options=RunOptions(refuse_memory=True))
    assert caught.value.status is Status.NO_MEMORY
    size = 5 * 17 * 36 * 4
    assert f"has no {size} bytes" in str(caught.value)
    assert "cudaMallocAsync" in str(caught.value)
    np.testing.assert_array_equal(stored["C"].matrix, c)
