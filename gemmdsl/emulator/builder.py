"""Makes a shared library of emitted CUDA text: the text unchanged, the emulator, and a call per entry point.

kernel.cu   the text
host.cpp    includes it; defines the unsized shared array; exports a call for every kernel
emulator.o  fibers, barriers, copies; the same for every kernel
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from gemmdsl import cache
from gemmdsl.cuda_source import CudaSource, LaunchPlan, SharedStages
from gemmdsl.diagnostics import GemmError
from gemmdsl.emulator import compiler, errors
from gemmdsl.emulator.compiler import Compiler, Effort
from gemmdsl.target import KIB

_HERE = Path(__file__).parent
_INCLUDE = _HERE / "include"
_SOURCES = _HERE / "src"
_UNIT = "host.cpp"

# More than any target has, so that a launch beyond a target's limit is refused and not cut short.
_DYNAMIC_SHARED_BYTES = 256 * KIB
# Of a thread.
_FEW_OUTPUTS = 4
_UNSIZED_SHARED = re.compile(r"\bextern\b[^;{}]*\b__shared__\b[^;{}]*?\b(\w+)\s*\[\s*\]\s*;")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)

Loaded = TypeVar("Loaded")


def call_name(kernel: str) -> str:
    """C name of the function that runs one kernel on a grid of the caller's choice."""
    return f"gemm_emu_run_{kernel}"


def build(
    source: CudaSource, load: Callable[[Path], Loaded], *, cached: bool = True, checked: bool = False
) -> Loaded:
    """`load` a shared library made of `source`, compiled now or found in the cache; with the checker or not.

    Without a cache the library is gone from the disk when this returns, so `load` has to open it.
    `load` raises OSError for a damaged file, which is then made again.  ToolError when there is no
    compiler, it does not accept the text, or there is no room.
    """
    tool = compiler.find()
    unit = host_unit(source)
    name = f"{_key(tool, _variant(checked), source.text, unit)}.so"

    def make(work: Path) -> Path:
        return _compile(tool, source, unit, work, checked)

    if cached and (found := cache.find("emulator", name)):
        try:
            return load(found)
        except OSError:
            cache.forget(found)
    if cached and (made := cache.put("emulator", name, make)):
        # Another process that cleans the cache may have been faster.
        try:
            return load(made)
        except OSError as problem:
            if os.path.exists(made):
                raise errors.cannot_load(str(made), str(problem)) from problem
    with cache.work_folder() as work:
        made = make(work)
        try:
            return load(made)
        except OSError as problem:
            raise errors.cannot_load(str(made), str(problem)) from problem


def export(source: CudaSource) -> bytes:
    """A shared library for programs in any language: it exports the launcher and needs nothing but libc.

    Beside the launcher there is `const char* <launcher>_message(void)`: why the calling thread's last launch
    failed.  ToolError when there is no compiler, it does not accept the text, or there is no room.
    """
    tool = compiler.find()
    launcher = source.plan.launcher
    message = f"{launcher}_message"
    unit = "\n".join(
        [
            *_dynamic_shared(source.text),
            f'extern "C" const char* gemm_emu_message();\nextern "C" const char* {message}() {{',
            "    return gemm_emu_message();\n}\n",
        ]
    )
    with cache.work_folder() as work:
        exports = f"{{ global: {launcher}; {message}; local: *; }};\n"
        _write(work, {"kernel.cu": source.text, _UNIT: unit, "exports": exports})
        inputs = ["-I", str(_INCLUDE), "-Wl,--version-script=exports,-s", "-o", "library.so", _UNIT]
        emulator = _emulator_object(tool, work, checked=False)
        tool.run([*inputs, str(emulator)], work, f"{launcher} for the CPU", link=True)
        return (work / "library.so").read_bytes()


def host_unit(source: CudaSource) -> str:
    """The C++ file around the emitted text."""
    plan, text = source.plan, source.text
    lines = _dynamic_shared(text) + _stages(source.shared, plan, text)
    for kernel, parameters in plan.kernels:
        declared = ", ".join(f"{parameter.ctype} {parameter.name}" for parameter in parameters)
        arguments = ", ".join(parameter.name for parameter in parameters)
        lines += [
            f'extern "C" int {call_name(kernel)}(unsigned across, unsigned along, unsigned threads,'
            f" size_t shared, {declared}) {{",
            # The launcher asks for more than 48 KB by itself; here the plan is followed without it.
            f"    cudaFuncSetAttribute({kernel}, cudaFuncAttributeMaxDynamicSharedMemorySize,"
            " static_cast<int>(shared));",
            f"    return gemm_emu::launch_kernel({kernel}, {{across, along, 1}}, {{threads, 1, 1}}, shared,"
            f" {arguments});",
            "}",
        ]
    return "\n".join(lines) + "\n"


def _dynamic_shared(text: str) -> list[str]:
    """The text, and memory for the unsized shared array that it may declare."""
    lines = ['#include "kernel.cu"', "#include <cuda_runtime.h>"]
    lines.append('extern "C" int64_t gemm_emu_dynamic_shared_bytes __attribute__((visibility("hidden")));')
    arrays = sorted(set(_UNSIZED_SHARED.findall(_COMMENT.sub(" ", text))))
    lines.append(f"int64_t gemm_emu_dynamic_shared_bytes = {_DYNAMIC_SHARED_BYTES if arrays else 0};")
    if arrays:
        lines.append(
            'extern "C" __attribute__((visibility("hidden"), aligned(1024)))'
            f" thread_local char gemm_emu_dynamic_shared[{_DYNAMIC_SHARED_BYTES}] = {{}};"
        )
    # All unsized arrays of a kernel start at the same place.
    lines += [
        f'__asm__(".globl {array}\\n.hidden {array}\\n.set {array}, gemm_emu_dynamic_shared");'
        for array in arrays
    ]
    return lines


def _stages(shared: SharedStages | None, plan: LaunchPlan, text: str) -> list[str]:
    """The arrays in shared memory, measured by the compiler: of a text that was edited, as they are there.

    Nothing is said of them when the text no longer has what `shared` names.
    """
    hidden = '__attribute__((visibility("hidden")))'
    declared = f'extern "C" {hidden} const gemm_emu::StageLayout gemm_emu_stages = {{'
    code = _COMMENT.sub(" ", text)
    if shared is None or not _has_stages(shared, code):
        return [f"{declared}}};"]
    struct = shared.struct
    arrays = [
        f'    {{"{array.name}", offsetof({struct}, {array.name}),'
        f" sizeof({struct}::{array.name}) / sizeof({struct}::{array.name}[0]), {array.columns},"
        f" sizeof({struct}::{array.name}[0]) / sizeof(float)}},"
        for array in shared.arrays
    ]
    dynamic = int(plan.dynamic_shared_bytes > 0)
    return [
        f'{declared}"{shared.variable}", {dynamic}, {int(bool(shared.slots))}, {shared.slots or 1},'
        f" sizeof({struct}), {len(arrays)}, {{",
        *arrays,
        "}};",
    ]


def _has_stages(shared: SharedStages, code: str) -> bool:
    struct = re.search(rf"\bstruct\s+{shared.struct}\s*\{{([^}}]*)\}}", code)
    if struct is None:
        return False
    members = all(re.search(rf"\b{array.name}\s*\[[^;]*\]\s*\[", struct[1]) for array in shared.arrays)
    sizes = [array.columns for array in shared.arrays] + [shared.slots] * bool(shared.slots)
    return members and all(re.search(rf"\bconstexpr\s+int\s+{size}\b", code) for size in sizes)


def _compile(tool: Compiler, source: CudaSource, unit: str, work: Path, checked: bool) -> Path:
    """Compile in `work`, where the library then lies."""
    _write(work, {"kernel.cu": source.text, _UNIT: unit})
    library = work / "kernel.so"
    subject = f"{source.plan.launcher} for the CPU"

    plan = source.plan
    outputs = plan.block_m * plan.block_n // max(1, plan.threads)
    effort: Effort = "little" if outputs <= _FEW_OUTPUTS else "full"
    include = ["-I", str(_INCLUDE)]
    host = _UNIT
    if checked:
        # Apart from linking, which would add the sanitizer's own library.
        tool.run([*include, "-c", "-o", "host.o", host], work, subject, effort=effort, hooks=True)
        host = "host.o"

    def link(emulator: Path) -> None:
        inputs = [*include, "-o", library.name, host, str(emulator)]
        tool.run(inputs, work, subject, effort=effort, link=True)

    emulator = _emulator_object(tool, work, checked)
    try:
        link(emulator)
    except GemmError as problem:
        if emulator.name not in str(problem):
            raise
        cache.forget(emulator)
        link(_emulator_object(tool, work, checked))
    return library


def _write(work: Path, files: Mapping[str, str]) -> None:
    try:
        for name, text in files.items():
            (work / name).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise cache.no_room(str(work), problem.strerror or str(problem)) from problem


def _emulator_object(tool: Compiler, work: Path, checked: bool) -> Path:
    """The compiled emulator, from the cache where there is one, else made in `work`."""
    name = f"{_key(tool, _variant(checked))}.o"

    def make(folder: Path) -> Path:
        made = folder / "emulator.o"
        checker = ["-DGEMM_EMU_CHECKED"] if checked else []
        tool.run(
            [
                "-fvisibility=hidden",
                "-I",
                str(_INCLUDE),
                "-pthread",
                *checker,
                "-c",
                "-o",
                made.name,
                str(_SOURCES / "emulator.cpp"),
            ],
            folder,
            "the emulator",
        )
        return made

    return cache.find("emulator", name) or cache.put("emulator", name, make) or make(work)


def _variant(checked: bool) -> str:
    return "checked" if checked else "plain"


def _key(tool: Compiler, *texts: str) -> str:
    return cache.key(_own_sources(), compiler.recipe(), tool.identity(), compiler.processor(), *texts)


@lru_cache(maxsize=1)
def _own_sources() -> str:
    files = sorted([*_INCLUDE.iterdir(), *_SOURCES.iterdir()])
    return "\n".join(f"{file.name}\n{file.read_text(encoding='utf-8')}" for file in files)
