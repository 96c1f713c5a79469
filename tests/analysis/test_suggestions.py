"""Suggestions as changes of a file: diffs that tools apply, names that are free, words that were dropped."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gemmdsl import checker
from gemmdsl.analysis.shape import tight
from gemmdsl.explain.advice import as_diff, suggestions
from gemmdsl.explain.model import model

# A line of a comment has what some take for ends of lines.
CHANGED = """gemm 1
problem sgemm {{
  A: f32[M, K]
  B: f32[K, N]
  C: f32[M, N] = A @ B
}}
schedule {name} for sgemm on sm_75 {{  # \f and \u2028 and \x85 and \x1c <b>
  block 128 x 128 x 8
  thread 8 x 8
  stage A {{ vector 4  transpose }}
  stage B {{ vector 4 }}
  prefer buffers 3 async
}}
{more}"""


def applied(folder: Path, file: str, diff: str) -> bytes:
    """The file after a tool has applied the diff."""
    (folder / "change.diff").write_bytes(diff.encode())
    subprocess.run(["git", "apply", "-p0", "--recount", "change.diff"], cwd=folder, check=True)
    return (folder / file).read_bytes()


@pytest.mark.parametrize(
    ("name", "end", "newline"),
    [
        ("a.gemm", "\n", "\n"),
        ("a name.gemm", "", "\n"),
        ("a.gemm", " # <end>", "\r\n"),
        ("a name.gemm", "\n\n", "\r\n"),
    ],
)
def test_diffs_can_be_applied(
    name: str, end: str, newline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text_ = CHANGED.format(name="v", more="").rstrip("\n") + end
    Path(name).write_bytes(text_.replace("\n", newline).encode())
    program = checker.load(name)
    (first, *_) = suggestions(program, program.spec("v"))
    made = applied(tmp_path, name, as_diff(program, first)).decode()
    expected = f"{text_}{'' if text_.endswith(chr(10)) else chr(10)}\n{first.text}"
    assert made == expected.replace("\n", newline)
    assert checker.load(name).spec(first.name) == first.spec


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("v" * 64, "", "v" * 52 + "_suggested_1"),
        ("v" * 51 + "_" + "v" * 12, "", "v" * 51 + "_suggested_1"),
        ("v", "schedule v_suggested_1 extends v {}\n", "v_suggested_2"),
        (
            "w_v",
            """
problem sgemm_w {
  A: f32[M, K]
  B: f32[K, N]
  C: f32[M, N] = A @ B
}
schedule v_suggested_1 extends w_v for sgemm_w {}
""",
            "w_v_suggested_2",
        ),
    ],
)
def test_suggestions_have_names_that_can_be_added(name: str, more: str, expected: str) -> None:
    program = checker.loads(CHANGED.format(name=name, more=more))
    found = suggestions(program, program.spec(name))
    assert found
    assert found[0].name == expected
    together = program.source.text + "".join(f"\n{one.text}" for one in found)
    assert set(checker.loads(together).schedules) >= {one.name for one in found}


def test_suggestions_for_another_target_name_it() -> None:
    """Padding that sm_90 has room for is too much for sm_75, which the file names."""
    text = CHANGED.format(name="v", more="").replace("128 x 128 x 8", "128 x 128 x 32")
    program = checker.loads(text.replace("prefer buffers 3 async", "buffers 2"))
    for target, named in ((None, ""), ("sm_75", ""), ("sm_90", " on sm_90")):
        found = suggestions(program, program.spec("v", target))
        assert found
        for one in found:
            assert one.text.startswith(f"schedule {one.name} extends v{named} {{\n")
            assert checker.loads(f"{program.source.text}\n{one.text}").check() == ()


def test_advice_keeps_to_what_a_fallback_leaves() -> None:
    """Words that were dropped are no obstacle to changes of what took their place."""
    program = checker.loads(CHANGED.format(name="v", more=""))
    spec = program.spec("v")
    assert spec.fallbacks
    plain = checker.loads(program.source.text.replace("prefer buffers 3 async", ""))
    shape = tight(spec.problem, 512, 512, 512)
    found, other = (
        model(one, one.spec("v"), shape, compile=False, suggest=True).suggested for one in (program, plain)
    )
    assert found
    assert other
    assert [one.text for one in found] == [one.text for one in other]
