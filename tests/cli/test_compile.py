"""`gemmdsl compile`: what goes where, and what is left when something goes wrong."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gemmdsl.cli import group
from gemmdsl.toolchain import Cubin, ToolError, Usage, find_tool
from tests.cli.test_files import bar

TEXT = """\
gemm 1

problem sgemm {
  A: f32[M, K]
  B: f32[K, N]
  C: f32[M, N] = alpha * A @ B + beta * C
}

schedule tiny for sgemm on sm_80 { block 16 x 16 x 8 }
schedule small extends tiny { thread 2 x 2 }
"""
ONE = TEXT[: TEXT.index("schedule small")]
# Two rules broken, by two schedules.
WRONG = (
    ONE.replace("16 x 16", "2000 x 16")
    + "schedule other for sgemm on sm_80 { block 16 x 16 x 8 thread 3 x 3 }\n"
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with `two.gemm` (tiny, small), `one.gemm` (tiny) and `wrong.gemm`."""
    monkeypatch.chdir(tmp_path)
    Path("two.gemm").write_text(TEXT)
    Path("one.gemm").write_text(ONE)
    Path("wrong.gemm").write_text(WRONG)
    return tmp_path


def compile_(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["compile", *arguments])


def made(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".gemm")


def test_the_only_schedule_goes_to_stdout(here: Path) -> None:
    result = compile_("one.gemm")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "__global__" in result.stdout
    assert result.stdout == compile_("one.gemm", "-o", "-").stdout
    assert result.stdout == compile_("two.gemm", "-s", "tiny").stdout.replace("two.gemm", "one.gemm")
    assert made(here) == []


def test_one_schedule_into_a_file(here: Path) -> None:
    result = compile_("two.gemm", "-s", "small", "-o", "kernel.txt")
    assert (result.exit_code, result.output) == (0, "")
    assert (here / "kernel.txt").read_text() == compile_("two.gemm", "-s", "small").stdout


@pytest.mark.parametrize("schedule", [(), ("--schedule", "all")])
def test_all_schedules_into_a_folder(here: Path, schedule: tuple[str, ...]) -> None:
    result = compile_("two.gemm", *schedule, "--folder", "out", "--emit", "cu,header,main")
    assert (result.exit_code, result.output) == (0, "")
    assert made(here / "out") == [
        "sgemm_small.cu",
        "sgemm_small.h",
        "sgemm_small_main.cu",
        "sgemm_tiny.cu",
        "sgemm_tiny.h",
        "sgemm_tiny_main.cu",
    ]
    assert (here / "out" / "sgemm_tiny.cu").read_text() == compile_("two.gemm", "-s", "tiny").stdout


def test_one_schedule_into_a_folder(here: Path) -> None:
    assert compile_("two.gemm", "-s", "tiny", "-d", "out").exit_code == 0
    assert made(here / "out") == ["sgemm_tiny.cu"]


@pytest.mark.parametrize("ending", [".cu", ".h", "_main.cu"])
def test_several_kinds_beside_each_other(here: Path, ending: str) -> None:
    assert compile_("one.gemm", "-o", f"sgemm_tiny{ending}", "--emit", "cu,header,main").exit_code == 0
    assert made(here) == ["sgemm_tiny.cu", "sgemm_tiny.h", "sgemm_tiny_main.cu"]


def test_kinds_that_do_not_include_each_other_go_by_any_name(here: Path) -> None:
    assert compile_("one.gemm", "-o", "k.h", "--emit", "cu,header").exit_code == 0
    assert made(here) == ["k.cu", "k.h"]


def test_a_program_finds_its_header(here: Path) -> None:
    result = compile_("one.gemm", "-o", "k.cu", "--emit", "cu,header,main")
    assert result.exit_code == 2
    assert "the program includes sgemm_tiny.h" in result.stderr
    assert made(here) == []


def test_another_target(here: Path) -> None:
    assert "sm_90" in compile_("one.gemm", "--target", "sm_90").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "k.cu", "-d", "out"), "--output and --folder exclude each other"),
        (("-s", "all"), "several schedules need --folder"),
        (("-s", "all", "-o", "k.cu"), "several schedules need --folder"),
        (("--emit", "cu,header"), "several kinds need --folder or --output FILE"),
        (("--emit", "cu,header", "-o", "-"), "several kinds need --folder or --output FILE"),
        (("--emit", "cu,header", "-o", "k.txt"), "with several kinds, --output must end in one of .cu, .h"),
        (("--emit", "cu,header", "-o", ".cu"), "with several kinds, --output must end in one of .cu, .h"),
        (("--emit", "cu,sass"), "'sass' is none of cu, header, main, ptx, cubin"),
        (("--emit", "cu,cu"), "'cu' is given twice"),
        (("--emit", ""), "'' is none of cu, header, main, ptx, cubin"),
        (("-o", "one.gemm"), "the output one.gemm is the file to read"),
        (("-o", "./../{}/one.gemm"), "is the file to read"),
        (("-o", ""), "a name cannot be empty"),
        (("-d", ""), "a name cannot be empty"),
    ],
)
def test_options_that_do_not_go_together(here: Path, arguments: tuple[str, ...], message: str) -> None:
    result = compile_("one.gemm", *(word.format(here.name) for word in arguments))
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert made(here) == []
    assert (here / "one.gemm").read_text() == ONE


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sgemm_tiny.cu", ("-d", ".")),
        ("sgemm_tiny.h", ("-d", ".", "--emit", "cu,header")),
        ("out/sgemm_tiny_main.cu", ("-d", "link", "--emit", "main")),
        ("k.h", ("-o", "k.cu", "--emit", "cu,header")),
        ("k.cu", ("-o", "k.h", "--emit", "cu,header")),
    ],
)
def test_no_output_takes_the_place_of_the_input(here: Path, name: str, arguments: tuple[str, ...]) -> None:
    (here / "out").mkdir()
    (here / "link").symlink_to("out")
    (here / name).write_text(ONE)
    before = made(here)
    result = compile_(name, *arguments)
    assert result.exit_code == 2
    assert "is the file to read" in " ".join(result.stderr.split())
    assert (here / name).read_text() == ONE
    assert made(here) == before


def test_a_link_to_the_input_is_the_input(here: Path) -> None:
    (here / "k.cu").symlink_to("one.gemm")
    assert compile_("one.gemm", "-o", "k.cu").exit_code == 2
    (here / "k.cu").unlink()
    os.link("one.gemm", "k.cu")
    assert compile_("one.gemm", "-o", "k.cu").exit_code == 2
    assert (here / "one.gemm").read_text() == ONE


def test_links_in_a_circle_and_names_that_are_too_long(here: Path) -> None:
    (here / "loop").symlink_to("loop")
    for words, told in (
        (("-o", "loop"), "leads in a circle"),
        (("-d", "loop"), "leads in a circle"),
        (("-o", "x" * 303), "File name too long"),
        (("-d", "x" * 303), "File name too long"),
        (("-o", f"{'x' * 303}.cu", "--emit", "cu,header"), "File name too long"),
    ):
        result = compile_("one.gemm", *words)
        assert result.exit_code == 2
        assert result.stderr.startswith("error[G705]: cannot write")
        assert told in result.stderr
    for name in ("loop", "x" * 303):
        result = compile_(name, "-o", "k.cu")
        assert result.exit_code == 1
        assert result.stderr.startswith("error[G001]")
    assert made(here) == ["loop"]


def test_a_dangling_link_to_a_folder_is_followed(here: Path) -> None:
    (here / "link").symlink_to("new")
    (here / "lost").symlink_to("nowhere/new")
    assert compile_("one.gemm", "-d", "link").exit_code == 0
    assert made(here / "new") == ["sgemm_tiny.cu"]
    result = compile_("one.gemm", "-d", "lost")
    assert result.exit_code == 2
    assert result.stderr.startswith("error[G701]: cannot write lost: the folder")


@pytest.mark.parametrize("arguments", [("-o", "barred/k.cu"), ("-d", "barred/out"), ("-d", "barred")])
def test_a_folder_that_cannot_be_searched(
    here: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    (here / "barred").mkdir()
    bar(monkeypatch, here / "barred")
    result = compile_("one.gemm", *arguments)
    monkeypatch.undo()
    assert result.exit_code == 2
    assert result.stderr.startswith("error[G703]: cannot write barred")


# What stands in a comment of the emitted text, and in diagnostics.
ODD_NAMES = [
    pytest.param(b"a\nb.gemm", r"a\nb.gemm", id="newline"),
    pytest.param(b"a\x1b[31mb.gemm", r"a\x1b[31mb.gemm", id="escape"),
    pytest.param("a\u2028b.gemm".encode(), r"a\u2028b.gemm", id="line separator"),
    pytest.param(b"\xff.gemm", r"\udcff.gemm", id="not UTF-8"),
    pytest.param("\u00e9.gemm".encode(), "\u00e9.gemm", id="not ASCII"),
]


@pytest.mark.parametrize(("name", "shown"), ODD_NAMES)
def test_any_name_of_a_file(here: Path, name: bytes, shown: str) -> None:
    def call(*words: bytes) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [sys.executable, "-m", "gemmdsl", *words],
            capture_output=True,
            env=os.environ | {"LC_ALL": "POSIX"},
        )
        assert b"Traceback" not in done.stderr
        assert b"G999" not in done.stderr
        return done

    Path(os.fsdecode(name)).write_text(ONE)
    text = call(b"compile", name).stdout.decode()
    (line,) = (line for line in text.split("\n") if "// source" in line)
    assert line.split()[2] == f"{shown},"
    assert text.replace(shown, "one.gemm") == compile_("one.gemm").stdout
    assert call(b"compile", name, b"-o", name + b".cu").returncode == 0
    assert Path(os.fsdecode(name + b".cu")).read_text() == text
    Path(os.fsdecode(name)).write_text(WRONG)
    for form in (b"json", b"sarif"):
        told = call(b"check", name, b"--output-format", form)
        assert told.returncode == 1
        assert b"\x1b" not in told.stdout
        json.loads(told.stdout)
    assert shown in call(b"check", name).stdout.decode()
    assert shown in call(b"fmt", b"--check", name).stdout.decode()


def test_a_name_cannot_continue_a_comment(here: Path) -> None:
    from gemmdsl import loads

    text = loads(ONE, "a\\ " + "long " * 30 + "b\\").compile().source
    assert not any(line.endswith("\\") for line in text.splitlines())
    assert r"a\x5c long" in text
    text = loads(ONE, "a\r#error\n#error").compile().source
    assert r"a\r#error\n#error" in text


def test_a_schedule_has_to_be_chosen(here: Path) -> None:
    result = compile_("two.gemm")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error[G107]: there are 2 schedules")
    assert "tiny, small" in result.stderr


def test_a_file_without_schedules(here: Path) -> None:
    (here / "none.gemm").write_text(TEXT[: TEXT.index("schedule")])
    result = compile_("none.gemm", "-d", "out")
    assert result.exit_code == 1
    assert "there is no schedule" in result.stderr
    assert made(here) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("missing.gemm",), "G0"),
        ((".",), "G0"),
        (("one.gemm", "-s", "tinny"), "G107"),
        (("one.gemm", "-t", "sm_42"), "G105"),
        (("wrong.gemm", "-s", "other"), "G2"),
    ],
)
def test_wrong_input(here: Path, arguments: tuple[str, ...], code: str) -> None:
    result = compile_(*arguments, "-o", "k.cu")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error[{code}")
    assert made(here) == []


def test_every_schedule_that_is_wrong_is_reported(here: Path) -> None:
    result = compile_("wrong.gemm", "-d", "out")
    assert result.exit_code == 1
    assert "2000 x 16" in result.stderr
    assert "3 x 3" in result.stderr
    assert made(here) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("-o", "missing/k.cu"), "G701"),
        (("-o", "one.gemm/k.cu"), "G701"),
        (("-o", "folder"), "G702"),
        (("-o", "folder/k.cu/", "--emit", "cu,header"), "G702"),
        (("-d", "missing/out"), "G701"),
        (("-d", "one.gemm"), "G701"),
        (("-o", "/dev/full"), "G704"),
    ],
)
def test_output_that_cannot_be_written(here: Path, arguments: tuple[str, ...], code: str) -> None:
    (here / "folder" / "k.cu").mkdir(parents=True)
    result = compile_("one.gemm", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error[{code}]: cannot write")
    assert made(here) == ["folder"]
    assert [path.name for path in (here / "folder").iterdir()] == ["k.cu"]


def test_a_disk_that_fills_up_leaves_no_part(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    real = os.open

    def fills_up(*arguments: object, **options: object) -> int:
        opened.append(arguments)
        if len(opened) == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", fills_up)
    result = compile_("two.gemm", "-d", "out", "--emit", "cu,header,main")
    monkeypatch.undo()
    assert result.exit_code == 2
    assert result.stderr.startswith("error[G704]")
    assert not (here / "out").exists()


def test_two_schedules_with_one_file(here: Path) -> None:
    (here / "clash.gemm").write_text(TEXT.replace("small", "tiny_main"))
    result = compile_("clash.gemm", "-d", "out", "--emit", "cu,main")
    assert result.exit_code == 1
    assert result.stderr.startswith("error[G711]: two schedules would be written to sgemm_tiny_main.cu")
    assert made(here) == []


def test_no_compiler_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMMDSL_CUDA", str(here / "nowhere"))
    result = compile_("two.gemm", "-d", "out", "--emit", "cu,cubin")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error[G901]: nvcc was not found")
    assert made(here) == []


def test_a_failure_of_the_second_schedule_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def compile_ptx(text: str, target: str) -> str:
        calls.append(target)
        if len(calls) == 2:
            raise ToolError("G906", "nvcc was stopped")
        return ".version 8.0\n"

    monkeypatch.setattr("gemmdsl.toolchain.compile_ptx", compile_ptx)
    result = compile_("two.gemm", "-d", "out", "--emit", "ptx")
    assert result.exit_code == 2
    assert calls == ["sm_80", "sm_80"]
    assert made(here) == []


def test_an_interrupt_leaves_nothing(here: Path) -> None:
    compiler = here / "cuda" / "bin" / "nvcc"
    compiler.parent.mkdir(parents=True)
    compiler.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        "  --version) echo release 13.0 ;;\n"
        "  --list-gpu-code) echo sm_80 ;;\n"
        f"  *) touch {here}/started; sleep 60 ;;\n"
        "esac\n"
    )
    compiler.chmod(0o755)
    (here / "tmp").mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "gemmdsl", "compile", "one.gemm", "--emit", "cubin", "-o", "k.cubin"],
        env=os.environ | {"GEMMDSL_CUDA": str(here / "cuda"), "TMPDIR": str(here / "tmp")},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not (here / "started").exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=30)
    assert (process.returncode, messages) == (130, "interrupted\n")
    assert not (here / "k.cubin").exists()
    assert list((here / "tmp").iterdir()) == []


def test_spills_are_told(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = Usage("sgemm_tiny_fast", "sm_80", 32, 8, 24, 28, 0, 1, 0)
    monkeypatch.setattr(
        "gemmdsl.toolchain.compile_cubin",
        lambda text, target: Cubin(target, b"\x7fELF", (usage,), "nvcc 13.0"),
    )
    result = compile_("one.gemm", "--emit", "cubin", "-o", "k.cubin")
    assert result.exit_code == 0
    assert result.stderr == (
        "warning[G910]: sgemm_tiny_fast spills registers on sm_80: 24 bytes stored, 28 loaded\n"
    )
    assert (here / "k.cubin").read_bytes() == b"\x7fELF"


@pytest.mark.nvcc
def test_ptx_and_cubin(here: Path) -> None:
    result = compile_("one.gemm", "-t", "sm_90", "--emit", "ptx,cubin", "-o", "k.ptx")
    assert (result.exit_code, result.output) == (0, "")
    assert ".target sm_90" in (here / "k.ptx").read_text()
    assert (here / "k.cubin").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.nvcc
def test_the_program_of_a_folder_builds(here: Path) -> None:
    assert compile_("one.gemm", "-d", "out", "--emit", "cu,header,main").exit_code == 0
    compiler = find_tool("nvcc").path
    built = subprocess.run(
        [
            compiler,
            "-arch=sm_80",
            "-Werror",
            "all-warnings",
            "sgemm_tiny.cu",
            "sgemm_tiny_main.cu",
            "-o",
            "program",
        ],
        cwd=here / "out",
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr


def test_a_preferred_option_that_was_dropped_is_told(here: Path) -> None:
    (here / "prefer.gemm").write_text(
        ONE.replace("on sm_80 { block 16 x 16 x 8 }", "on sm_75 { block 16 x 16 x 8 prefer buffers 2 async }")
    )
    result = compile_("prefer.gemm", "-o", "k.cu")
    assert result.exit_code == 0
    assert result.stderr.startswith("note: tiny: `buffers 2 async` is dropped")


@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_hash_seed_changes_no_byte(here: Path, seed: str) -> None:
    words = [sys.executable, "-m", "gemmdsl", "compile", "two.gemm", "-s", "small"]
    ended = subprocess.run(words, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True)
    assert ended.stdout == compile_("two.gemm", "-s", "small").stdout
