"""What `check_kernel` finds in kernels that somebody edited, how small it makes it, and what it keeps."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import gemmdsl
from gemmdsl.api import CompiledKernel
from gemmdsl.cli import group
from gemmdsl.spec import LaneOrder, Spec
from gemmdsl.testing import Settings, assert_kernel_matches_numpy, check_kernel
from gemmdsl.testing.case import make_case
from gemmdsl.testing.failures import save, saved_cases
from gemmdsl.testing.shrink import shrink
from gemmdsl.testing.simplify import simplify

TEXT = """\
gemm 1

problem sgemm {
  A: f32[M, K]
  B: f32[K, N]
  C: f32[M, N] = alpha * A @ B + beta * C
}

schedule tiny for sgemm on sm_80 {
  block 16 x 8 x 4
  thread 4 x 2
  stage B { vector 4 }
  buffers 2
}
"""
QUICK = Settings(examples=20, cached=False)


@pytest.fixture(scope="module")
def kernel() -> CompiledKernel:
    return gemmdsl.loads(TEXT, "tiny.gemm").compile()


def _edited(kernel: CompiledKernel, pattern: str, replacement: str) -> CompiledKernel:
    text, count = re.subn(pattern, replacement, kernel.source)
    assert count, pattern
    return kernel.with_source(text)


def test_a_right_kernel_is_right_on_every_path(kernel: CompiledKernel) -> None:
    report = check_kernel(kernel, QUICK)
    assert report.failure is None
    assert not report.unmet
    assert report.cases > 60
    assert report.calls > 20


def test_whole_tiles_are_met_where_what_is_assumed_is_no_whole_tile() -> None:
    text = TEXT.replace("buffers 2", "buffers 2  assume M % 6 == 0  assume N % 12 == 0")
    kernel = gemmdsl.loads(text, "tiny.gemm").compile()
    report = check_kernel(kernel, Settings(examples=0, cached=False))
    assert report.failure is None
    assert not report.unmet


def test_progress_adds_up(kernel: CompiledKernel) -> None:
    from gemmdsl.testing.engine import steps

    done: list[int] = []
    check_kernel(kernel, QUICK, done.append)
    assert sum(done) == steps(kernel, QUICK)


@pytest.mark.parametrize(
    ("pattern", "replacement", "kind"),
    [
        (r"(?s)__syncthreads\(\);(?!.*__syncthreads)", ";", "race init"),
        (r"const bool vectors = [^;]*;", "const bool vectors = true;", "align"),
        (r"m < m_left \?", "true ?", "memory"),
        (r"if \(beta != 0\.0f\)", "if (true)", "init"),
        (r"scale \* acc", "acc", "result"),
        (r"if \(ldc < N \|\| ldc < 1\) return LEADING_DIMENSION;", "", "status"),
        (r"(?s)(?=store_c<FULL(?!.*store_c<FULL))", "if (thread > 0) __syncthreads();", "launch"),
    ],
)
def test_faults_are_found_and_named(
    kernel: CompiledKernel, pattern: str, replacement: str, kind: str
) -> None:
    failure = check_kernel(_edited(kernel, pattern, replacement), QUICK).failure
    assert failure is not None
    assert {finding.kind for finding in failure.findings} <= set(kind.split()), failure


SHARED = """
schedule shared for sgemm on sm_90 {
  block 16 x 8 x 4
  thread 4 x 4
  stage A { vector 4 transpose }
  stage B { vector 4 }
  store C { vector 4 }
  WORDS
}
"""


# Sums of parts go to C word by word, whatever its alignment.
@pytest.mark.parametrize(
    ("words", "operand"),
    [
        (words, name)
        for words in ("", "split_k 3 atomic", "split_k 3")
        for name in "ABC"[: 3 - (words[-1:] == "3")]
    ],
)
def test_each_operand_is_the_only_one_without_vectors(words: str, operand: str) -> None:
    text = TEXT.split("schedule")[0] + SHARED.replace("WORDS", words)
    kernel = gemmdsl.loads(text, "shared.gemm").compile()
    for pattern, replacement in (
        (rf"(aligned\({operand}, )ld\w", r"\g<1>4"),
        (rf"aligned\({operand}(?=, ld)", "aligned(nullptr"),
    ):
        wrong = _edited(kernel, pattern, replacement)
        failure = check_kernel(wrong, Settings(examples=0, cached=False, shrink=False)).failure
        assert failure is not None
        assert failure.findings[0].kind == "align"
        assert failure.case is not None
        assert failure.case.entry == ""


def test_parts_are_summed_in_their_order() -> None:
    text = TEXT.split("schedule")[0] + SHARED.replace("WORDS", "split_k 4")
    kernel = gemmdsl.loads(text, "shared.gemm").compile()
    assert check_kernel(kernel, Settings(examples=0, cached=False)).failure is None
    for order in ("(PARTS - 1 - part)", "(part ^ 2)", "(part == 0 ? 0 : PARTS - part)"):
        wrong = _edited(kernel, r"part \* part_floats", f"{order} * part_floats")
        failure = check_kernel(wrong, Settings(examples=0, cached=False)).failure
        assert failure is not None
        assert "of K are not summed in their order" in str(failure)


def test_a_failure_is_small(kernel: CompiledKernel) -> None:
    failure = check_kernel(_edited(kernel, r"scale \* acc", "acc"), QUICK).failure
    assert failure is not None
    case = failure.case
    assert case is not None
    assert (case.m, case.n, case.k) == (1, 1, 1)
    assert (case.lda, case.ldb, case.ldc) == (1, 1, 1)
    assert case.alpha != 1
    assert case.beta == case.offset_a == case.offset_b == case.offset_c == 0


def test_what_is_not_watched_is_judged_by_its_result(kernel: CompiledKernel) -> None:
    wrong = _edited(kernel, r"__syncthreads\(\);", ";")
    failure = check_kernel(wrong, Settings(examples=20, sanitize=("align",), cached=False)).failure
    assert failure is not None
    assert {finding.kind for finding in failure.findings} == {"result"}
    assert failure.sanitize == ""


def test_what_comes_behind_an_unwanted_finding_is_found(kernel: CompiledKernel) -> None:
    # The first thing that happens without barriers is a read of what nobody wrote.
    wrong = _edited(kernel, r"__syncthreads\(\);", ";")
    failure = check_kernel(wrong, Settings(examples=20, sanitize=("race",), cached=False)).failure
    assert failure is not None
    assert failure.sanitize == "race"


def test_a_wrong_element_is_named(kernel: CompiledKernel) -> None:
    from gemmdsl.testing import run_case

    wrong = _edited(kernel, r"fmaf\(a\[i\], b\[j\]", "fmaf(a[i], b[THREAD_N - 1 - j]")
    case = make_case(kernel.spec.problem, 1, 2, 3, operands="pick-b")
    outcome = run_case(wrong.cuda, case, cached=False)
    assert re.search(r"it is B\[\d, [01]\] where B\[\d, [01]\] belongs", outcome.findings[0].message)


def _told(kernel: CompiledKernel, folder: Path) -> list[str]:
    """The words of the command that the assertion names."""
    with pytest.raises(AssertionError) as caught:
        assert_kernel_matches_numpy(kernel, examples=5, failures=folder)
    message = str(caught.value)
    assert "tiny for sm_80: result: " in message
    command = message.splitlines()[-1].removeprefix("repeat with: ")
    return shlex.split(command)


def test_the_assertion_says_how_to_repeat_it(kernel: CompiledKernel, tmp_path: Path) -> None:
    folder = tmp_path / "failures"
    assert_kernel_matches_numpy(kernel, examples=5, failures=folder)
    assert not folder.exists()
    words = _told(_edited(kernel, r"scale \* acc", "acc"), folder)
    assert words[:2] == ["gemmdsl", "run"]
    assert words[words.index("--source") + 1].endswith(".cu")
    again = CliRunner().invoke(group, words[1:])
    assert (again.exit_code, "WRONG" in again.output) == (1, True)


def test_the_assertion_names_the_file_that_has_the_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tiny.gemm"
    path.write_text(TEXT)
    loaded = gemmdsl.load(path).compile("tiny")
    wrong = _edited(loaded, r"scale \* acc", "acc")
    # As if the compiler had emitted it.
    monkeypatch.setattr("gemmdsl.api.compile_spec", lambda spec: wrong.cuda)
    words = _told(wrong, tmp_path / "failures")
    assert words[:7] == ["gemmdsl", "run", str(path), "--schedule", "tiny", "--target", "sm_80"]
    assert not (tmp_path / "failures").exists()


def test_shrinking_keeps_what_the_failure_needs(kernel: CompiledKernel) -> None:
    problem, plan = kernel.spec.problem, kernel.launch_plan
    case = make_case(problem, 40, 30, 50, alpha=0.7, beta=1.3, operands="special", seed=9, offset_b=3)
    case = case.changed(lda=60, ldc=37, order="seeded")
    small = shrink(case, problem, plan, lambda one: one.m >= 17 and one.k >= 5 and one.lda > one.k)
    assert (small.m, small.n, small.k) == (17, 0, 5)
    assert small.lda > 5
    assert (small.ldc, small.offset_b, small.operands, small.seed) == (1, 0, "integers", 0)
    assert (small.alpha, small.beta, small.order) == (1.0, 0.0, "forward")


def test_schedules_become_plain() -> None:
    text = TEXT.replace("A: f32[M, K]", "A: f32[M, K] col").replace(
        "thread 4 x 2", "warp 16 x 8 lanes 4 x 8 column thread 4 x 1"
    )
    spec = gemmdsl.loads(text).spec()
    assert spec.schedule.lane_order is LaneOrder.COLUMN

    def fails(candidate: Spec) -> bool:
        return candidate.schedule.warp is not None and candidate.schedule.thread_m == 4

    plain = simplify(spec, fails)
    assert fails(plain)
    assert not plain.schedule.staged
    assert plain.schedule.buffers == 1
    assert plain.problem.a.order.value == "row"


def test_a_saved_failure_repeats_itself(kernel: CompiledKernel, tmp_path: Path) -> None:
    wrong = _edited(kernel, r"scale \* acc", "acc")
    failure = check_kernel(wrong, QUICK).failure
    assert failure is not None
    assert failure.case is not None
    folder = tmp_path / "a" / "b"
    saved = save(folder, kernel.spec, failure.case, failure.findings, wrong.source)
    assert saved.path.parent == folder
    assert saved.command in saved.path.read_text()
    assert list(saved_cases(folder, kernel.spec)) == [failure.case]
    # The same failure is kept once.
    assert save(folder, kernel.spec, failure.case, failure.findings, wrong.source) == saved
    assert len(list(folder.iterdir())) == 3
    again = CliRunner().invoke(group, saved.command.split()[1:])
    assert again.exit_code == 1
    assert "WRONG" in again.output
    right = CliRunner().invoke(
        group,
        [word for word in saved.command.split()[1:] if "source" not in word and not word.endswith(".cu")],
    )
    assert right.exit_code == 0, right.output


def test_files_that_are_no_failures_are_passed_over(kernel: CompiledKernel, tmp_path: Path) -> None:
    for turn, text in enumerate(("", "{", "[]", '{"format": 2}', '{"format": 1, "schedule": "sgemm_tiny"}')):
        (tmp_path / f"sgemm_tiny-{turn}.json").write_text(text)
    (tmp_path / "sgemm_tiny-9.json").mkdir()
    assert list(saved_cases(tmp_path, kernel.spec)) == []
    assert list(saved_cases(tmp_path / "missing", kernel.spec)) == []
