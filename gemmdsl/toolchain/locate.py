"""Finds the tools of the CUDA toolkit: compiler, disassemblers, compute-sanitizer and the profiler ncu.

The places, in order: the folder named by GEMMDSL_CUDA; what the `cuda-pathfinder` package knows, if it is
installed; the toolkit's wheels; CUDA_PATH and CUDA_HOME; PATH; /usr/local/cuda.  Wheels come before the
variables because a wheel was asked for in this very environment, while the variables hold for a whole
machine.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from gemmdsl.toolchain.errors import not_found, too_old
from gemmdsl.toolchain.process import run_tool

ToolName = Literal["nvcc", "ptxas", "cuobjdump", "nvdisasm", "compute-sanitizer", "ncu"]
Version = tuple[int, int]

# The first release with every feature of sm_89 and sm_90.
OLDEST: Version = (12, 0)
_OVERRIDE = "GEMMDSL_CUDA"
_VARIABLES = ("CUDA_PATH", "CUDA_HOME")
# These two count by year; the releases here came with CUDA 12.0.
_OWN_OLDEST: dict[ToolName, Version] = {"compute-sanitizer": (2022, 4), "ncu": (2022, 4)}
_RELEASE = re.compile(r"release (\d+)\.(\d+)")
_OWN_RELEASE = re.compile(r"^Version (\d+)\.(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that was found; `origin` says which of the places it came from.

    `version` is CUDA's, but that of compute-sanitizer and ncu is their own.
    """

    name: ToolName
    path: Path
    version: Version
    origin: str

    @property
    def release(self) -> str:
        """As in 13.0."""
        return _dotted(self.version)


def find_tool(name: ToolName) -> Tool:
    """The first `name` in the places this module lists; ToolError when there is none or it is too old.

    Nothing falls through a tool that is too old to a newer one further down: the user is told instead.
    """
    searched = []
    for origin, path in _candidates(name):
        searched.append(f"{origin} ({path})")
        if os.path.isfile(path) and os.access(path, os.X_OK):
            version = _version(name, path)
            oldest = _OWN_OLDEST.get(name, OLDEST)
            if version is None or version < oldest:
                raise too_old(name, str(path), _dotted(version) if version else "", _dotted(oldest))
            return Tool(name, path, version, origin)
    raise not_found(name, ", ".join(searched))


def _candidates(name: ToolName) -> Iterator[tuple[str, Path]]:
    if override := os.environ.get(_OVERRIDE):
        # A named folder is meant: a typing error in it must not pick another compiler in silence.
        yield _OVERRIDE, Path(override, "bin", name)
        return
    if (path := _pathfinder(name)) is not None:
        yield "cuda-pathfinder", path
    for folder in _wheel_folders():
        yield "wheel", folder / "bin" / name
    for variable in _VARIABLES:
        if root := os.environ.get(variable):
            yield variable, Path(root, "bin", name)
    if found := shutil.which(name):
        yield "PATH", Path(found)
    yield "/usr/local/cuda", Path("/usr/local/cuda/bin", name)


def _pathfinder(name: ToolName) -> Path | None:
    try:
        find = import_module("cuda.pathfinder").find_nvidia_binary_utility
    except (ImportError, AttributeError):
        return None
    found: str | None = find(name)
    return Path(found) if found else None


def _wheel_folders() -> list[Path]:
    """Folders of the toolkit's wheels: one for all (nvidia/cu13), or one each (nvidia/cuda_nvcc)."""
    spec = find_spec("nvidia")
    if spec is None or spec.submodule_search_locations is None:
        return []
    return [
        folder
        for root in spec.submodule_search_locations
        for folder in sorted(Path(root).glob("cu*"), reverse=True)
        if os.path.isdir(folder / "bin")
    ]


def banner(tool: Tool) -> str:
    """What the tool says of itself: release and build."""
    return _banner(tool.path)


@cache
def _banner(path: Path) -> str:
    return run_tool([path, "--version"], timeout=30.0).text


def _version(name: ToolName, path: Path) -> Version | None:
    """Release of the tool at `path`; None when it does not tell."""
    pattern = _OWN_RELEASE if name in _OWN_OLDEST else _RELEASE
    match = pattern.search(_banner(path))
    return (int(match[1]), int(match[2])) if match else None


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
