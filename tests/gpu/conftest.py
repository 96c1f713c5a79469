"""These tests need a GPU, and run nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gemmdsl.runtime import Gpu, GpuError, close_all, gpu


@pytest.fixture
def device() -> Iterator[Gpu]:
    """The first GPU."""
    try:
        found = gpu()
    except GpuError as none:
        pytest.skip(none.diagnostics[0].message)
    yield found
    close_all()
