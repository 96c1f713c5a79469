"""What can go wrong with a measurement as a whole; codes `G951` to `G953` and `G959`.

What is wrong with one kernel is told in its row, and with a suite's table by `suite_table.py`.
"""

from __future__ import annotations

from gemmdsl.diagnostics import GemmError, error
from gemmdsl.resources import installs


def no_baseline(reason: str) -> GemmError:
    """No library that binds cuBLAS is installed."""
    return GemmError(
        [
            error(
                "G951",
                f"there is nothing to compare with: {reason}",
                help="pip install torch, or cupy-cuda13x; or --against none",
            )
        ]
    )


def baseline_failed(title: str, problem: Exception) -> GemmError:
    """The library that binds cuBLAS gave up, for lack of memory or because the device failed."""
    told = str(problem).strip().split("\n", 1)[0] or type(problem).__name__
    return GemmError([error("G959", f"{title} failed: {told}")])


def no_matplotlib(reason: str) -> GemmError:
    """Plots need a library."""
    return GemmError([error("G952", f"plots need matplotlib: {reason}", help=installs("plot"))])


def nothing_to_draw(missing: str) -> GemmError:
    """No row has what a picture shows; `missing` is what would have had to be done to a kernel."""
    return GemmError([error("G953", f"there is nothing to draw: no kernel was {missing}")])
