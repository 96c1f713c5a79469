"""What git holds is the whole of it: nothing that works here depends on a file that was never added."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no checkout")


def run(*words: str, index: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": sys.executable}
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    return subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_last_commit_can_be_imported_and_compiles() -> None:
    ended = run(".ci/tree", "HEAD")
    assert ended.returncode == 0, ended.stderr


def test_a_module_that_was_not_added_is_missed(tmp_path: Path) -> None:
    index = tmp_path / "index"
    for words in (("read-tree", "HEAD"), ("rm", "--cached", "--quiet", "gemmdsl/passes/pad.py")):
        assert run("git", *words, index=index).returncode == 0
    ended = run(".ci/tree", index=index)
    assert ended.returncode != 0
    assert "gemmdsl.passes.pad" in ended.stderr
