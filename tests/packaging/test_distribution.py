"""The sdist and the wheel, built and used as a stranger would."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from gemmdsl import __version__

ROOT = Path(__file__).parents[2]
EXAMPLE = ("--schedule", "v3_2", "--target", "sm_80")

pytestmark = pytest.mark.slow


def run(*words: str | Path, cwd: Path) -> str:
    """stdout of a command that has to succeed and sees nothing of this checkout's environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def files_of(folder: str) -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel made from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment with nothing but the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    (wheel,) = built.glob("*.whl")
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return folder / "bin"


def test_the_sdist_is_complete(built: Path) -> None:
    with tarfile.open(built / f"gemmdsl-{__version__}.tar.gz") as archive:
        names = {
            PurePosixPath(name).relative_to(f"gemmdsl-{__version__}").as_posix()
            for name in archive.getnames()
        }
    folders = ("gemmdsl", "grammar", "templates", "examples", "tests", "docs", ".ci")
    expected = set[str]().union(*map(files_of, folders))
    assert expected <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".pre-commit-config.yaml"} <= names


def test_the_wheel_is_the_package_with_its_resources(built: Path) -> None:
    with zipfile.ZipFile(built / f"gemmdsl-{__version__}-py3-none-any.whl") as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    resources = {f"gemmdsl/{name}" for name in files_of("grammar") | files_of("templates")}
    assert names == files_of("gemmdsl") | resources


def test_the_wheel_compiles_an_example(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "ladder.gemm").write_bytes((ROOT / "examples" / "ladder.gemm").read_bytes())
    assert run(installed / "gemmdsl", "--version", cwd=tmp_path) == f"gemmdsl, version {__version__}\n"
    where = run(installed / "python", "-c", "import gemmdsl; print(gemmdsl.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
    text = run(installed / "gemmdsl", "compile", "ladder.gemm", *EXAMPLE, cwd=tmp_path)
    assert "__global__" in text
    assert text == run(sys.executable, "-m", "gemmdsl", "compile", "ladder.gemm", *EXAMPLE, cwd=tmp_path)
