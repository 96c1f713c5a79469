"""The IR as text: what each pass changes in the examples, and the command that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gemmdsl.cli import group
from gemmdsl.index_parts import constants
from gemmdsl.passes import LOWERING, PIPELINE, Step, steps
from gemmdsl.printer import difference, print_kernel, print_stage
from tests import examples
from tests.golden import assert_no_orphans, compare
from tests.verifier.kernels import SPECS, kernel

GOLDENS = Path(__file__).parent / "goldens"
LADDER = examples.FOLDER / "ladder.gemm"
SHOWN = [pair for pair in examples.schedules() if pair[0] in ("ladder.gemm", "swizzle.gemm")]


def name_of(file: str, schedule: str) -> str:
    return f"{file.removesuffix('.gemm')}.{schedule}.ir"


def history(done: tuple[Step, ...]) -> str:
    """The naive kernel, and the difference that each pass makes."""
    texts = [print_stage(step.kernel, step.proofs) for step in done]
    changes = [
        difference(texts[at], texts[at + 1], done[at].name, done[at + 1].name) for at in range(len(done) - 1)
    ]
    return "\n".join([texts[0], *changes])


@pytest.mark.parametrize(("file", "schedule"), SHOWN)
def test_each_pass_changes_what_it_used_to_change(file: str, schedule: str) -> None:
    done = steps(examples.program(file).spec(schedule))
    compare(GOLDENS / name_of(file, schedule), history(done))


def test_every_golden_is_used() -> None:
    assert_no_orphans(GOLDENS, [name_of(*pair) for pair in SHOWN])


@pytest.mark.parametrize(("file", "schedule"), examples.schedules())
def test_every_example_is_proved_after_every_pass(file: str, schedule: str) -> None:
    done = steps(examples.program(file).spec(schedule))
    assert all(step.proofs for step in done)
    assert all(difference("", print_kernel(step.kernel), "", step.name) for step in done)


@pytest.mark.parametrize("name", SPECS)
def test_every_name_is_defined_before_it_is_used(name: str) -> None:
    """Constants come in order; what a formula of a thread or tile names stands above."""
    given = kernel(name)
    text = print_kernel(given)
    lines = text.splitlines()
    where = {line.split(" = ")[0].strip(): at for at, line in enumerate(lines) if " = " in line}
    for axis in (given.threads.rows, given.threads.cols):
        for named in constants(axis.first):
            for inner in constants(named.definition):
                assert where[inner.name] < where[named.name]
    assert text == print_kernel(given)


def ir(*words: str) -> Result:
    return CliRunner().invoke(group, ["ir", str(LADDER), *words])


def test_the_last_stage_is_shown_unless_another_is_asked_for() -> None:
    shown = ir("--schedule", "v3_2")
    last = steps(examples.program("ladder.gemm").spec("v3_2"))[-1]
    assert shown.exit_code == 0
    assert shown.stdout == print_stage(last.kernel, last.proofs)
    assert ir("-s", "v3_2", "--after", "specialise").stdout == shown.stdout


def test_a_stage_is_what_the_last_pass_that_changed_something_left() -> None:
    unchanged = ir("-s", "v3_1", "--after", "swizzle")
    assert unchanged.stdout == ir("-s", "v3_1", "--after", "transpose").stdout
    assert unchanged.stderr == "note: swizzle changes nothing in this schedule\n"
    assert "multiply from global memory" in ir("-s", "v3_1", "--after", LOWERING).stdout


def test_differences_of_all_passes_or_of_one() -> None:
    every = ir("-s", "v3_2", "--diff")
    one = ir("-s", "v3_2", "--diff", "pad")
    assert every.exit_code == one.exit_code == 0
    assert one.stdout.startswith("--- transpose\n+++ pad\n")
    assert one.stdout in every.stdout
    assert every.stdout.count("\n+++ ") == len(steps(examples.program("ladder.gemm").spec("v3_2"))) - 1
    nothing = ir("-s", "v3_2", "--diff", "swizzle")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert nothing.stderr == "note: swizzle changes nothing in this schedule\n"


def test_the_list_of_passes_says_which_changed_something() -> None:
    rows = [line.split() for line in ir("-s", "v5_async", "--list").stdout.splitlines()]
    assert [row[0] for row in rows] == [LOWERING, *(apply.__name__ for apply in PIPELINE)]
    assert ["async_copies", "changed"] in rows
    assert ["ping_pong", "-"] in rows


def test_another_target() -> None:
    assert ir("-s", "v3", "--target", "sm_90").stdout.startswith("kernel sgemm_v3 on sm_90\n")


@pytest.mark.parametrize("option", ["--after", "--diff"])
def test_an_unknown_pass_is_named_with_the_nearest_one(option: str) -> None:
    failed = ir("-s", "v3", option, "tranpose")
    assert failed.exit_code == 1
    assert "error[G721]: there is no pass `tranpose`; did you mean `transpose`?" in failed.stderr
    assert failed.stdout == ""


@pytest.mark.parametrize(
    "words", [("--after", "pad", "--diff"), ("--list", "--diff"), ("--after", "pad", "--list")]
)
def test_options_that_exclude_each_other(words: tuple[str, ...]) -> None:
    failed = ir("-s", "v3", *words)
    assert failed.exit_code == 2
    assert "exclude each other" in failed.stderr


def test_a_file_with_several_schedules_needs_a_name() -> None:
    failed = ir()
    assert failed.exit_code == 1
    assert "error[G107]" in failed.stderr
