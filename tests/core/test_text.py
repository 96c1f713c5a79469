"""The emitted text as a reader takes it: nothing in it is unused, no line is too long, edits are checked."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import gemmdsl
from gemmdsl.api import compile_spec
from gemmdsl.emit.functions import Parameter, names_in
from gemmdsl.emit.wrapping import WIDTH, tidy
from gemmdsl.emulator.causes import function_at
from gemmdsl.spec import Spec
from gemmdsl.testing import specs
from gemmdsl.verifier.names import TAKEN
from tests import examples

_HEAD = re.compile(
    r"(?:template <(?P<flags>[^>]*)>\s*)?"
    r"(?P<kind>extern \"C\" __global__ void __launch_bounds__\([^)]*\)|__device__ __forceinline__ \w+)\s+"
    r"(?P<name>\w+)\((?P<parameters>[^{]*)\) \{"
)


@dataclass(frozen=True)
class Found:
    """A function of the device side as it stands in the text."""

    name: str
    flags: tuple[str, ...]
    parameters: tuple[str, ...]
    body: str
    entry: bool


def functions(text: str) -> Iterator[Found]:
    for head in _HEAD.finditer(text):
        end, depth = head.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        declared = re.split(r",\s+(?![^<]*>)", head["parameters"])
        yield Found(
            head["name"],
            tuple(part.split()[-1] for part in (head["flags"] or "").split(", ") if part),
            tuple(Parameter(part.strip()).name for part in declared),
            text[head.end() : end],
            "__global__" in head["kind"],
        )


def code(file: str, schedule: str) -> str:
    """The text without its comments."""
    return re.sub(r"//[^\n]*", "", examples.kernel(file, schedule).source)


@pytest.mark.parametrize(("file", "schedule"), examples.schedules())
def test_nothing_in_the_text_is_unused(file: str, schedule: str) -> None:
    """Parameters of entries are those of the launch plan, which are the same for all of them."""
    text = code(file, schedule)
    found = list(functions(text))
    assert len(found) == len(re.findall(r"__device__ __forceinline__|__global__", text))
    for function in found:
        signature = " ".join(re.findall(rf"{function.name}\((.*?)\) \{{", text, re.DOTALL))
        used = names_in(function.body)
        if not function.entry:
            assert set(function.parameters) <= used, function.name
            assert names_in(text.replace(signature, "")) >= {function.name}
        assert set(function.flags) <= used | names_in(signature), function.name
        for local in re.findall(r"^ +const \w+[ *&]+(\w+) =", function.body, re.MULTILINE):
            assert len(re.findall(rf"\b{local}\b", function.body)) > 1, (function.name, local)
    for constant in re.findall(r"^constexpr int (\w+)", text, re.MULTILINE):
        assert len(re.findall(rf"\b{constant}\b", text)) > 1, constant
    names = [function.name for function in found if not function.entry]
    assert all(len(re.findall(rf"\b{name}\b", text)) > 1 for name in names)


@pytest.mark.parametrize(("file", "schedule"), examples.schedules())
def test_the_text_is_laid_out(file: str, schedule: str) -> None:
    kernel = examples.kernel(file, schedule)
    for text in (kernel.source, kernel.header, kernel.main):
        lines = text.splitlines()
        assert max(map(len, lines)) <= WIDTH
        for before, line in pairwise(lines):
            assert not before.endswith("("), before
            # A comment on a function stands apart from what is before it.
            assert not (line.startswith("// ") and before == "}"), line


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("  if (!(" + " && ".join(f"condition_{i:02}" for i in range(12)) + ")) {", 3),
        ("  const bool found = " + " && ".join(f"condition_{i:02}" for i in range(9)) + ";", 2),
        ("    call(&to[i], &tile[" + " + ".join(f"summand_{i:02}" for i in range(14)) + "]);", 4),
    ],
)
def test_long_conditions_go_on_behind_an_operator(line: str, wanted: int) -> None:
    lines = tidy(line).splitlines()
    assert len(lines) == wanted
    assert all(len(each) <= WIDTH for each in lines)
    assert "".join(each.strip() for each in lines).replace(" ", "") == line.replace(" ", "")


# Edits of one constant that leave the rest of the text wrong.
EDITS = [
    ("fast.gemm", "fast_90", "BLOCK_K", 12, "step by whole rows"),
    ("fast.gemm", "fast_90", "BLOCK_K", 6, "step by whole rows"),
    ("fast.gemm", "fast_90", "BLOCK_K", 9, "take turns"),
    ("fast.gemm", "fast_90", "BLOCK_M", 256, "step from row to row"),
    ("fast.gemm", "fast_90", "WARP_M", 32, "lanes cover"),
    ("fast.gemm", "fast_90", "LANES_M", 8, "lanes"),
    ("fast.gemm", "fast_90", "PIECE_M", 2, "stay in a piece"),
    ("fast.gemm", "fast_90", "PIECE_N", 3, "whole pieces"),
    ("fast.gemm", "fast_90", "COPY_STEP", 7, "one of the loop"),
    ("fast.gemm", "fast_90", "A_PAD", 1, "keep vectors aligned"),
    ("fast.gemm", "fast_90", "A_VECTOR", 4, "factors of 1"),
    ("shapes.gemm", "row", "BLOCK_M", 2, "factors of 1"),
    ("split.gemm", "skinny", "WARP_N", 32, "lanes cover"),
    ("ladder.gemm", "v3_2", "BLOCK_K", 12, "step by whole rows"),
    ("ladder.gemm", "v1_shared", "BLOCK_K", 6, "evenly"),
    ("swizzle.gemm", "swizzled", "BLOCK_K", 12, "step by whole rows"),
]


@pytest.mark.parametrize(("file", "schedule", "constant", "value", "message"), EDITS)
def test_an_edit_that_breaks_the_text_is_refused(
    file: str, schedule: str, constant: str, value: int, message: str, tmp_path: Path
) -> None:
    """Sizes are edited as well, so that nothing else tells; any C++ compiler can say so."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    text = examples.kernel(file, schedule).source
    constants = "\n".join(re.findall(r"^(?:constexpr int|static_assert\((?!sizeof)).*?;", text, re.M | re.S))
    changed = re.sub(rf"\b{constant} = [^;]*;", f"{constant} = {value};", constants)
    assert changed != constants
    (tmp_path / "right.cpp").write_text(constants)
    (tmp_path / "edited.cpp").write_text(changed)
    command = [compiler, "-std=c++17", "-fsyntax-only"]
    assert subprocess.run([*command, tmp_path / "right.cpp"], check=False).returncode == 0
    refused = subprocess.run([*command, tmp_path / "edited.cpp"], capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert message in refused.stderr


ASSUMING = """gemm 1
problem p {{
  A: f32[M, K]
  B: f32[K, N]
  C: f32[M, N] = A @ B
}}
schedule s for p on sm_90 {{
  block 16 x 32 x 8
  thread 2 x 2
  stage A {{ vector 2 }}
  stage B {{ vector 4 }}
  buffers 2 async
  {assume}
}}
"""


@pytest.mark.parametrize(
    ("assume", "condition", "check"),
    [
        ("", "const bool vectors = K % A_VECTOR == 0 && N % B_VECTOR == 0 &&", ""),
        ("assume N % 4 == 0", "if (!(N % B_VECTOR == 0))", ""),
        ("assume N % 12 == 0", "if (!(N % 12 == 0))", "12 % B_VECTOR == 0"),
        ("assume M % 48 == 0", "if (!(M % 48 == 0))", "48 % BLOCK_M == 0"),
    ],
)
def test_conditions_change_with_the_constants_that_need_them(assume: str, condition: str, check: str) -> None:
    """An edited width asks for extents of its own: an asynchronous copy looks at no single element."""
    text = gemmdsl.loads(ASSUMING.format(assume=assume)).compile().source
    assert condition in text
    if check:
        assert f"static_assert({check}, " in text


def test_a_multiple_of_1_is_no_condition() -> None:
    text = examples.kernel("shapes.gemm", "row").source
    assert "// Requires N % 512 == 0; K % 8 == 0; B, C at" in text
    assert "M % 1 " not in text


# Functions that move data for whoever calls them, whose words are those of the caller.
HELPERS = {"offset", "wrap", "move", "load_global", "store_global", "add", "add_global", "copy_global_async"}


@pytest.mark.parametrize(("file", "schedule"), examples.schedules())
def test_every_function_leads_back_to_words_of_the_schedule(file: str, schedule: str) -> None:
    source = examples.kernel(file, schedule).cuda
    found = [function.name for function in functions(source.text)]
    assert set(found) - HELPERS - {"multiply"} <= {origin.function for origin in source.origins}
    for name in found:
        line = source.text[: re.search(rf"\b{name}\(", source.text).end()].count("\n") + 1  # type: ignore[union-attr]
        assert function_at(source.text, line) == name


@pytest.mark.parametrize(("file", "schedule"), examples.schedules())
def test_the_verifier_knows_every_name_of_the_text(file: str, schedule: str) -> None:
    """So that no value of a kernel goes by a name that its functions use for something else."""
    text = code(file, schedule)
    values = {"thread_row", "thread_col", "warp", "lane", "slot", "free_slot", "part_ld", "part_floats"}
    for function in functions(text):
        declared = re.findall(
            r"\b(?:int|float|float\*|int64_t|bool) (?:const )?(\w+)(?= =|\[|;)", function.body
        )
        own = {*declared, *function.parameters, *function.flags} - values
        if not function.entry and function.name not in HELPERS:
            assert {name for name in own if not name.startswith("group_")} <= TAKEN


@settings(max_examples=80, suppress_health_check=list(HealthCheck), derandomize=True)
@given(specs())
def test_checks_speak_of_constants_that_the_text_has(spec: Spec) -> None:
    text = compile_spec(spec).text
    declared = set(re.findall(r"^constexpr int (\w+)", text, re.MULTILINE))
    conditions = re.findall(r"^static_assert\((.*?),\s+\"", text, re.MULTILINE | re.DOTALL)
    assert {name for name in names_in(*conditions) if name.isupper()} <= declared
