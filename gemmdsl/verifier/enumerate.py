"""Index expressions over whole ranges of their variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gemmdsl.index import Expr, Var, evaluate

if TYPE_CHECKING:
    from gemmdsl.index import Array


def values(expr: Expr, *axes: Var) -> Array:
    """`expr` for every combination of the variables: one array axis per variable, in the order given."""
    rank = len(axes)
    env: dict[str, Array | int] = {
        var.name: np.arange(var.extent).reshape([-1 if axis == place else 1 for axis in range(rank)])
        for place, var in enumerate(axes)
    }
    return np.broadcast_to(np.asarray(evaluate(expr, env)), [var.extent for var in axes])


def first(mask: Array | np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> tuple[int, ...]:
    """Index of the first true element of an array that has one."""
    return tuple(int(place) for place in np.unravel_index(int(np.argmax(mask)), mask.shape))


def missing_or_repeated(flat: Array, extent: int) -> int | None:
    """The first number of range(extent) that does not occur exactly once; all of `flat` lie in the range."""
    if flat.size == extent:
        seen = np.zeros(extent, dtype=np.bool_)
        seen[flat.ravel()] = True
        if seen.all():
            return None
    return first(np.bincount(flat.ravel(), minlength=extent) != 1)[0]
