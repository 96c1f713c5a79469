"""Looks at everything gemmdsl can use on this machine: what is there, what is missing, what mends it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import Literal

from gemmdsl import cache
from gemmdsl.diagnostics import GemmError
from gemmdsl.emulator.errors import NO_COMPILER
from gemmdsl.resources import installs
from gemmdsl.runtime.errors import NO_GPU, NO_PYCUDA
from gemmdsl.target import TARGETS
from gemmdsl.toolchain import compile_cubin, find_tool, supported_targets
from gemmdsl.toolchain.errors import NOT_FOUND
from gemmdsl.toolchain.locate import ToolName
from gemmdsl.version import __version__

State = Literal["ok", "missing", "broken"]
Group = Literal["basis", "cuda", "gpu", "extras"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing: whether it is there and works; `found` is what was found, `use` what it is for, `mend` the
    command or step that gets it."""

    group: Group
    name: str
    state: State
    found: str
    use: str
    mend: str = ""


_MISSING = (NOT_FOUND, NO_COMPILER, NO_PYCUDA, NO_GPU)

# Package, what it is for, and what installs it.
_EXTRAS = (
    ("cuda-bindings", "streams of torch and cupy; CUDA graphs in bench", installs("gpu")),
    ("cuda-pathfinder", "finding the toolkit in more places", "pip install cuda-pathfinder"),
    ("torch", "cuBLAS to compare with in bench", "pip install torch"),
    ("cupy", "cuBLAS to compare with in bench, if torch is missing", "pip install cupy-cuda13x"),
    ("matplotlib", "plots of bench", installs("plot")),
)
_TOOLS: tuple[tuple[ToolName, Group, str], ...] = (
    ("nvcc", "cuda", "cubins and PTX; everything on a GPU"),
    ("ptxas", "cuda", "cubins"),
    ("nvdisasm", "cuda", "reading machine code"),
    ("cuobjdump", "cuda", "reading machine code"),
    ("compute-sanitizer", "gpu", "gemmdsl test --device gpu --sanitize"),
    ("ncu", "gpu", "hardware counters"),
)


# The widest demand that emitted text makes on a toolkit: the runtime's headers, and those of asynchronous
# copies with all that they include.
_SAMPLE = """\
#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>
extern "C" __global__ void sample() { __pipeline_commit(); }
"""


def examine() -> tuple[Check, ...]:
    """All checks, in the order in which a person would mend things."""
    tools = map(_tool, _TOOLS)
    return (_python(), _host_compiler(), _cache(), *tools, *_headers(), *_gpu(), *map(_extra, _EXTRAS))


def healthy(checks: tuple[Check, ...], groups: frozenset[Group]) -> bool:
    """Whether nothing of these groups is missing, and nothing at all is broken."""
    return not any(
        check.state == "broken" or (check.state == "missing" and check.group in groups) for check in checks
    )


def _python() -> Check:
    found = f"gemmdsl {__version__}, Python {sys.version.split()[0]}"
    return Check("basis", "gemmdsl", "ok", found, "everything")


def _host_compiler() -> Check:
    from gemmdsl.emulator import compiler

    return _tried("basis", "C++ compiler", "running and testing on the CPU", lambda: compiler.find().name)


def _cache() -> Check:
    use = "compiling each kernel only once"
    place = cache.location()
    mend = "set GEMMDSL_CACHE to a folder that can be written"
    if place is None:
        return Check("basis", "cache", "missing", "there is no home folder", use, mend)
    kinds: tuple[cache.Kind, ...] = ("emulator", "cubin")
    if any(cache.folder(kind) is None for kind in kinds):
        return Check("basis", "cache", "missing", f"{place} cannot be written", use, mend)
    try:
        files = [
            entry.stat().st_size
            for kind in kinds
            for entry in os.scandir(place / kind)
            if entry.is_file(follow_symlinks=False)
        ]
    except OSError as problem:
        return Check("basis", "cache", "missing", f"{place} cannot be read: {problem.strerror}", use, mend)
    return Check("basis", "cache", "ok", f"{place}: {len(files)} files, {sum(files) / 2**20:.1f} MiB", use)


def _tool(row: tuple[ToolName, Group, str]) -> Check:
    name, group, use = row

    def find() -> str:
        tool = find_tool(name)
        return f"{tool.release} at {tool.path} (from {tool.origin})"

    return _tried(group, name, use, find)


def _headers() -> Iterator[Check]:
    """Whether the compiler that was found can make machine code; nothing when none was found."""
    try:
        known = supported_targets(find_tool("nvcc"))
        find_tool("ptxas")
    except GemmError:
        # Their own checks tell it.
        return
    target = next((row.name for row in TARGETS.values() if row.async_copy and row.name in known), None)
    if target is None:
        return
    name, use = "CUDA headers", "cubins and PTX; asynchronous copies"
    try:
        compile_cubin(_SAMPLE, target)
    except GemmError as problem:
        finding = problem.diagnostics[0]
        notes = {note.label: note.text for note in finding.notes}
        said = next((line for line in notes.get("it said", "").splitlines() if "error" in line), "")
        mend = notes.get("help", f"{installs('cuda')}, or install the whole CUDA toolkit")
        yield Check("cuda", name, "broken", said or finding.message, use, mend)
    else:
        yield Check("cuda", name, "ok", f"a sample with asynchronous copies compiles for {target}", use)


def _tried(group: Group, name: str, use: str, find: Callable[[], str]) -> Check:
    """The check that a failing search makes, with its own advice."""
    try:
        return Check(group, name, "ok", find(), use)
    except GemmError as problem:
        finding = problem.diagnostics[0]
        missing = finding.code in _MISSING
        mend = next((note.text for note in finding.notes if note.label == "help"), "")
        return Check(group, name, "missing" if missing else "broken", finding.message, use, mend)


def _gpu() -> Iterator[Check]:
    """pycuda, the driver and each device; then whether compiler, driver and device go together."""
    from gemmdsl.runtime.device import Gpu, driver

    use = "running, testing and timing on a GPU"
    if find_spec("pycuda") is None:
        mend = installs("gpu")
        yield Check("gpu", "pycuda", "missing", "pycuda is not installed", use, mend)
        return
    opened = _tried("gpu", "driver and GPU", use, lambda: str(driver().Device.count()))
    if opened.state != "ok":
        yield opened
        return
    yield Check("gpu", "pycuda", "ok", _version("pycuda"), use)
    for index in range(int(opened.found)):
        with Gpu(index) as gpu:
            limits = gpu.limits
        found = f"{limits.name}, {limits.target}, {limits.memory / 2**30:.0f} GiB, CUDA {limits.release}"
        yield Check("gpu", f"GPU {index}", "ok", found, use)
        yield from _fit(index, limits.target, limits.driver)


def _fit(index: int, target: str, supported: tuple[int, int]) -> Iterator[Check]:
    """What keeps the compiler's code from running on a device; nothing when they fit."""
    try:
        nvcc = find_tool("nvcc")
        known = supported_targets(nvcc)
    except GemmError:
        # Its own check tells it.
        return
    use = f"running kernels on GPU {index}"
    if target not in known:
        found = f"nvcc {nvcc.release} does not know {target}"
        yield Check("gpu", "nvcc for the GPU", "broken", found, use, "install a CUDA toolkit that does")
    if nvcc.version[0] > supported[0]:
        found = f"nvcc is of CUDA {nvcc.release}, and the driver supports CUDA {supported[0]}.{supported[1]}"
        mend = "install a newer driver, or an older toolkit and set GEMMDSL_CUDA"
        yield Check("gpu", "nvcc and driver", "broken", found, use, mend)


def _extra(row: tuple[str, str, str]) -> Check:
    package, use, mend = row
    module = package.replace("cuda-", "cuda.")
    try:
        there = find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):
        there = False
    if not there:
        return Check("extras", package, "missing", "not installed", use, mend)
    return Check("extras", package, "ok", _version(package), use)


def _version(package: str) -> str:
    """The version as installed; a package of another name can bring a module (cupy-cuda13x brings cupy)."""
    names = metadata.packages_distributions().get(package, [package])
    try:
        return metadata.version(names[0])
    except metadata.PackageNotFoundError:
        return "installed"
