"""What people pass as a matrix of the host, as the FP32 array that a kernel works on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmdsl.launch_errors import unusable


def host_matrix(argument: str, value: Any) -> NDArray[np.float32]:
    """A two-dimensional array of numbers that FP32 can hold as they are, or rounded to it.

    LaunchError when it is none, is not of numbers, or has a mask, which a kernel would not see.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise unusable(argument, f"{argument} is a masked array; filled() makes an array of it")
    try:
        array = np.asarray(value)
    except Exception as problem:
        # Whatever an object's own conversion raises.
        raise unusable(argument, f"{argument} is no matrix: {problem}") from problem
    if array.ndim != 2:
        raise unusable(argument, f"{argument} has {array.ndim} axes, and a matrix has 2")
    if array.dtype.kind not in "fiub":
        raise unusable(argument, f"{argument} has dtype {array.dtype}, and numbers are needed")
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)
