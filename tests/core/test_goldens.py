"""The CUDA of every example, byte for byte, and that nothing but the input decides it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests import examples
from tests.golden import assert_no_orphans, compare

GOLDENS = Path(__file__).parent / "goldens"

DIGEST = """
import sys
from hashlib import sha256
import gemmdsl
for path in sys.argv[1:]:
    program = gemmdsl.load(path)
    for schedule in program.schedules:
        kernel = program.compile(schedule)
        print(schedule, sha256((kernel.source + kernel.header + kernel.main).encode()).hexdigest())
"""


def _name(file: str, schedule: str) -> str:
    return f"{file.removesuffix('.gemm')}.{schedule}.cu"


@pytest.mark.parametrize(("file", "schedule"), examples.schedules())
def test_cuda_is_the_golden_one(file: str, schedule: str) -> None:
    compare(GOLDENS / _name(file, schedule), examples.kernel(file, schedule).source)


def test_header_and_main_are_the_golden_ones() -> None:
    kernel = examples.kernel("ladder.gemm", "v3_2")
    compare(GOLDENS / "ladder.v3_2.h", kernel.header)
    compare(GOLDENS / "ladder.v3_2.main.cu", kernel.main)


def test_every_golden_is_used() -> None:
    names = [_name(file, schedule) for file, schedule in examples.schedules()]
    assert_no_orphans(GOLDENS, [*names, "ladder.v3_2.h", "ladder.v3_2.main.cu"])


def _digests(python: str, seed: str, *prefix: str) -> str:
    files = [str(examples.FOLDER / file) for file in examples.files()]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [python, *prefix, "-c", DIGEST, *files]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_hash_seeds_do_not_matter() -> None:
    one, two = (_digests(sys.executable, seed) for seed in ("1", "2"))
    assert one == two
    for line in one.splitlines():
        assert len(line.split()[1]) == len(sha256().hexdigest())


def _interpreter(version: str) -> str | None:
    """A Python of this version that starts: on the PATH, or among those that pyenv keeps."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    kept = sorted(str(path) for path in pyenv.glob(f"{version}*/bin/python{version}"))
    for python in (shutil.which(f"python{version}"), *kept):
        if python and subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0:
            return python
    return None


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_python_versions_do_not_matter(version: str, tmp_path: Path) -> None:
    if sys.version_info[:2] == tuple(int(part) for part in version.split(".")):
        pytest.skip("this is the Python that runs the tests")
    python = _interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version}")
    subprocess.run([python, "-m", "venv", str(tmp_path / "env")], check=True)
    other = str(tmp_path / "env" / "bin" / "python")
    root = str(examples.FOLDER.parent)
    subprocess.run([other, "-m", "pip", "install", "--quiet", root], check=True, capture_output=True)
    assert _digests(other, "0") == _digests(sys.executable, "0")
