"""Compiles CUDA C++ text with nvcc: to a cubin with ptxas's report, or to PTX."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gemmdsl.toolchain.errors import no_host_compiler, no_workspace, refused, unsupported_target
from gemmdsl.toolchain.locate import Tool, find_tool
from gemmdsl.toolchain.process import run_tool
from gemmdsl.toolchain.usage import Usage, parse_usage

FLAGS = ("-std=c++17", "-Werror", "all-warnings")
_TIMEOUT = 300.0
_NO_HOST_COMPILER = re.compile(
    r"(gcc|g\+\+|cc1plus|clang\+\+)'?: (No such file|not found)|Failed to preprocess host compiler"
    r"|unsupported (GNU|clang) version|Cannot find compiler"
)
# What a cubin begins with.
_ELF = b"\x7fELF"
# A compiler repeats itself: the first lines say what is wrong.
_MESSAGE_LINES = 30


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code for one target, and what each of its kernels takes; `compiler` as in `nvcc 13.0`."""

    target: str
    data: bytes
    usage: tuple[Usage, ...]
    compiler: str


def compile_cubin(
    text: str, target: str, headers: Mapping[str, str] | None = None, *, line_info: bool = False
) -> Cubin:
    """Compile for `target` (`sm_80`), every warning an error; `headers` are files the text includes by name.

    `line_info` adds a table of source lines, which changes nothing in the code itself.  The same text, target
    and compiler give the same bytes.  ToolError when there is no nvcc of CUDA 12.0 or later, when it does not
    know the target, refuses the text or takes longer than five minutes.
    """
    compiler = compiler_for(target)
    data, report = _compile(
        compiler,
        text,
        target,
        headers or {},
        "cubin",
        ("-Xptxas", "-v", *(("-lineinfo",) if line_info else ())),
    )
    return Cubin(target, data, parse_usage(report), f"nvcc {compiler.release}")


def compile_ptx(text: str, target: str, headers: Mapping[str, str] | None = None) -> str:
    """PTX for `target`; arguments and errors as in `compile_cubin`."""
    data, _ = _compile(compiler_for(target), text, target, headers or {}, "ptx", ())
    return data.decode()


def supported_targets(compiler: Tool) -> frozenset[str]:
    """Targets that an nvcc can make cubins for."""
    return _supported_targets(compiler.path)


@cache
def _supported_targets(path: Path) -> frozenset[str]:
    outcome = run_tool([path, "--list-gpu-code"])
    if outcome.status != 0:
        raise refused("nvcc", "--list-gpu-code", outcome.status, outcome.messages)
    return frozenset(outcome.text.split())


def compiler_for(target: str) -> Tool:
    """The nvcc in use; ToolError when there is none or it does not know the target."""
    compiler = find_tool("nvcc")
    known = supported_targets(compiler)
    if target not in known:
        in_order = sorted(known, key=lambda name: (len(name), name))
        raise unsupported_target(target, f"nvcc {compiler.release}", ", ".join(in_order))
    return compiler


def _compile(
    compiler: Tool,
    text: str,
    target: str,
    headers: Mapping[str, str],
    kind: str,
    flags: tuple[str, ...],
) -> tuple[bytes, str]:
    """Content of the file that nvcc makes with -`kind`, and what it said."""
    with workspace() as folder:
        for name, content in {**headers, "kernel.cu": text}.items():
            (folder / name).write_text(content, encoding="utf-8", newline="")
        # Plain names, as nvcc leaves the names it is given in its output.
        words = (f"-{kind}", f"-arch={target}", *FLAGS, *flags, "kernel.cu", "-o", f"kernel.{kind}")
        outcome = run_tool((compiler.path, *words), folder, _TIMEOUT)
        said = outcome.messages + outcome.text
        if outcome.status != 0:
            shown = "\n".join(said.strip().splitlines()[:_MESSAGE_LINES])
            if _NO_HOST_COMPILER.search(said):
                raise no_host_compiler(shown)
            raise refused("nvcc", f"the CUDA text for {target}", outcome.status, shown)
        made = folder / f"kernel.{kind}"
        data = made.read_bytes() if made.exists() else b""
        if not data or (kind == "cubin" and not data.startswith(_ELF)):
            raise refused("nvcc", f"the CUDA text for {target}", outcome.status, f"{said}it made no {kind}")
        return data, said


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder for a tool's files that is gone afterwards; ToolError when there is no place for one."""
    try:
        made = tempfile.TemporaryDirectory(prefix="gemmdsl-", ignore_cleanup_errors=True)
    except OSError as problem:
        raise no_workspace(problem.strerror or str(problem)) from problem
    with made as name:
        yield Path(name)
