"""Gathering counters, with a GPU that is played by the host and a profiler that is a script."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gemmdsl.analysis.compiled import Compiled
from gemmdsl.analysis.ncu_report import read_report
from gemmdsl.toolchain import Usage
from gemmdsl.toolchain.locate import Tool
from tests.gpu import profiles
from tests.runtime.fake import World

# Takes the words that ncu takes, and remembers the kernels it was asked for in its report.
PROFILER = """#!{python}
import re, sys
words = sys.argv[1:]
def after(word):
    return words[words.index(word) + 1]
if "--query-metrics" in words:
    print("l1tex__data_bank_reads    Counter   banks read")
elif "--export" in words:
    assert words.index("--launch") > words.index("-m") > words.index("--kernel-name")
    kernels = re.fullmatch(r"regex:\\^\\((.*)\\)\\$", after("--kernel-name"))[1]
    if "sgemm_odd_general" not in kernels:
        open(after("--export"), "w").write(kernels)
    print("==PROF== busy")
else:
    for number, kernel in enumerate(open(after("--import")).read().split("|")):
        if after("--page") == "raw":
            print('"ID","Kernel Name","smsp__inst_executed.sum"\\n"","","inst"')
            print('"%d","%s","5"' % (number, kernel))
        else:
            print('"Kernel Name","%s"\\n"Address","Source","L1 Wavefronts Shared"' % kernel)
            print('"0x1","      LDS R1, [R2] ","7"\\n"0x2","      FFMA R1, R2, R3, R4 ","0"')
"""


@pytest.fixture
def profiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: World) -> Path:
    script = tmp_path / "ncu"
    script.write_text(PROFILER.replace("{python}", sys.executable), encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(profiles, "find_tool", lambda name: Tool(name, script, (2025, 3), "PATH"))
    monkeypatch.setattr(profiles, "cached_cubin", world.compile)
    monkeypatch.setattr(profiles, "CHUNK", 2)
    out = tmp_path / "out"
    out.mkdir()
    return out


def gather(out: Path, names: tuple[str, ...], seconds: float = 60.0) -> tuple[bool, str]:
    said: list[str] = []
    good = profiles.gather(out, 64, names, seconds, 1, said.append)
    return good, "\n".join(said)


def test_counters_are_gathered_in_a_few_runs(profiler: Path) -> None:
    good, said = gather(profiler, ("v0_naive", "v1_shared", "v5_async"))
    assert good, said
    assert "3 of 3 schedules profiled" in said
    text = "\n".join((profiler / name).read_text(encoding="utf-8") for name in ("raw.csv", "source.csv"))
    assert "FFMA" not in text
    for schedule in ("v0_naive", "v1_shared", "v5_async"):
        path = "edge" if schedule == "v5_async" else "fast"
        found = read_report(text, f"sgemm_{schedule}_{path}")
        assert found.counters["smsp__inst_executed.sum"] == 5.0
        assert found.shared is not None
        assert found.shared["load"].wavefronts == 7


def test_what_was_not_profiled_is_told(profiler: Path) -> None:
    good, said = gather(profiler, ("v0_naive", "v1_shared", "odd", "v3_2"))
    assert not good
    assert "v3_2, odd: 0 of 2 profiled" in said
    assert "again, without other counters" in said
    assert "v0_naive, v1_shared: 2 of 2 profiled" in said
    assert "2 of 4 schedules profiled" in said
    good, said = gather(profiler, ("v0_naive",), seconds=0.0)
    assert not good
    assert "no time left for v0_naive" in said


def test_schedules_are_launched(world: World) -> None:
    for subject in profiles.subjects("sm_90", 64, ("v1_shared", "odd")):
        world.know(subject.kernel.cuda)
    profiles.launch(64, ("v1_shared", "odd"))
    assert [launch[0] for launch in world.launches] == ["sgemm_odd_general", "sgemm_v1_shared_fast"]


def test_differences_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    row = '"ID","Kernel Name","launch__occupancy_limit_blocks"\n"","",""\n"0","sgemm_v0_naive_fast","0"\n'
    (tmp_path / "raw.csv").write_text(row, encoding="utf-8")
    assert not profiles.compare_all(tmp_path, "sm_90", 64, ("v0_naive", "v1_shared"), said.append)
    text = "\n".join(said)
    assert "v0_naive: 0 of 1 counters agree" in text
    assert "blocks per SM: predicted 2, measured 0" in text
    assert "v1_shared: no launch of sgemm_v1_shared_fast was profiled" in text


def test_nothing_that_was_compared_is_no_agreement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where all else is well: machine code is there, and no counter differs."""
    found = profiles.model

    def with_machine(*arguments: Any, **options: Any) -> Any:
        report = found(*arguments, **options, compile=False)
        usage = Usage("kernel", "sm_90", 64, 0, 0, 0, 0, 1, 0)
        return replace(report, machine=Compiled("kernel", "nvcc", usage, report.accesses, {}, {}, {}, 0))

    monkeypatch.setattr(profiles, "model", with_machine)
    for counter, cell, names, good in (
        ("launch__registers_per_thread", "64", ("v0_naive",), True),
        ("launch__registers_per_thread", "65", ("v0_naive",), False),
        ("launch__registers_per_thread", "n/a", ("v0_naive",), False),
        ("another", "64", ("v0_naive",), False),
        ("launch__registers_per_thread", "64", ("v0_naive", "nobody"), False),
        ("launch__registers_per_thread", "64", ("nobody",), False),
    ):
        said: list[str] = []
        row = f'"ID","Kernel Name","{counter}"\n"","",""\n"0","sgemm_v0_naive_fast","{cell}"\n'
        (tmp_path / "raw.csv").write_bytes(row.encode() + b"\xff\n")
        assert profiles.compare_all(tmp_path, "sm_90", 64, names, said.append) == good
        assert any("no such schedule for sm_90 at 64: nobody" in line for line in said) == ("nobody" in names)
