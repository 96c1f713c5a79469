"""A machine with a GPU that is not there."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from gemmdsl.runtime import close_all
from tests.runtime.fake import World, modules


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The fake GPU, ready to be imported as pycuda."""
    made = World()
    installed = modules(made)
    for name, module in installed.items():
        monkeypatch.setitem(sys.modules, name, module)
    for module in ("gemmdsl.runtime.kernel", "gemmdsl.bench.support"):
        monkeypatch.setattr(f"{module}.cached_cubin", made.compile)
    yield made
    # A test may have taken it away.
    sys.modules.update(installed)
    close_all()
    assert made.stack == [], "a context was left current"
    assert made.retained == 0
