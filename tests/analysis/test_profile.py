"""Reports of Nsight Compute: read, compared with the model, and shown."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from gemmdsl.analysis.ncu import STALLS, compare, metrics, read_report, stalls
from gemmdsl.cli import group
from gemmdsl.explain.model import Model
from tests.analysis.test_explain import LADDER, report

COUNTERS = {
    "launch__registers_per_thread": "128",
    "launch__occupancy_limit_registers": "2",
    "launch__occupancy_limit_shared_mem": "6",
    "launch__occupancy_limit_warps": "8",
    "launch__occupancy_limit_blocks": "32",
    "smsp__inst_executed_op_shared_ld.sum": "16,777,216",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": "83,890,000",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": "33,558,000",
    "smsp__inst_executed_op_shared_st.sum": "2,621,440",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": "6,291,456",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": "2,097,152",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "1,048,576",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "16,777,216",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": "32,768",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "1,048,576",
    "gpu__time_duration.sum": "2,500,000",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": "0.25",
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": "0.75",
    "smsp__average_warps_issue_stalled_drain_per_issue_active.ratio": "0",
}


def table(counters: dict[str, str]) -> str:
    """What `ncu --csv --page raw` prints, with what the program says around it."""
    text = io.StringIO()
    rows = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    rows.writerow(["ID", "Process ID", "Kernel Name", "Block Size", *counters])
    rows.writerow(["", "", "", "", *("inst" for _ in counters)])
    rows.writerow(["0", "77", "sgemm_v3_fast", "(256, 1, 1)", *counters.values()])
    return f"==PROF== Connected to process 77\n2048x2048x2048  error 0\n{text.getvalue()}==PROF== bye\n"


def model_of_v3() -> Model:
    return report("v3")


def test_equal_counters_are_equal() -> None:
    found = model_of_v3()
    rows = compare(None, found.accesses, found.occupancy, read_report(table(COUNTERS))[0])
    assert [row.name for row in rows if row.equal is not True] == []
    assert len(rows) == 11


def test_what_differs_is_marked() -> None:
    found = model_of_v3()
    changed = COUNTERS | {
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": "84,000,000",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "16,700,000",
        "launch__occupancy_limit_shared_mem": "1",
    }
    del changed["smsp__inst_executed_op_shared_st.sum"]
    rows = {
        row.name: row
        for row in compare(None, found.accesses, found.occupancy, read_report(table(changed))[0])
    }
    assert rows["shared load wavefronts"].equal is False
    assert rows["blocks per SM"].equal is False
    # Half a percent of the sectors is within what is asked for.
    assert rows["global load sectors"].equal is True
    assert rows["shared store instructions"].equal is None


def test_stalls_are_named_in_words() -> None:
    assert stalls(read_report(table(COUNTERS))[0]) == (
        ("the fixed delay of its last instruction", 0.75),
        ("other warps at a barrier", 0.25),
    )


def test_metrics_are_asked_for_once() -> None:
    for asynchronous in (False, True):
        asked = metrics(asynchronous)
        assert len(asked) == len(set(asked))
        assert all("{" not in name for name in asked)
        assert set(COUNTERS) <= set(asked)
    assert len(STALLS) == len(set(STALLS.values()))


@pytest.mark.parametrize("text", ["", "==ERROR== no permission\n", '"ID","Kernel Name"\n"",""\n'])
def test_no_report_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no "):
        read_report(text)


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(group, ["profile", LADDER, *words])
    return result.exit_code, result.stdout, result.stderr


def test_a_wrong_report_is_told(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    path.write_text("nothing", encoding="utf-8")
    code, _, errors = run("-s", "v0_naive", "--shape", "64", "--report", str(path))
    assert (code, "G732" in errors) == (1, True)
    code, _, errors = run("-s", "v0_naive", "--shape", "64", "--report", str(tmp_path / "none.csv"))
    assert (code, "cannot read" in errors) == (1, True)


def test_a_report_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    path.write_text(table(COUNTERS), encoding="utf-8")
    code, shown, _ = run("-s", "v3", "--report", str(path))
    assert "shared load wavefronts" in shown
    assert "83,890,000" in shown
    assert "time" in shown
    code, shown, _ = run("-s", "v3", "--report", str(path), "--output-format", "json")
    counters = {row["name"]: row for row in json.loads(shown)["counters"]}
    assert counters["shared load bank conflicts"]["predicted"] == 33_554_432
    assert code == 0


def test_the_script_can_be_run_by_hand() -> None:
    code, shown, _ = run("-s", "v5_async", "-t", "sm_90", "--shape", "512", "--script")
    assert code == 0
    lines = [shlex.split(line) for line in shown.splitlines()]
    assert [words[0] for words in lines] == ["gemmdsl", "nvcc", "ncu", "gemmdsl"]
    assert "regex:^sgemm_v5_async_fast$" in lines[2]
    assert "ldgsts" in shown
