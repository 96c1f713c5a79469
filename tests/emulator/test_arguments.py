"""Statuses of the launcher and wrong arguments become exceptions that name them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmdsl import memory
from gemmdsl.conditions import Aligned, Multiple
from gemmdsl.cuda_source import Status
from gemmdsl.emulator.run import launch, run
from gemmdsl.launch_errors import LaunchError, extent, from_status
from tests.emulator.samples import NAIVE, PINGPONG, PIPELINE, SHARED_TILE

FINE = {"M": 4, "N": 5, "K": 6, "lda": 6, "ldb": 5, "ldc": 5, "A": 4096, "B": 8192, "C": 12288}


@pytest.mark.parametrize(
    ("changed", "status", "argument", "message"),
    [
        ({"K": -3}, Status.NEGATIVE_SIZE, "K", "K = -3: a size is at least 0"),
        ({"lda": 5}, Status.LEADING_DIMENSION, "lda", "lda = 5 is below 6, the least for A with K = 6"),
        ({"M": 0, "N": 0, "ldc": 0, "ldb": 1}, Status.LEADING_DIMENSION, "ldc", "ldc = 0 is below 1"),
        ({"B": 0}, Status.NULL_POINTER, "B", "B is a null pointer, where a matrix of 6 x 5 elements"),
    ],
)
def test_the_launcher_refuses(
    changed: Mapping[str, int], status: Status, argument: str, message: str
) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(NAIVE, {**FINE, **changed})
    assert (caught.value.status, caught.value.argument) == (status, argument)
    assert message in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].code == f"G{920 + status}"


def test_overlaps_name_both_ranges() -> None:
    error = from_status(Status.OVERLAP, NAIVE, {**FINE, "C": 8192 + 116})
    assert error.argument == "C"
    assert "C at 0x2074 to 0x20c4 overlaps B at 0x2000 to 0x2078" in str(error)


@pytest.mark.parametrize(
    ("condition", "argument", "message"),
    [
        (Multiple("M", 3), "M", "M = 4, and {launcher} assumes M % 3 == 0"),
        (Aligned("A", 4), "A", "A = 0x1000 with lda = 6, and {launcher} assumes A aligned for 4-float"),
    ],
)
def test_violated_preconditions_are_named(condition: Multiple | Aligned, argument: str, message: str) -> None:
    from dataclasses import replace

    source = replace(NAIVE, plan=replace(NAIVE.plan, preconditions=(Multiple("K", 2), condition)))
    error = from_status(Status.PRECONDITION, source, FINE)
    assert error.argument == argument
    assert error.diagnostics[0].message.startswith(message.format(launcher=source.plan.launcher))


def test_other_statuses_have_messages_too() -> None:
    assert "need 1 blocks" in str(from_status(Status.TOO_LARGE, NAIVE, FINE))
    assert "naive: out of luck" in str(from_status(Status.LAUNCH_FAILED, NAIVE, FINE, "out of luck"))
    assert "unknown status 99" in str(from_status(99, NAIVE, FINE))
    assert "status 1 (NEGATIVE_SIZE)" in str(from_status(Status.NEGATIVE_SIZE, NAIVE, FINE))


def test_extents_follow_the_layout() -> None:
    sizes = {"M": 4, "K": 6, "lda": 10}
    assert extent(NAIVE.problem.a, sizes) == 3 * 10 + 6
    assert extent(SHARED_TILE.problem.a, sizes) == 5 * 10 + 4
    assert extent(NAIVE.problem.a, {**sizes, "M": 0}) == 0


SQUARE = np.ones((4, 4))


@pytest.mark.parametrize(
    ("arguments", "keywords", "argument", "message"),
    [
        ((SQUARE, np.ones((3, 4))), {}, "b", "a is 4 x 4 and b is 3 x 4: the inner sizes differ"),
        ((SQUARE, SQUARE, np.ones((4, 5))), {"beta": 1.0}, "c", "c is 4 x 5, and the product is 4 x 4"),
        ((SQUARE, SQUARE), {"beta": 2.0}, "c", "beta = 2 needs c"),
        ((np.ones(4), SQUARE), {}, "a", "a has 1 axes, and a matrix has 2"),
        ((SQUARE * 1j, SQUARE), {}, "a", "a has dtype complex128, and numbers are needed"),
        (([[1, 2], [3]], SQUARE), {}, "a", "a is no matrix"),
        ((SQUARE, SQUARE), {"ldb": 3}, "ldb", "ldb = 3 is below 4"),
        ((SQUARE, SQUARE), {"lda": -1}, "lda", "lda = -1 is below 4"),
        ((SQUARE, SQUARE), {"lda": 2**31}, "lda", "lda = 2147483648 is no 32-bit integer"),
        ((SQUARE, SQUARE), {"lda": 10**5000}, "lda", "lda = too long to show is no 32-bit integer"),
        ((SQUARE, SQUARE), {"ldc": "8"}, "ldc", "ldc is '8', and an integer is needed"),
        ((SQUARE, SQUARE), {"ldc": 8.5}, "ldc", "ldc is 8.5, and an integer is needed"),
        ((SQUARE, SQUARE), {"alpha": 10**400}, "alpha", "alpha is too large for a float"),
        ((SQUARE, SQUARE), {"alpha": "2"}, "alpha", "alpha is '2', and a number is needed"),
        ((SQUARE, SQUARE, SQUARE), {"beta": None}, "beta", "beta is None, and a number is needed"),
        ((SQUARE, SQUARE, SQUARE), {"beta": SQUARE}, "beta", "and a number is needed"),
        ((SQUARE, SQUARE), {"alpha": 1j}, "alpha", "alpha is 1j, and a number is needed"),
        ((np.ma.masked_less(SQUARE, 0), SQUARE), {}, "a", "a is a masked array"),
        (
            (SQUARE, SQUARE),
            {"order": "sideways"},
            "order",
            "order is 'sideways', and has to be one",
        ),
        ((SQUARE, SQUARE), {"entry": "fast"}, "entry", "naive has no entry point fast; it has general"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: tuple[Any, ...], keywords: dict[str, Any], argument: str, message: str
) -> None:
    with pytest.raises(LaunchError) as caught:
        run(NAIVE, *arguments, **keywords)
    assert caught.value.argument == argument
    assert message in caught.value.diagnostics[0].message


def test_operands_that_memory_does_not_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmdsl.memory.available", lambda: 2**30 + 2**29)
    with pytest.raises(LaunchError, match=r"take 24\.0 GiB of memory, and 1\.5 GiB are free"):
        run(NAIVE, SQUARE, SQUARE, lda=2**31 - 1)


def test_memory_is_that_of_the_machine_and_of_the_groups_around_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        Path("/proc/meminfo"): "MemTotal: 99 kB\nMemAvailable:  5000 kB\n",
        Path("/proc/self/cgroup"): "4:cpu:/\n3:memory:/box\n0::/box/inner\n",
        Path("/sys/fs/cgroup/memory/box/memory.limit_in_bytes"): "4000000\n",
        Path("/sys/fs/cgroup/memory/box/memory.usage_in_bytes"): "1000000\n",
        Path("/sys/fs/cgroup/box/inner/memory.max"): "max\n",
        Path("/sys/fs/cgroup/box/inner/memory.current"): "7\n",
        Path("/sys/fs/cgroup/box/memory.max"): "3000000\n",
        Path("/sys/fs/cgroup/box/memory.current"): "2500000\n",
        Path("/sys/fs/cgroup/box/memory.stat"): "anon 9\ninactive_file 100000\n",
    }
    monkeypatch.setattr(memory, "_text", lambda path: files.get(path, ""))
    assert memory.available() == 600_000
    del files[Path("/sys/fs/cgroup/box/memory.max")]
    assert memory.available() == 3_000_000
    files[Path("/proc/self/cgroup")] = ""
    assert memory.available() == 5000 * 1024
    files.clear()
    assert memory.available() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("alpha", [np.float64(2), np.int8(2), np.array(2.0), Fraction(2), True + 1])
def test_any_kind_of_number_is_a_scalar(alpha: Any) -> None:
    assert (run(NAIVE, SQUARE, SQUARE, alpha=alpha) == 8).all()


def test_scalars_are_rounded_before_they_are_looked_at() -> None:
    unread = np.full((4, 4), np.nan)
    # Less than half of the least subnormal: the kernel's alpha and beta are 0.
    assert (run(NAIVE, unread, unread, unread, 1e-60, 1e-60, checked=True) == 0).all()
    assert np.isinf(run(NAIVE, SQUARE, SQUARE, alpha=1e300)).all()


def test_scalars_that_the_problem_lacks_are_refused() -> None:
    with pytest.raises(LaunchError, match="problem plain_tn has no alpha"):
        run(SHARED_TILE, SQUARE, SQUARE, alpha=2.0)
    with pytest.raises(LaunchError, match="problem plain_tn has no beta"):
        run(SHARED_TILE, SQUARE, SQUARE, SQUARE, beta=2.0)


def test_an_entry_point_is_only_run_where_it_is_right() -> None:
    with pytest.raises(LaunchError, match="entry point pingpong_fast needs M % 64 == 0"):
        run(PINGPONG, SQUARE, SQUARE, entry="fast")


def test_a_forced_entry_point_with_nothing_to_do_launches_nothing() -> None:
    assert run(PIPELINE, np.ones((0, 4)), SQUARE, entry="edge").shape == (0, 4)
