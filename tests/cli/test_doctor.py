"""What `gemmdsl doctor` says of machines with and without a GPU."""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gemmdsl import doctor
from gemmdsl.cli import group
from gemmdsl.resources import installs
from tests.runtime.conftest import world as world
from tests.runtime.fake import Error, World
from tests.toolchain.test_cubins import FAKE


def call(*words: str) -> Result:
    return CliRunner().invoke(group, ["doctor", *words])


def checks() -> dict[str, Any]:
    result = call("--output-format", "json")
    return {check["name"]: check for check in json.loads(result.stdout)["checks"]}


@pytest.fixture(autouse=True)
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvcc 13.0 and nothing else, and a cache of this test's own."""
    nvcc = tmp_path / "cuda" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(FAKE.format(build="88", log=tmp_path / "log"))
    nvcc.chmod(0o755)
    monkeypatch.setenv("GEMMDSL_CUDA", str(tmp_path / "cuda"))
    monkeypatch.setenv("GEMMDSL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def no_pycuda(monkeypatch: pytest.MonkeyPatch) -> None:
    known = doctor.find_spec
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "pycuda" else known(name))


@pytest.fixture
def pycuda(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    known = doctor.find_spec
    monkeypatch.setattr(doctor, "find_spec", lambda name: name if name == "pycuda" else known(name))
    return world


@pytest.mark.usefixtures("no_pycuda")
def test_without_a_gpu() -> None:
    result = call()
    assert result.exit_code == 0, result.output
    assert f"get it: {installs('gpu')}" in result.output
    assert call("--need", "cuda").exit_code == 2, "ptxas is missing"
    assert call("--need", "gpu").exit_code == 2
    found = checks()
    assert (found["nvcc"]["state"], found["ptxas"]["state"], found["pycuda"]["state"]) == (
        "ok",
        "missing",
        "missing",
    )
    assert "install" in found["ncu"]["mend"]


def test_with_a_gpu(pycuda: World) -> None:
    found = checks()
    assert found["GPU 0"]["found"] == "Fake H200, sm_90, 1 GiB, CUDA 13.0"
    assert "nvcc and driver" not in found
    assert pycuda.retained == 0


def test_a_driver_older_than_the_compiler(pycuda: World) -> None:
    pycuda.driver, pycuda.capability = 12040, (12, 1)
    found = checks()
    assert found["nvcc and driver"]["found"] == "nvcc is of CUDA 13.0, and the driver supports CUDA 12.4"
    assert found["nvcc for the GPU"]["found"] == "nvcc 13.0 does not know sm_121"
    result = call()
    assert result.exit_code == 2
    assert "BAD  nvcc and driver" in result.output


def test_pycuda_without_a_driver(pycuda: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def init() -> None:
        raise Error("no CUDA-capable device is detected")

    monkeypatch.setattr(sys.modules["pycuda.driver"], "init", init)
    assert checks()["driver and GPU"]["state"] == "missing"
    assert call().exit_code == 0
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    assert checks()["driver and GPU"]["state"] == "missing"


@pytest.mark.usefixtures("no_pycuda")
def test_what_the_cpu_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    (tmp_path / "cache").write_text("in the way")
    result = call()
    assert result.exit_code == 2
    assert "set GEMMDSL_CACHE" in result.output
    assert "g++" in result.output


@pytest.mark.usefixtures("no_pycuda")
def test_a_cache_that_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("gemmdsl.doctor.os.scandir", refused)
    cache = checks()["cache"]
    assert cache["state"] == "missing"
    assert "cannot be read: Permission denied" in cache["found"]


@pytest.mark.usefixtures("no_pycuda")
def test_a_compiler_that_is_too_old(tmp_path: Path) -> None:
    nvcc = tmp_path / "cuda" / "bin" / "nvcc"
    nvcc.write_text("#!/bin/sh\necho 'release 11.8, V11.8.1'\n")
    result = call()
    assert result.exit_code == 2
    assert "BAD  nvcc" in result.output


def tool(folder: Path, name: str, script: str) -> None:
    path = folder / "cuda" / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.usefixtures("no_pycuda")
def test_headers_are_compiled(tmp_path: Path) -> None:
    assert "CUDA headers" not in checks(), "there is no ptxas"
    tool(tmp_path, "ptxas", "echo 'release 13.0, V13.0.88'")
    assert checks()["CUDA headers"]["found"] == "a sample with asynchronous copies compiles for sm_80"


@pytest.mark.usefixtures("no_pycuda")
def test_headers_that_are_missing(tmp_path: Path) -> None:
    said = "a.h:53: fatal error: nv/target: No such file or directory"
    answers = """--version) echo 'release 13.0, V13.0.88' ;; --list-gpu-code) echo sm_90 ;;"""
    tool(tmp_path, "nvcc", f'case "$1" in {answers} *) echo "{said}" >&2; exit 1 ;; esac')
    tool(tmp_path, "ptxas", "echo 'release 13.0, V13.0.88'")
    found = checks()["CUDA headers"]
    assert (found["state"], found["found"]) == ("broken", said)
    assert installs("cuda") in found["mend"]
    assert call().exit_code == 2
