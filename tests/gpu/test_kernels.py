"""The same cases and strategies as on the emulator, on a real GPU."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from gemmdsl.cli import group
from gemmdsl.runtime import Gpu
from gemmdsl.testing import assert_kernel_matches_numpy
from tests import examples

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("file", "schedule"), examples.schedules())
def test_examples(device: Gpu, file: str, schedule: str) -> None:
    kernel = examples.kernel_on(file, schedule, device.limits.target)
    assert_kernel_matches_numpy(kernel, examples=40, device="gpu")


def test_bench(device: Gpu) -> None:
    words = ["bench", str(examples.FOLDER / "ladder.gemm"), "-s", "v3_2", "--shapes", "512,35x79x19"]
    result = CliRunner().invoke(group, [*words, "--output-format", "json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert [row["status"] for row in rows] == ["timed", "timed"]


def test_doctor(device: Gpu) -> None:
    result = CliRunner().invoke(group, ["doctor", "--need", "gpu"])
    print(result.output)
    assert device.limits.name in result.output
