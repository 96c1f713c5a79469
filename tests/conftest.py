"""Settings shared by every test."""

from __future__ import annotations

import os
import signal
from functools import cache

import pytest
from hypothesis import Phase, settings

from gemmdsl.toolchain import ToolError, find_tool

# An example may start a compiler, so no deadline is meaningful; CI must fail for the same input each time.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
# Of a mutant, only whether it is found matters.
settings.register_profile(
    "mutation", deadline=None, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# What a shell starts in the background ignores interrupts, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@cache
def _nvcc() -> bool:
    try:
        find_tool("nvcc")
    except ToolError:
        return False
    return True


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("nvcc") and not _nvcc():
        pytest.skip("needs nvcc: pip install -e '.[cuda]'")
