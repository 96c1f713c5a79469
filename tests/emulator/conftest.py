from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the run, and none of the user's; processes of a parallel run share it."""
    import os

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kernels"
    patch = pytest.MonkeyPatch()
    patch.setenv("GEMMDSL_CACHE", str(folder))
    return folder
