"""Where tools are looked for, with toolkits made of shell scripts."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from gemmdsl.toolchain import ToolError, find_tool, locate
from gemmdsl.toolchain.locate import ToolName

VERSION = "Cuda compilation tools, release {}, V{}.48"


def toolkit(root: Path, release: str, name: str = "nvdisasm") -> Path:
    """A toolkit folder with one tool that tells its release and nothing else."""
    (root / "bin").mkdir(parents=True)
    path = root / "bin" / name
    path.write_text(f"#!/bin/sh\necho '{VERSION.format(release, release)}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable, no wheel, no pathfinder; /usr/local/cuda stays, last of all."""
    for variable in ("GEMMDSL_CUDA", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(locate, "find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)


def code(caught: pytest.ExceptionInfo[ToolError]) -> str:
    return caught.value.diagnostics[0].code


def test_each_place_gives_way_to_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = toolkit(tmp_path / "path", "12.1")
    monkeypatch.setenv("PATH", f"{on_path.parent}:/usr/bin:/bin")
    tool = find_tool("nvdisasm")
    assert (tool.path, tool.version, tool.release, tool.origin) == (on_path, (12, 1), "12.1", "PATH")

    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert find_tool("nvdisasm").path == on_path, "a variable that leads nowhere is passed over"
    in_home = toolkit(tmp_path / "home", "12.2")
    assert find_tool("nvdisasm").path == in_home

    in_cuda_path = toolkit(tmp_path / "cuda_path", "12.3")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "cuda_path"))
    assert find_tool("nvdisasm").path == in_cuda_path

    wheel = toolkit(tmp_path / "nvidia" / "cu13", "13.0")
    spec = ModuleSpec("nvidia", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "nvidia")]
    monkeypatch.setattr(locate, "find_spec", lambda _: spec)
    assert (find_tool("nvdisasm").path, find_tool("nvdisasm").origin) == (wheel, "wheel")

    pathfinder = ModuleType("cuda.pathfinder")
    known = toolkit(tmp_path / "known", "13.1")
    vars(pathfinder)["find_nvidia_binary_utility"] = {"nvdisasm": str(known)}.get
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", pathfinder)
    assert (find_tool("nvdisasm").path, find_tool("nvdisasm").origin) == (known, "cuda-pathfinder")

    override = toolkit(tmp_path / "override", "12.9")
    monkeypatch.setenv("GEMMDSL_CUDA", str(tmp_path / "override"))
    assert find_tool("nvdisasm").path == override


def test_a_named_folder_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = toolkit(tmp_path / "path", "12.1")
    monkeypatch.setenv("PATH", f"{on_path.parent}:/usr/bin:/bin")
    monkeypatch.setenv("GEMMDSL_CUDA", str(tmp_path / "mistyped"))
    with pytest.raises(ToolError, match="nvdisasm was not found") as caught:
        find_tool("nvdisasm")
    assert code(caught) == "G901"
    assert str(tmp_path / "mistyped") in str(caught.value)


@pytest.mark.parametrize("release", ["11.8", "9.2"])
def test_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    toolkit(tmp_path, release)
    monkeypatch.setenv("GEMMDSL_CUDA", str(tmp_path))
    with pytest.raises(ToolError, match=f"is of CUDA {release}; nvdisasm of CUDA 12.0 or later") as caught:
        find_tool("nvdisasm")
    assert code(caught) == "G902"


@pytest.mark.parametrize("name", ["compute-sanitizer", "ncu"])
def test_tools_that_count_by_year(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: ToolName) -> None:
    toolkit(tmp_path, "13.0", name)
    for version in ("2025.3", "2022.3"):
        path = tmp_path / version / "bin" / name
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\necho 'NVIDIA tool'\necho 'Version {version}.0.0 (build 1)'\n")
        path.chmod(0o755)
    monkeypatch.setenv("GEMMDSL_CUDA", str(tmp_path / "2025.3"))
    assert (find_tool(name).version, find_tool(name).release) == ((2025, 3), "2025.3")
    monkeypatch.setenv("GEMMDSL_CUDA", str(tmp_path / "2022.3"))
    with pytest.raises(ToolError, match=rf"is of 2022.3; {name} of 2022.4 or later is needed"):
        find_tool(name)
    monkeypatch.setenv("GEMMDSL_CUDA", str(tmp_path))
    with pytest.raises(ToolError, match="does not tell its release"):
        find_tool(name)
    monkeypatch.setenv("GEMMDSL_CUDA", str(tmp_path / "nowhere"))
    with pytest.raises(ToolError, match=f"{name} was not found") as caught:
        find_tool(name)
    assert "install" in str(caught.value)


def test_a_tool_that_does_not_tell_its_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit(tmp_path, "?")
    monkeypatch.setenv("GEMMDSL_CUDA", str(tmp_path))
    with pytest.raises(ToolError, match="does not tell its release") as caught:
        find_tool("nvdisasm")
    assert code(caught) == "G902"


def test_a_tool_that_cannot_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit(tmp_path, "12.0").write_bytes(b"\x7fELF of another machine")
    monkeypatch.setenv("GEMMDSL_CUDA", str(tmp_path))
    with pytest.raises(ToolError, match=r"cannot run .*Exec format error") as caught:
        find_tool("nvdisasm")
    assert code(caught) == "G903"
