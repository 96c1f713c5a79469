"""The command group: quick, lazy, and never a traceback."""

from __future__ import annotations

import errno
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from gemmdsl import __version__
from gemmdsl.cli import COMMANDS, group
from gemmdsl.diagnostics import GemmError, error
from gemmdsl.files import OutputError
from gemmdsl.toolchain.errors import ToolError

LADDER = Path(__file__).parents[2] / "examples" / "ladder.gemm"


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], Result]:
    """Runs a command that raises what it is given."""

    def run(problem: BaseException) -> Result:
        @click.command()
        def command() -> None:
            raise problem

        monkeypatch.setattr(type(group), "get_command", lambda *_: command)
        return CliRunner().invoke(group, ["check"])

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_table_says_what_the_commands_say(name: str) -> None:
    command = import_module(f"gemmdsl.cli.{name}").command
    assert COMMANDS[name] == command.get_short_help_str(limit=1000)


@pytest.mark.parametrize(
    ("times", "base", "arguments"),
    [
        (2, "import click", ("--help",)),
        (4, "import click, numpy, lark, jinja2", ("compile", str(LADDER), "--schedule", "v3_2")),
    ],
)
def test_whole_processes_are_quick(times: int, base: str, arguments: tuple[str, ...]) -> None:
    # Processor time beside that of an interpreter which only imports the libraries, in turns, the best of a
    # few: what is measured is the program, and not the machine or what else it is doing.
    def seconds(*words: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert python(*words).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    turns = [(seconds("-c", base), seconds("-m", "gemmdsl", *arguments)) for _ in range(5)]
    least, whole = (min(column) for column in zip(*turns, strict=True))
    assert whole < times * least


@pytest.mark.parametrize("statement", ["import gemmdsl", "import gemmdsl.cli"])
def test_heavy_libraries_are_not_imported_early(statement: str) -> None:
    code = (
        f"{statement}; import sys; print(*{{'numpy', 'lark', 'jinja2', 'hypothesis'}} & sys.modules.keys())"
    )
    assert python("-c", code).stdout.split() == []


def test_version() -> None:
    result = CliRunner().invoke(group, ["--version"])
    assert (result.exit_code, result.output) == (0, f"gemmdsl, version {__version__}\n")


def test_the_module_is_the_command() -> None:
    assert python("-m", "gemmdsl", "--version").stdout == f"gemmdsl, version {__version__}\n"


def test_unknown_command_is_misuse() -> None:
    result = CliRunner().invoke(group, ["compil"])
    assert result.exit_code == 2
    assert "No such command 'compil'. Did you mean 'compile'?" in result.stderr


@pytest.mark.parametrize(("word", "meant"), [("chekc", "check"), ("RUN", "run"), ("docter", "doctor")])
def test_the_nearest_command_is_named(word: str, meant: str) -> None:
    assert f"Did you mean '{meant}'?" in CliRunner().invoke(group, [word]).stderr


def test_no_command_is_guessed() -> None:
    result = CliRunner().invoke(group, ["multiply"])
    assert "No such command 'multiply'.\n" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "words",
    [("--version",), ("--help",), ("run", "--help"), ("rules",), ("rules", "--output-format", "json")],
)
def test_output_that_takes_nothing(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gemmdsl", *words], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr == "error[G704]: cannot write to standard output: no space is left\n"


@pytest.mark.parametrize("command", ["check", "fmt"])
def test_standard_input_that_is_not_there(command: str) -> None:
    line = f"{shlex.join([sys.executable, '-m', 'gemmdsl', command, '-'])} <&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert done.returncode == 1
    assert "error[G001]: standard input cannot be read: it is closed" in done.stdout + done.stderr


def test_a_working_folder_that_is_gone(
    failing: Callable[[BaseException], Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory")
    assert "G999" in failing(missing).stderr
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    result = failing(missing)
    assert (result.exit_code, result.stderr[:12]) == (2, "error[G701]:")


@pytest.mark.parametrize("words", [("rules",), ("compile", str(LADDER), "-s", "v3")])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_streams_that_are_not_there(words: tuple[str, ...], closed: str) -> None:
    line = f"{shlex.join([sys.executable, '-m', 'gemmdsl', *words])} {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("problem", "status", "message"),
    [
        (GemmError([error("G123", "wrong")]), 1, "error[G123]: wrong\n"),
        (ToolError("G901", "nvcc was not found", help="get it"), 2, "error[G901]: nvcc was not found\n"),
        (OutputError("G703", "cannot write"), 2, "error[G703]: cannot write\n"),
        (GemmError([error("P201", "copied twice")]), 2, "error[P201]: copied twice\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (MemoryError("8 EiB"), 1, "error[G712]: there is not enough memory: 8 EiB\n"),
        (OSError(errno.EIO, "oh no"), 2, "error[G705]: cannot write to standard output: oh no\n"),
        (ZeroDivisionError("by zero"), 2, "error[G999]: internal error: ZeroDivisionError: by zero\n"),
        (RecursionError(), 2, "error[G999]: internal error: RecursionError\n"),
    ],
)
def test_failures_are_told_in_short(
    failing: Callable[[BaseException], Result],
    monkeypatch: pytest.MonkeyPatch,
    problem: BaseException,
    status: int,
    message: str,
) -> None:
    monkeypatch.delenv("GEMMDSL_DEBUG", raising=False)
    result = failing(problem)
    assert result.exit_code == status
    assert result.stderr.startswith(message)
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_every_finding_is_shown(failing: Callable[[BaseException], Result]) -> None:
    result = failing(GemmError([error("G101", "one"), error("G102", "two")]))
    assert result.stderr == "error[G101]: one\n\nerror[G102]: two\n"


def test_debug_shows_the_traceback_too(
    failing: Callable[[BaseException], Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMMDSL_DEBUG", "1")
    result = failing(ZeroDivisionError("by zero"))
    assert "Traceback (most recent call last)" in result.stderr
    assert "error[G999]" in result.stderr


def test_a_reader_that_leaves_is_no_error_message() -> None:
    code = (
        "import click, sys\n"
        "from gemmdsl.cli import group, main\n"
        "@click.command()\n"
        "def command():\n"
        "    for _ in range(100_000):\n"
        "        click.echo('a line of text')\n"
        "type(group).get_command = lambda *_: command\n"
        "main(['check'])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "a line of text\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.parametrize(
    "words", [("--help",), ("rules",), ("doctor",), ("run", str(LADDER), "--shape", "4")]
)
def test_nobody_reads(words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    if words[0] == "run":
        words = (*words, "-s", "v1_shared")
    done = subprocess.run(
        [sys.executable, "-m", "gemmdsl", *words], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
