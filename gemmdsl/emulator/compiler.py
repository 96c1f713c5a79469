"""Finds the machine's C++ compiler and runs it."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from gemmdsl import cache
from gemmdsl.emulator import errors

Effort = Literal["little", "full"]

# What include/gemm_emulator.h says.
TOO_OLD = "the emulator needs GCC 9, Clang 12 or later"

_NAMES = ("c++", "g++", "clang++")
_TIMEOUT_SECONDS = 300.0

# Only an explicit fmaf may be fused, so that the bits are a GPU's; nothing here may relax that.
_FLAGS = (
    "-std=c++17",
    "-fPIC",
    "-fno-exceptions",
    "-fno-rtti",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    # The text writes vectors of one width and reads the same words as another, which a GPU's compiler allows.
    "-fno-strict-aliasing",
    "-U_FORTIFY_SOURCE",
    # A large frame meets the page below a stack.
    "-fstack-clash-protection",
    "-w",
)
# What a thread with few outputs does is soon compiled, and no faster for more effort.
_EFFORT = {"little": "-O1", "full": "-O2"}
# The C++ library, of which nothing is used, would take longer to look through than all the rest to link.
_LINK_FLAGS = (
    "-shared",
    "-pthread",
    "-Wl,-Bsymbolic,--as-needed,-z,defs,-z,now",
    "-nodefaultlibs",
    "-lm",
    "-lpthread",
    "-lrt",
    "-lc",
    "-lgcc",
)
# Without the first a library with templates can never be unloaded; without the second every use of an unsized
# shared array asks whether it has to be initialised.
_GCC_FLAGS = ("-fno-gnu-unique", "-fno-extern-tls-init")
# A call before every access.  Splitting an array into scalars would hide the width of an access; calls at
# function entries tell us nothing.  Some tools take the file names of later line tables for others.
_CHECKED_FLAGS = ("-DGEMM_EMU_CHECKED", "-fsanitize=thread", "-g1", "-gdwarf-4")
_CHECKED_GCC_FLAGS = ("-fno-tree-sra", "--param=tsan-instrument-func-entry-exit=0")
_CHECKED_CLANG_FLAGS = (
    # Masked accesses of vectors are not shown to the checker, and some releases show it no memset or memcpy.
    "-fno-vectorize",
    "-fno-slp-vectorize",
    "-fno-builtin-memset",
    "-fno-builtin-memcpy",
    "-fno-builtin-memmove",
    "-mllvm",
    "-tsan-instrument-func-entry-exit=0",
    # A read that a write to the same place follows is a read.
    "-mllvm",
    "-tsan-instrument-read-before-write",
)
_NATIVE_FLAGS = {"x86_64": "-march=native", "AMD64": "-march=native", "aarch64": "-mcpu=native"}


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler: the words that call it."""

    command: tuple[str, ...]

    @property
    def name(self) -> str:
        return shlex.join(self.command)

    def identity(self) -> str:
        """Changes when the compiler is exchanged or updated; no process is started for it."""
        parts = [self.name]
        for word in self.command:
            if path := shutil.which(word):
                status = os.stat(path)
                parts.append(f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}")
        return "\n".join(parts)

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        subject: str,
        *,
        effort: Effort = "full",
        hooks: bool = False,
        link: bool = False,
    ) -> None:
        """Compile in `folder`; ToolError when that fails, with `subject` saying what was compiled.

        `arguments` name the file that is made with `-o`.  With `hooks`, the code calls the checker before
        each access; with `link`, a shared library is made.
        """
        flags = (*_flags(self.command, hooks), _EFFORT[effort])
        try:
            done = subprocess.run(
                [*self.command, *flags, *arguments, *_LINK_FLAGS * link],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as stopped:
            raise errors.timed_out(self.name, subject, _TIMEOUT_SECONDS) from stopped
        except OSError as problem:
            raise errors.cannot_start(self.name, problem.strerror or str(problem)) from problem
        if done.returncode != 0:
            messages = done.stderr.strip()
            if "No space left on device" in messages:
                raise cache.no_room(str(folder), "no space left on device")
            if TOO_OLD in messages:
                raise errors.too_old(self.name, TOO_OLD)
            raise errors.refused(self.name, subject, messages)
        if not os.path.isfile(folder / arguments[arguments.index("-o") + 1]):
            raise errors.made_nothing(self.name, subject)


def find() -> Compiler:
    """$CXX when it is set, else the first of c++, g++, clang++; ToolError when there is none."""
    if named := os.environ.get("CXX", "").strip():
        try:
            words = tuple(shlex.split(named))
        except ValueError:
            words = (named,)
        if shutil.which(words[0]) is None:
            raise errors.no_compiler(f"CXX={named}")
        return Compiler(words)
    for name in _NAMES:
        if shutil.which(name) is not None:
            return Compiler((name,))
    raise errors.no_compiler(f"{', '.join(_NAMES)} in PATH")


@lru_cache(maxsize=1)
def processor() -> str:
    """What `-march=native` depends on: a library made for one processor may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    told = {line for line in lines if line.startswith(("flags", "Features", "model name", "CPU part"))}
    return "\n".join([platform.machine(), *sorted(told)])


def recipe() -> str:
    """Everything about the flags that changes what is compiled."""
    common = (_FLAGS, _EFFORT, _LINK_FLAGS, _NATIVE_FLAGS)
    return repr((common, _GCC_FLAGS, _CHECKED_FLAGS, _CHECKED_GCC_FLAGS, _CHECKED_CLANG_FLAGS))


@lru_cache(maxsize=8)
def _flags(command: tuple[str, ...], hooks: bool) -> tuple[str, ...]:
    native = _NATIVE_FLAGS.get(platform.machine())
    clang = _is_clang(command)
    flags = list(_FLAGS)
    # $CXX may name another processor.
    if native and not any(word.startswith(("-march=", "-mcpu=")) for word in command):
        flags.append(native)
    flags += () if clang else _GCC_FLAGS
    if hooks:
        flags += _CHECKED_FLAGS
        flags += _CHECKED_CLANG_FLAGS if clang else _CHECKED_GCC_FLAGS
    return tuple(flags)


def _is_clang(command: tuple[str, ...]) -> bool:
    """False also when the compiler does not start: its run will say why."""
    try:
        told = subprocess.run(
            [*command, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "clang" in told.stdout
