"""Reports of Nsight Compute: read, compared with the model, and shown."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner

from gemmdsl.analysis.access import Access, Count
from gemmdsl.analysis.compiled import Compiled
from gemmdsl.analysis.ncu import STALLS, Comparison, arbitration, compare, metrics, stalls
from gemmdsl.analysis.ncu_report import Measured, SharedCount, read_report, shared_rows
from gemmdsl.cli import group
from gemmdsl.explain.model import Model
from gemmdsl.toolchain import Usage
from tests import examples
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


# As a version of Nsight Compute names them, with a few of the hundred columns of either page.
LABELS = (
    "Address,Source,Warp Stall Sampling (All Samples),Instructions Executed,# Samples,Address Space,"
    "L1 Wavefronts Shared Excessive,L1 Wavefronts Shared,L1 Wavefronts Shared Ideal"
)
NAMES = (
    "Address,Source,smsp__pcsamp_sample_count,inst_executed,smsp__pcsamp_warps_issue_stalled_wait,"
    "memory_type,derived__memory_l1_wavefronts_shared_excessive,memory_l1_wavefronts_shared,"
    "memory_l1_wavefronts_shared_ideal"
)
INSTRUCTIONS = (
    ("      LDS.128 R4, [R2+0x100] ", 8_388_608, 33_554_432, 33_554_432),
    ("@!P0  LDS.U.128 R8, [R3] ", 8_388_608, 50_331_648, 16_777_216),
    ("      STS [R6+UR4], R7 ", 2_097_152, 4_194_304, 2_097_152),
    ("@P1 STS.128 [R6], R8 ", 524_288, 2_097_152, 2_097_152),
    ("      FFMA R1, R2, R3, R1 ", 268_435_456, 0, 0),
    ("      LDG.E.128 R12, desc[UR8][R2.64] ", 1_048_576, 0, 0),
)


def printed(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue()


def table(counters: dict[str, str], kernel: str = "sgemm_v3_fast") -> str:
    """What `ncu --csv --page raw` prints, with what the program says around it."""
    shown = printed(
        [
            ["ID", "Process ID", "Kernel Name", "Block Size", *counters],
            ["", "", "", "", *("inst" for _ in counters)],
            ["0", "77", kernel, "(256, 1, 1)", *counters.values()],
        ]
    )
    return f"==PROF== Connected to process 77\n2048x2048x2048  error 0\n{shown}==PROF== bye\n"


def source(columns: str = LABELS, kernel: str = "sgemm_v3_fast", banner: str = "Kernel Name") -> str:
    """What `ncu --csv --page source --print-source sass` prints."""
    rows = [[banner, kernel], columns.split(",")]
    for number, (text, executed, wavefronts, ideal) in enumerate(INSTRUCTIONS):
        cells = (f"0x7f{number:06x}0", text, "12", executed, "12", "-", wavefronts - ideal, wavefronts, ideal)
        rows.append([str(cell) for cell in cells])
    return printed(rows)


def model_of_v3() -> Model:
    return report("v3")


def compared(text: str) -> dict[str, Comparison]:
    found = model_of_v3()
    rows = compare(None, found.accesses, found.occupancy, read_report(text, "sgemm_v3_fast"))
    return {row.name: row for row in rows}


def test_equal_counters_are_equal() -> None:
    rows = compared(table(COUNTERS))
    assert [name for name, row in rows.items() if row.equal is not True] == []
    assert len(rows) == 11


def test_what_differs_is_marked() -> None:
    changed = COUNTERS | {
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": "84,000,000",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "16,700,000",
        "launch__occupancy_limit_shared_mem": "1",
    }
    del changed["smsp__inst_executed_op_shared_st.sum"]
    rows = compared(table(changed))
    assert rows["shared load wavefronts"].equal is False
    assert rows["blocks per SM"].equal is False
    # Half a percent of the sectors is within what is asked for.
    assert rows["global load sectors"].equal is True
    assert rows["shared store instructions"].equal is None


def test_arbitration_is_told_apart() -> None:
    """The pipe counts stores that waited for loads as conflicts; by instruction they are not there."""
    busy = COUNTERS | {
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": "6,500,000",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": "2,305,696",
    }
    rows = compared(table(busy))
    assert rows["shared store wavefronts"].equal is False
    assert rows["shared store bank conflicts"].equal is False
    rows = compared(table(busy) + source())
    assert rows["shared store wavefronts"].measured == 6_291_456
    assert rows["shared store bank conflicts"].measured == 2_097_152
    assert [name for name, row in rows.items() if row.equal is not True] == []
    loads, stores = arbitration(read_report(table(busy) + source(), "sgemm_v3_fast"))
    assert (loads.kind, loads.wavefronts) == ("load", 83_890_000 - 83_886_080)
    assert (stores.kind, stores.wavefronts) == ("store", 6_500_000 - 6_291_456)
    assert stores.share == pytest.approx(0.0331, abs=5e-5)
    assert arbitration(read_report(table(busy), "sgemm_v3_fast")) == ()
    # Newer versions of the profiler count by instruction on the raw page, too.
    own = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
    busy |= {own.format("ld"): "83,886,080", own.format("st"): "6,291,456"}
    rows = compared(table(busy))
    assert rows["shared store wavefronts"].measured == 6_291_456
    assert rows["shared store bank conflicts"].measured == 2_097_152
    # In the pass that counted conflicts there was a tenth less of it, or else something is wrong.
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"
    for less, equal in ((20_000, True), (40_000, False)):
        rows = compared(table(busy | {conflicts: str(2_305_696 - less)}))
        assert rows["shared store bank conflicts"].equal is equal


@pytest.mark.parametrize("columns", [LABELS, NAMES])
@pytest.mark.parametrize("banner", ["Kernel Name", "Function Name"])
@pytest.mark.parametrize("kernel", ["sgemm_v3_fast", "void sgemm_v3_fast(int, float const *)"])
def test_counts_by_instruction_are_read(columns: str, banner: str, kernel: str) -> None:
    page = source(columns, kernel, banner)
    other = source(columns, "sgemm_v4_fast", banner)
    for text in (table(COUNTERS) + page + other, other + page + table(COUNTERS)):
        found = read_report(text, "sgemm_v3_fast").shared
        assert found == {
            "load": SharedCount(16_777_216, 83_886_080, 50_331_648),
            "store": SharedCount(2_621_440, 6_291_456, 4_194_304),
        }
    # What is kept of a page says the same.
    short = "\n".join(shared_rows(page + other))
    assert read_report(table(COUNTERS) + short, "sgemm_v3_fast").shared == found
    assert len(short) < len(page + other)


def test_the_launch_is_found_by_its_kernel() -> None:
    text = table(COUNTERS) + table({"smsp__inst_executed.sum": "5"}, "other") + table(COUNTERS, "third")
    assert read_report(text, "other").counters == {
        "smsp__inst_executed.sum": 5.0,
        "ID": 0.0,
        "Process ID": 77.0,
    }
    with pytest.raises(ValueError, match="no launch of none was profiled, but other, sgemm_v3_fast, third"):
        read_report(text, "none")


def copies(schedule: str = "v5_async") -> dict[str, Comparison]:
    """Counters of a kernel with asynchronous copies, as measured on an H200."""
    counted = COUNTERS | {
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "2,621,440",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "16,777,216",
        "sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts_cache_access.sum": "2,097,152",
        "sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts_cache_bypass.sum": "524,288",
        "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum": "8,388,608",
        "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_bypass.sum": "8,388,608",
        "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum": "6,291,456",
    }
    page = printed(
        [
            ["Kernel Name", "sgemm_v5_async_fast"],
            ["Source", "L1 Wavefronts Shared"],
            ["LDGSTS.E [R5], desc[UR4][R6.64]", "8,388,608"],
            ["LDGSTS.E.BYPASS.128 [R5+0x10], desc[UR4][R6.64]", "2,097,152"],
        ]
    )
    found = report("v5_async")
    measured = read_report(table(counted, "sgemm_v5_async_fast") + page, "sgemm_v5_async_fast")
    return {row.name: row for row in compare(None, found.accesses, found.occupancy, measured)}


def test_copies_are_loads_from_global_memory() -> None:
    rows = copies()
    for name in ("global load requests", "async copy requests"):
        assert (rows[name].predicted, rows[name].measured) == (2_621_440, 2_621_440)
    for name in ("global load sectors", "async copy sectors"):
        assert (rows[name].predicted, rows[name].measured) == (16_777_216, 16_777_216)
    assert rows["async copy wavefronts"].measured == 10_485_760
    assert rows["async copy wavefronts"].equal is True
    assert rows["async copy bank conflicts"].equal is True
    assert rows["shared store wavefronts"].equal is True


def test_stalls_are_named_in_words() -> None:
    assert stalls(read_report(table(COUNTERS), "sgemm_v3_fast")) == (
        ("the fixed delay of its last instruction", 0.75),
        ("other warps at a barrier", 0.25),
    )


def test_metrics_are_asked_for_once() -> None:
    for asynchronous, adding in product((False, True), repeat=2):
        asked = metrics(asynchronous, adding)
        assert any("_op_red." in name for name in asked) == adding
        assert len(asked) == len(set(asked))
        assert all("{" not in name for name in asked)
        assert set(COUNTERS) <= set(asked)
    assert len(STALLS) == len(set(STALLS.values()))


def test_additions_count_as_reductions_or_atomics() -> None:
    added = Access("global", "add", "C", "add_c", 1, 16, Count(100, 1600, 1600), None, ())
    requests, sectors = (f"l1tex__t_{what}_pipe_lsu_mem_global_op_" for what in ("requests", "sectors"))
    for counters, measured in (
        ({requests + "red.sum": 100.0, sectors + "red.sum": 1600.0}, (100, 1600)),
        ({requests + "red.sum": 0.0, requests + "atom.sum": 100.0}, (100, None)),
        ({}, (None, None)),
    ):
        rows = compare(None, (added,), model_of_v3().occupancy, Measured(counters))
        named = {row.name: row for row in rows}
        assert (named["global add requests"].predicted, named["global add sectors"].predicted) == (100, 1600)
        found = (named["global add requests"].measured, named["global add sectors"].measured)
        assert found == measured
        assert named["global store requests"].predicted == 0


def test_the_main_kernel_is_profiled_among_those_of_a_call() -> None:
    split = str(examples.FOLDER / "split.gemm")
    words = ["profile", split, "-s", "long_k", "--shape", "256x256x1024", "--script"]
    lines = [shlex.split(line) for line in CliRunner().invoke(group, words).stdout.splitlines()]
    assert "regex:^sgemm_long_k_fast$" in lines[2]
    asked = lines[2][lines[2].index("--metrics") + 1].split(",")
    assert "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum" in asked


@pytest.mark.parametrize("text", ["", "==ERROR== no permission\n", source()])
def test_no_report_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no table"):
        read_report(text, "sgemm_v3_fast")


def test_a_line_that_never_ends_is_refused() -> None:
    with pytest.raises(ValueError, match="field larger"):
        read_report("x" * 200_000, "sgemm_v3_fast")


def test_numbers_are_in_base_units() -> None:
    """Times are scaled by default, and other numbers may be."""
    head = '"ID","Kernel Name","gpu__time_duration.sum","dram__bytes.sum","launch__registers_per_thread"\n'
    for units, time, moved in (
        ("ns,byte,register/thread", 5.0, 7.0),
        ("us,Kbyte,register/thread", 5e3, 7e3),
        ("msecond,Mbyte,register/thread", 5e6, 7e6),
        ("s,Gbyte,register/thread", 5e9, 7e9),
    ):
        found = read_report(f'{head}"","",{units}\n"0","v3","5","7","9"\n', "v3").counters
        assert found == {
            "ID": 0.0,
            "gpu__time_duration.sum": time,
            "dram__bytes.sum": moved,
            "launch__registers_per_thread": 9.0,
        }


@pytest.mark.parametrize("cell", ["nan", "inf", "-inf", "1e999", "1_000", "", "n/a", "(!) n/a", "0x10"])
def test_what_is_no_number_is_no_counter(cell: str) -> None:
    text = (
        f'\N{ZERO WIDTH NO-BREAK SPACE}"ID","Kernel Name","a","b"\n"","","",""\n"0","v3","{cell}","1,234.5"\n'
    )
    assert read_report(text, "v3").counters == {"ID": 0.0, "b": 1234.5}


@pytest.mark.parametrize("cell", ["nan", "inf", "many"])
def test_what_is_no_count_is_refused(cell: str) -> None:
    text = table(COUNTERS) + source().replace('"4194304"', f'"{cell}"')
    with pytest.raises(ValueError, match=f"`{cell}` is no number"):
        read_report(text, "sgemm_v3_fast")


def test_a_table_that_was_cut_off_is_told() -> None:
    text = table(COUNTERS)
    for cut in (text[: text.rindex(",")], '"ID","Kernel Name"\n"",""\n'):
        with pytest.raises(ValueError, match="no whole row"):
            read_report(cut, "sgemm_v3_fast")


def test_instructions_are_compared_by_kind() -> None:
    found = model_of_v3()
    counts = {"FFMA": 268_435_456, "shared loads": 16_777_216, "barriers and branches": 2_048}
    usage = Usage("sgemm_v3_fast", "sm_75", 128, 0, 0, 0, 0, 1, 0)
    machine = Compiled("sgemm_v3_fast", "nvcc", usage, found.accesses, {}, counts, {}, 0)
    page = source() + printed([["0x7f0000060", "      EXIT ", "0", "2047", "0", "-", "0", "0", "0"]])
    measured = read_report(table(COUNTERS) + page, "sgemm_v3_fast")
    assert measured.executed is not None
    assert measured.executed["LDS"] == 16_777_216
    rows = {row.name: row for row in compare(machine, found.accesses, found.occupancy, measured)}
    assert rows["instructions: FFMA"].equal
    assert rows["instructions: shared loads"].equal
    assert rows["instructions: barriers and branches"].equal is False
    assert rows["instructions: global loads"].measured == 1_048_576
    # Pages of shared memory alone say nothing of other instructions.
    kept = "\n".join(shared_rows(page))
    part = read_report(f"{table(COUNTERS)}{kept}\n", "sgemm_v3_fast")
    assert part.executed is None
    names = {row.name for row in compare(machine, found.accesses, found.occupancy, part)}
    assert not any(name.startswith("instructions:") for name in names)


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(group, ["profile", LADDER, *words])
    return result.exit_code, result.stdout, result.stderr


def test_a_wrong_report_is_told(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    path.write_text("nothing", encoding="utf-8")
    code, _, errors = run("-s", "v0_naive", "--shape", "64", "--report", str(path))
    assert (code, "G732" in errors) == (1, True)
    code, _, errors = run("-s", "v0_naive", "--shape", "64", "--report", "/dev/zero")
    assert (code, "it has more than" in errors) == (1, True)
    code, _, errors = run("-s", "v0_naive", "--shape", "64", "--report", str(tmp_path / "none.csv"))
    assert (code, "cannot read" in errors) == (1, True)


def test_a_report_without_counters_is_no_comparison(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    path.write_text(table({"another": "5", "smsp__inst_executed.sum": "n/a"}), encoding="utf-8")
    for form in ("text", "json"):
        code, shown, errors = run("-s", "v3", "--report", str(path), "--output-format", form)
        assert (code, shown) == (1, "")
        assert "G732" in errors
        assert "has none of the counters that are compared" in errors


def test_what_is_not_launched_is_not_profiled() -> None:
    for shape in ("0", "0x5x5", "5x0x5"):
        code, shown, errors = run("-s", "v0_naive", "--shape", shape, "--script")
        assert (code, shown) == (1, "")
        assert "G734" in errors


def test_a_script_compares_nothing() -> None:
    code, _, errors = run("-s", "v0_naive", "--script", "--report", "some.csv")
    assert code == 2
    assert "leave --report out" in errors


def test_a_report_is_shown(tmp_path: Path) -> None:
    raw, page = tmp_path / "raw.csv", tmp_path / "source.csv"
    raw.write_text(table(COUNTERS), encoding="utf-8")
    page.write_text(source(), encoding="utf-8")
    _, shown, _ = run("-s", "v3", "--report", str(raw))
    assert "shared load wavefronts" in shown
    assert "83,890,000" in shown
    assert "No counts by instruction" in shown
    assert "time" in shown
    _, shown, _ = run("-s", "v3", "--report", str(raw), "--report", str(page))
    assert re.search(r"arbitration\n +shared loads +3,920 +0.005%\n +shared stores +0 +0.000%\n", shown)
    words = ("-s", "v3", "--report", str(raw), "--report", str(page), "--output-format", "json")
    _, shown, _ = run(*words)
    found = json.loads(shown)
    counters = {row["name"]: row for row in found["counters"]}
    assert counters["shared load bank conflicts"]["predicted"] == 33_554_432
    assert counters["shared load wavefronts"]["measured"] == 83_886_080
    assert found["by_instruction"]["store"]["executed"] == 2_621_440
    assert [one["kind"] for one in found["arbitration"]] == ["load", "store"]


def test_the_script_can_be_run_by_hand() -> None:
    code, shown, _ = run("-s", "v5_async", "-t", "sm_90", "--shape", "512", "--script")
    assert code == 0
    lines = [shlex.split(line) for line in shown.splitlines()]
    assert [words[0] for words in lines] == ["gemmdsl", "nvcc", "ncu", "ncu", "ncu", "gemmdsl"]
    assert "regex:^sgemm_v5_async_fast$" in lines[2]
    assert lines[2][lines[2].index("--export") + 1] == lines[3][lines[3].index("--import") + 1]
    assert lines[4][-2:] == [">>", lines[5][-1]]
    assert "ldgsts" in shown
