"""The emitted launcher: which arguments it refuses, and which it does not."""

from __future__ import annotations

import numpy as np
import pytest

from gemmdsl.emulator.run import launch
from gemmdsl.launch_errors import LaunchError
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
