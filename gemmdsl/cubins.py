"""Cubins from the user's cache, compiled when they are not there.

A file's name is made of the text, the target, the flags and what nvcc says of itself, so that another build
of the same release is another compiler.  The file tells registers and spills too, and its own checksum.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from gemmdsl import cache
from gemmdsl.toolchain.locate import banner, find_tool
from gemmdsl.toolchain.nvcc import FLAGS, Cubin, compile_cubin
from gemmdsl.toolchain.usage import Usage

_FORMAT = "gemmdsl cubin 1"


def cached_cubin(text: str, target: str, *, line_info: bool = False) -> Cubin:
    """What `compile_cubin` gives for the same arguments, from the cache if it was compiled before.

    Safe with many processes; a damaged file is made again; where the cache cannot be written, nothing is
    kept.  ToolError as `compile_cubin`, and when there is no room.
    """
    compiler = find_tool("nvcc")
    flags = repr((*FLAGS, "-lineinfo") if line_info else FLAGS)
    name = f"{cache.key(_FORMAT, text, target, flags, banner(compiler))}.cubin"
    if found := cache.find("cubin", name):
        if (cubin := _read(found)) is not None:
            return cubin
        cache.forget(found)
    cubin = compile_cubin(text, target, line_info=line_info)

    def make(work: Path) -> Path:
        made = work / "cubin"
        try:
            made.write_bytes(_packed(cubin))
        except OSError as problem:
            raise cache.no_room(str(work), problem.strerror or str(problem)) from problem
        return made

    cache.put("cubin", name, make)
    return cubin


def _packed(cubin: Cubin) -> bytes:
    """One line of JSON, then the machine code."""
    head = {
        "format": _FORMAT,
        "target": cubin.target,
        "compiler": cubin.compiler,
        "sha256": sha256(cubin.data).hexdigest(),
        "usage": [asdict(usage) for usage in cubin.usage],
    }
    return json.dumps(head).encode() + b"\n" + cubin.data


def _read(path: Path) -> Cubin | None:
    """The cubin in a file; None when the file is damaged or gone."""
    try:
        line, _, data = path.read_bytes().partition(b"\n")
        head = json.loads(line)
        if head["format"] != _FORMAT or head["sha256"] != sha256(data).hexdigest():
            return None
        usage = tuple(Usage(**row) for row in head["usage"])
        return Cubin(head["target"], data, usage, head["compiler"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
