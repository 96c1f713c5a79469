"""Timing kernels on a GPU: nothing is timed whose result was not verified at the same shape in the same run.

`measure` gives rows; `gemmdsl.bench.report` shows them, `gemmdsl.bench.plot` draws them;
`gemmdsl.bench.suite` measures the products of a table.
"""

from gemmdsl.bench.session import Row, Settings, Subject, measure

__all__ = ["Row", "Settings", "Subject", "measure"]
