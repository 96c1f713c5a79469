"""Branches that the fast tests take of what must not be wrong: `python -m tests.coverage`.

Prints one line per part, and the lines from which a branch was never taken; exits with 1 where a part has
fewer than 95% of its branches.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LEAST = 95.0
PARTS = {
    "passes": "gemmdsl/passes/*.py",
    "verifier": "gemmdsl/verifier/*.py",
    "rules": "gemmdsl/rules*.py",
    "index algebra": "gemmdsl/index.py",
    "layout": "gemmdsl/layout.py",
}
TESTS = (
    "tests/core/test_goldens.py",
    "tests/core/test_index.py",
    "tests/verifier",
    "tests/frontend/test_checker.py",
    "tests/frontend/test_diagnostics.py",
    "tests/frontend/test_rules.py",
    "tests/frontend/test_unsound.py",
    "tests/frontend/test_words.py",
)
ROOT = Path(__file__).parent.parent


def measure() -> dict[str, Any]:
    """What coverage says of each file, by its path; RuntimeError where a test fails."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-k", "not hash_seeds", *TESTS]
        done = subprocess.run(
            [*command, "--cov", "--cov-report", f"json:{report}"],
            cwd=ROOT,
            check=False,
            text=True,
            capture_output=True,
        )
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        files: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))["files"]
        return files


def share(files: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """(taken, all) branches of some files."""
    summaries = [file["summary"] for file in files]
    return sum(s["covered_branches"] for s in summaries), sum(s["num_branches"] for s in summaries)


def main() -> int:
    try:
        files = measure()
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    enough = True
    for part, pattern in PARTS.items():
        inside = {path: file for path, file in sorted(files.items()) if Path(path).match(pattern)}
        taken, branches = share(inside.values())
        percent = 100 * taken / branches
        enough = enough and percent >= LEAST
        print(f"{part:14} {taken:4} of {branches:4} branches  {percent:5.1f}%")
        for path, file in inside.items():
            if file["missing_branches"]:
                print(f"    {path}: " + ", ".join(f"{at} to {to}" for at, to in file["missing_branches"]))
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
