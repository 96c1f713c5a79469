"""The emitted launcher: which arguments it refuses, and which it does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmdsl.emulator.run import launch
from gemmdsl.launch_errors import LaunchError, Lines
from tests import examples

SIZE, LD = 16, 100


def _panels(a: int, b: int, c: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Runs C = A @ B on three panels of one matrix that begin at these columns; the matrix afterwards."""
    kernel = examples.kernel("ladder.gemm", "v3_2")
    matrix = np.ones((SIZE, LD), dtype=np.float32)
    arguments = {"M": SIZE, "N": SIZE, "K": SIZE, "lda": LD, "ldb": LD, "ldc": LD}
    for name, column in (("A", a), ("B", b), ("C", c)):
        arguments[name] = matrix.ctypes.data + 4 * column
    launch(kernel.cuda, arguments, 1.0, 0.0)
    return matrix


@pytest.mark.parametrize("c", [32, 60, 84])
def test_panels_of_one_matrix_that_are_apart_are_accepted(c: int) -> None:
    matrix = _panels(0, 16, c)
    assert (matrix[:, c : c + SIZE] == SIZE).all()
    matrix[:, c : c + SIZE] = 1
    assert (matrix == 1).all()


@pytest.mark.parametrize("c", [0, 1, 15, 16, 31, 85, 99])
def test_panels_that_meet_are_refused(c: int) -> None:
    with pytest.raises(LaunchError, match="overlap"):
        _panels(0, 16, c)


@st.composite
def _lines(draw: st.DrawFn, ld: int) -> Lines:
    return Lines(4 * draw(st.integers(0, 60)), draw(st.integers(1, 4)), draw(st.integers(1, ld)), ld)


@given(st.data(), st.integers(1, 12), st.booleans())
def test_python_answers_as_the_launcher_does(data: st.DataObject, ld: int, same: bool) -> None:
    """Python never misses a float that two matrices share, and finds none where lines are as far apart."""
    c = data.draw(_lines(ld))
    x = data.draw(_lines(ld if same else ld + 1))

    def floats(of: Lines, lines: int) -> set[int]:
        first = of.address // 4
        return {first + line * of.ld + place for line in range(lines) for place in range(of.length)}

    if floats(c, c.lines) & floats(x, x.lines):
        assert c.meets(x)
        assert x.meets(c)
    elif same and c.meets(x):
        # As if lines went on: whether the last ones are where they meet is not asked.
        assert floats(replace(c, address=c.address + 400 * ld), 100) & floats(x, 200)
