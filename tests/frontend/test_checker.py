"""Names and structure: what a file declares, and what it names."""

from __future__ import annotations

from time import process_time

import pytest

from gemmdsl.checker import check, loads
from gemmdsl.diagnostics import GemmError, Severity
from gemmdsl.reader import MAX_BYTES
from gemmdsl.source import Source
from gemmdsl.spec import Order
from tests.frontend.texts import HEAD, PROBLEM, codes

ONE = "schedule one for p on sm_75 { block 8 x 8 }\n"
TWO = "schedule two for p on sm_80 { block 16 x 16 }\n"


def test_a_program() -> None:
    program = loads(HEAD + ONE + TWO)
    assert program.schedules == ("one", "two")
    assert list(program.problems) == ["p"]
    spec = program.spec("two")
    assert (spec.symbol, spec.target.name, spec.language) == ("p_two", "sm_80", 1)
    assert program.spec("two", target="sm_120").target.name == "sm_120"
    assert program.check() == ()


def test_one_schedule_need_not_be_named() -> None:
    assert loads(HEAD + ONE).spec().schedule.name == "one"


@pytest.mark.parametrize(
    ("text", "schedule", "target", "expected"),
    [
        (HEAD + ONE + TWO, None, None, "there are 2 schedules: name one"),
        (HEAD, None, None, "there is no schedule"),
        (HEAD + ONE, "v7", None, "there is no schedule `v7`"),
        (HEAD + ONE, "onee", None, "there is no schedule `onee`; did you mean `one`?"),
        (HEAD + ONE, "one", "sm_74", "there is no target `sm_74`; did you mean `sm_75`?"),
        (HEAD + ONE, "one", "", "there is no target ``"),
    ],
)
def test_what_is_asked_for_must_exist(text: str, schedule: str, target: str, expected: str) -> None:
    with pytest.raises(GemmError) as wrong:
        loads(text).spec(schedule, target)
    assert wrong.value.diagnostics[0].message == expected


@pytest.mark.parametrize(
    ("body", "alpha", "beta"),
    [
        ("A @ B", False, False),
        ("alpha * A @ B", True, False),
        ("A @ B + beta * C", False, True),
        ("alpha * A @ B + beta * C", True, True),
    ],
)
def test_products(body: str, alpha: bool, beta: bool) -> None:
    text = f"gemm 1 problem p {{ C: f32[M, N] col = {body} B: f32[K, N] A: f32[M, K] col }}"
    problem = loads(text).problems["p"]
    assert (problem.alpha, problem.beta) == (alpha, beta)
    assert (problem.a.order, problem.b.order, problem.c.order) == (Order.COLUMN, Order.ROW, Order.COLUMN)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("A: f32[M, K] B: f32[K, N] C: f32[M, N]", ["G111"]),
        ("A: f32[M, K] B: f32[K, N] C: f32[M, N] = B @ A", ["G111"]),
        ("A: f32[M, K] B: f32[K, N] C: f32[M, N] = A * B", ["G111"]),
        ("A: f32[M, K] B: f32[K, N] C: f32[M, N] = A @ B + C", ["G111"]),
        ("A: f32[M, K] B: f32[K, N] C: f32[M, N] = A @ B + beta * C + beta * C", ["G111"]),
        ("A: f32[M, K] = A @ B B: f32[K, N] C: f32[M, N] = A @ B", ["G111"]),
        ("A: f32[M, K] C: f32[M, N] = A @ B", ["G112"]),
        ("", ["G112"]),
        ("A: f32[M, K] A: f32[M, K] B: f32[K, N] C: f32[M, N] = A @ B", ["G101"]),
        ("A: f32[M, K] B: f32[K, N] D: f32[K, N] C: f32[M, N] = A @ B", ["G113"]),
        ("a: f32[M, K] B: f32[K, N] C: f32[M, N] = A @ B", ["G112", "G113"]),
        ("A: f64[M, K] B: f32[N, K] C: f32[M, Q] = A @ B", ["G110", "G119", "G119", "G119"]),
    ],
)
def test_problems_that_are_wrong(body: str, expected: list[str]) -> None:
    assert sorted(codes(f"gemm 1 problem p {{ {body} }}")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PROBLEM + ONE, ["G020"]),
        (f"gemm 2\n{PROBLEM}{ONE}", ["G021"]),
        (f"{HEAD}{PROBLEM}{ONE}", ["G101"]),
        (HEAD + ONE + ONE, ["G101"]),
        (f"{HEAD}schedule s for q on sm_75 {{ block 8 x 8 }}", ["G102"]),
        (f"{HEAD}schedule s extends t {{}}", ["G103"]),
        (f"{HEAD}schedule s extends s {{}}", ["G104"]),
        (f"{HEAD}schedule s for p on sm_7 {{ block 8 x 8 }}", ["G105"]),
        (f"{HEAD}schedule s {{ block 8 x 8 }}", ["G106", "G106"]),
        (f"{HEAD}schedule s for p on sm_75 {{}}", ["G108"]),
        (f"{HEAD}{ONE}schedule s extends one {{ no block }}", ["G108"]),
        (f"{HEAD}schedule s for p on sm_75 {{ block 8 }}", ["G114"]),
        (f"{HEAD}schedule s for p on sm_75 {{ block 8 x 8 x 8 x 8 thread 1 as 1 x 1 }}", ["G114", "G114"]),
        (f"{HEAD}schedule s for p for p on sm_75 on sm_75 {{ block 8 x 8 }}", ["G115", "G115"]),
        (f"{HEAD}schedule s for p on sm_75 {{ block 8 x 8 stage C {{}} store A {{}} }}", ["G113", "G113"]),
        (
            f"{HEAD}schedule s for p on sm_75 {{ block 8 x 8 assume X % 4 == 0 assume aligned M }}",
            ["G113", "G113"],
        ),
        (
            f"{HEAD}schedule s for p on sm_75 {{ block 8 x 8 store C {{ load vector 4 pad 1 }} }}",
            ["G117", "G117"],
        ),
        (f"{HEAD}{ONE}schedule s extends one {{ no stage C }}", ["G113"]),
    ],
)
def test_structure_that_is_wrong(text: str, expected: list[str]) -> None:
    assert sorted(codes(text)) == expected


@pytest.mark.parametrize(
    "name", ["int", "float4", "for_", "threadIdx", "schedules", "main", "v1", "x", "gemm"]
)
def test_names(name: str) -> None:
    expected = ["G120"] if name == "for_" else []
    assert codes(f"{HEAD}schedule {name} for p on sm_75 {{ block 8 x 8 }}") == expected


@pytest.mark.parametrize("name", ["_s", "s_", "a__b", "x" * 65])
def test_names_that_cpp_reserves(name: str) -> None:
    assert codes(f"{HEAD}schedule {name} for p on sm_75 {{ block 8 x 8 }}") == ["G120"]


def test_names_of_functions_are_unique() -> None:
    second = PROBLEM.replace("problem p", "problem p_q")
    text = HEAD + second + "schedule r for p_q on sm_75 { block 8 x 8 }"
    text += "schedule q_r for p on sm_75 { block 8 x 8 }"
    assert codes(text) == ["G121"]
    size = HEAD.replace("problem p", "problem size")
    assert codes(f"{size}schedule t for size on sm_75 {{ block 8 x 8 }}") == ["G121"]


def test_syntax_errors_do_not_hide_other_mistakes() -> None:
    text = (
        f"{HEAD}schedule a for p on sm_75 {{ blok 8 x 8 x ! }}\nschedule b for q on sm_75 {{ block 8 x 8 }}\n"
    )
    text += "schedule c extends a {}"
    assert codes(text) == ["G011", "G010", "G102"]


def _crowd(unit: str) -> str:
    """A file as large as may be of schedules like one, `#` being its number."""
    base = "schedule b for p on sm_90 { block 128 x 128 x 8  thread 8 x 8  buffers 2 }\n"
    room = MAX_BYTES - len(HEAD + base)
    return HEAD + base + "".join(unit.replace("#", str(i)) for i in range(room // (len(unit) + 8)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "schedule s# extends t# {}\n",
        "schedule aaaaaa# extends aaaaab# {}\n",
        "schedule s# for q# on t# {}\n",
        "schedule s# extends b {}\n",
        "schedule s# extends b { block 1024 x 102# x 256  thread 7 x #  min_blocks 3  buffers 2 }\n",
        "schedule s# extends b { block # x 96 x 8  prefer stage A { swizzle  pad #  read vector 2 } }\n",
    ],
)
def test_the_largest_files_are_checked_in_seconds(unit: str) -> None:
    source = Source("crowd.gemm", _crowd(unit))
    start = process_time()
    check(source)
    assert process_time() - start < 5


def test_advice_has_an_end() -> None:
    options = "block {} x 256 x 8  thread 8 x 8  min_blocks 32"
    broken = "\n".join(f"schedule s{i} for p on sm_75 {{ {options.format(9 + 2 * i)} }}" for i in range(60))
    found = [d for d in check(Source("test.gemm", HEAD + broken)) if d.code == "G204"][:20]
    advised = [any(note.label == "nearest legal" for note in d.notes) for d in found]
    assert (advised[0], advised[-1]) == (True, False), advised


def test_an_unused_problem_is_a_warning() -> None:
    (warning,) = check(Source("test.gemm", HEAD))
    assert (warning.code, warning.severity) == ("G801", Severity.WARNING)
    assert loads(HEAD).schedules == ()


@pytest.mark.parametrize(
    ("text", "place"), [("", None), (" \n", None), ("\n # no more\n", (2, 2)), ("\ngemm 1", (2, 1))]
)
def test_a_file_with_nothing_in_it(text: str, place: tuple[int, int] | None) -> None:
    (wrong,) = check(Source("test.gemm", text))
    assert (wrong.code, wrong.position) == ("G005", place)


@pytest.mark.parametrize("sign", [",", ";"])
def test_a_file_of_signs_that_are_not_needed(sign: str) -> None:
    found = check(Source("test.gemm", f"\n {sign}\n"))
    assert sorted((wrong.code, wrong.position) for wrong in found) == [("G005", (2, 2)), ("G010", (2, 2))]
