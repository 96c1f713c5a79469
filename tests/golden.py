"""Golden files: expected output kept beside the tests, updated only on purpose.

`GEMMDSL_UPDATE_GOLDENS=1 pytest ...` rewrites them; in CI that is an error.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path

import pytest


def compare(path: Path, text: str) -> None:
    """Fails with a diff unless the golden file at `path` holds exactly `text`."""
    if os.environ.get("GEMMDSL_UPDATE_GOLDENS") == "1":
        assert not os.environ.get("CI"), "goldens are not updated in CI"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return
    expected = path.read_bytes().decode() if path.is_file() else ""
    if expected != text:
        diff = difflib.unified_diff(
            expected.splitlines(), text.splitlines(), "expected", "emitted", lineterm="", n=1
        )
        shown = "\n".join(list(diff)[:60])
        pytest.fail(f"{path.name} differs (GEMMDSL_UPDATE_GOLDENS=1 rewrites it)\n{shown}", pytrace=False)


def assert_no_orphans(folder: Path, expected: Iterable[str]) -> None:
    """Fails when the folder holds a golden that no test compares with."""
    present = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    assert present == set(expected)
