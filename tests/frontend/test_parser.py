"""The syntax tree: nodes with the spans of their text, and the way back after an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from gemmdsl import checker, syntax
from gemmdsl.checker import check
from gemmdsl.diagnostics import GemmError
from gemmdsl.parser import MAX_SYNTAX_ERRORS, MAX_TOKENS, parse
from gemmdsl.source import Source, Span
from tests.frontend.texts import HEAD

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.gemm"))


def tree(text: str) -> syntax.File:
    parsed, found = parse(Source("test.gemm", text))
    assert found == ()
    return parsed


def messages(text: str) -> list[str]:
    return [diagnostic.message for diagnostic in parse(Source("test.gemm", text))[1]]


def nodes(node: Any) -> Iterator[Any]:
    """All syntax nodes below one that have a span, each after the node it is in."""
    if isinstance(node, tuple):
        for part in node:
            yield from nodes(part)
    elif is_dataclass(node) and not isinstance(node, Span | Source):
        yield node
        for field in fields(node):
            yield from nodes(getattr(node, field.name))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_span_holds_its_node(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    file = tree(text)

    def inside(node: Any, outer: Span) -> None:
        for child in nodes(tuple(getattr(node, field.name) for field in fields(node))):
            assert outer.start <= child.span.start < child.span.end <= outer.end

    for node in nodes((file.version, file.declarations, file.comments)):
        written = text[node.span.start : node.span.end]
        assert written == written.strip()
        inside(node, node.span)
        match node:
            case syntax.Name(text=name) | syntax.Comment(text=name):
                assert written == name
            case syntax.Number(value=value):
                assert int(written) == value


def test_words_may_be_names() -> None:
    file = tree("gemm 1 problem x {} schedule block extends warp for x on on {} schedule x1 {}")
    assert [declaration.name.text for declaration in file.declarations] == ["x", "block", "x1"]
    file = tree("gemm 1 problem first {} schedule fma extends A for at on snake {} schedule B {}")
    assert [declaration.name.text for declaration in file.declarations] == ["first", "fma", "B"]


@pytest.mark.parametrize(
    "extents", ["128x64x8", "128 x 64 x 8", "128x 64x 8", "128 x64 x8", "128\nx 64\nx 8"]
)
def test_extents_may_be_written_close(extents: str) -> None:
    schedule = tree(f"gemm 1 schedule s {{ block {extents} }}").declarations[0]
    assert isinstance(schedule, syntax.ScheduleDecl)
    option = schedule.options[0]
    assert isinstance(option, syntax.Option)
    assert isinstance(option.setting, syntax.Block)
    assert [number.value for number in option.setting.extents.numbers] == [128, 64, 8]


def test_several_errors_are_found_in_one_run() -> None:
    text = """gemm 1
schedule a for p on sm_75 { block 8 x , thread 2 x 2 warp ? lanes 4 x }
schedule b for p on sm_75 { stage A { pad pad 3 vector } buffers }
"""
    assert messages(text) == [
        "expected a number, found `,`",
        "expected a number, found `?`",
        "expected a number, found `}`",
        "expected a number, found `pad`",
        "expected a number, found `}`",
        "expected a number, found `}`",
    ]


def test_what_is_around_an_error_is_read() -> None:
    file, found = parse(Source("test.gemm", "gemm 1 schedule a { block 8 x ! thread 2 x 2 } schedule b {}"))
    first, second = file.declarations
    assert [diagnostic.code for diagnostic in found] == ["G010"]
    assert isinstance(first, syntax.ScheduleDecl)
    assert isinstance(first.options[-1], syntax.Option)
    assert isinstance(first.options[-1].setting, syntax.Thread)
    assert second.name.text == "b"


def test_a_mistyped_word_is_read_as_the_word_that_was_meant() -> None:
    file, found = parse(Source("test.gemm", "gemm 1 schedule a { blokc 8 x 8 }"))
    assert [diagnostic.message for diagnostic in found] == ["unknown word `blokc`; did you mean `block`?"]
    schedule = file.declarations[0]
    assert isinstance(schedule, syntax.ScheduleDecl)
    assert isinstance(schedule.options[0], syntax.Option)
    assert isinstance(schedule.options[0].setting, syntax.Block)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gemm 1 schedule a { block 8 x 8 schedule b {}", "expected `}` before `schedule`"),
        ("gemm 1 schedule a { stage A { pad 1", "expected `}` before the end of the file"),
        ("gemm 1 schedule a block 8 x 8 }", "expected `{` before `block`"),
        ("gemm 1 problem p { A: f32[M, K] cool B: f32[K, N] }", "`cool` is neither an order (`row`, `col`)"),
        ("gemm 1 schedule a { fragments 2 b first }", "unknown word `b`; did you mean `B`?"),
        ("gemm 1 schedule a { fragments 2 blokc 8 x 8 }", "unknown word `blokc`; did you mean `block`?"),
        ("gemm 1 schedule a { fragments 2 C first }", "unknown word `C`"),
        ("gemm 1 schedule a { fragment 2 }", "unknown word `fragment`; did you mean `fragments`?"),
        ("gemm 1 schedule a { fma along N snaek }", "unknown word `snaek`; did you mean `snake`?"),
        ("gemm 1 schedule a { fma N }", "unknown word `N`"),
        ("gemm 1 schedule a { buffers 2 at 1 }", "`at` cannot stand here"),
        ("gemm 1 schedule a { buffers 2 async at }", "expected a number, found `}`"),
        ("gemm 1 tune p {}", "unknown word `tune`"),
        ("gemm 1 }", "expected `problem`, `schedule` or the end of the file, found `}`"),
        ("gemm one", "expected a number, found `one`"),
        ("gemm 1 schedule a { buffers 2 vector 4 }", "`vector` cannot stand here"),
        (
            "\u201cgemm\u201d 1",
            "expected `gemm`, `problem`, `schedule` or the end of the file, found `\u201c`",
        ),
    ],
)
def test_messages(text: str, expected: str) -> None:
    assert messages(text)[0].startswith(expected)


def test_a_flood_of_errors_is_cut_short() -> None:
    found = parse(Source("test.gemm", "gemm 1 schedule s { " + "block ! " * 500 + "}"))[1]
    assert len(found) == MAX_SYNTAX_ERRORS + 1
    assert found[-1].code == "G019"


def test_what_is_not_read_after_a_flood_is_not_missed() -> None:
    text = f"gemm 1 schedule s for p on sm_80 {{ block 8 x 8 {'; ' * 60} }} {SHAPES}"
    assert {d.code for d in check(Source("test.gemm", text))} == {"G010", "G019"}


@pytest.mark.parametrize("sign", [",", ";"])
@pytest.mark.parametrize("end", ["", "\n", " # the end\n"])
def test_a_sign_at_the_end_loses_nothing(sign: str, end: str) -> None:
    source = Source("test.gemm", f"gemm 1 {SHAPES} schedule s for p on sm_80 {{ block 8 x 8 }}{sign}{end}")
    expected = f"`{sign}` is not needed here: words and numbers follow each other without it"
    tree, found = parse(source)
    assert ([d.message for d in found], len(tree.declarations), tree.broken) == ([expected], 2, ())
    assert [d.code for d in check(source)] == ["G010"]


def test_a_flood_of_words_is_cut_short() -> None:
    found = parse(Source("test.gemm", "gemm 1 problem p { C: f32[M, N] = a" + "+a" * (MAX_TOKENS // 2)))[1]
    assert [diagnostic.code for diagnostic in found] == ["G004"]


def test_deep_nesting_is_an_error_like_any_other() -> None:
    assert messages(HEAD + "schedule s for p on sm_75 " + "{" * 20_000)
    assert messages("(" * 20_000)


def test_numbers_have_a_longest_length() -> None:
    assert messages("gemm 1 schedule s { block " + "9" * 5000 + " x 1 }") == [
        "a number of 5000 digits is longer than any size can be"
    ]


SHAPES = "problem p { A: f32[M, K]  B: f32[K, N]  C: f32[M, N] = A @ B }"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("block 64*64 x 8 thread 4 x 4", "extents have `x` between them, as in `128 x 128 x 8`, not `*`"),
        ("block 64, 64 x 8 thread 4 x 4", "extents have `x` between them, as in `128 x 128 x 8`, not `,`"),
        ("block 64 X 64 x 8 thread 4 x 4", "extents have `x` between them, as in `128 x 128 x 8`, not `X`"),
        (
            "block 64 \xd7 64 x 8 thread 4 x 4",
            "extents have `x` between them, as in `128 x 128 x 8`, not `\xd7`",
        ),
        (
            "block 64 x 64 x 8; thread 4 x 4",
            "`;` is not needed here: words and numbers follow each other without it",
        ),
        (
            "block 64 x 64 x 8, thread 4 x 4",
            "`,` is not needed here: words and numbers follow each other without it",
        ),
        (
            "block = 64 x 64 x 8 thread 4 x 4",
            "`=` is not needed here: words and numbers follow each other without it",
        ),
        (
            "block: 64 x 64 x 8 thread 4 x 4",
            "`:` is not needed here: words and numbers follow each other without it",
        ),
    ],
)
def test_what_other_languages_write_is_told_and_understood(text: str, expected: str) -> None:
    source = Source("test.gemm", f"gemm 1 {SHAPES} schedule s for p on sm_80 {{ {text}  buffers 3 }}")
    assert [d.message for d in parse(source)[1]] == [expected]
    assert [d.code for d in check(source)] == ["G010", "G403"]


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (
            SHAPES.replace("B: f32[K, N]", "B: f32[K, 37]"),
            "`N` here, not `37`: sizes come with each call; a schedule may say `assume N % 37 == 0`",
        ),
        (
            SHAPES.replace("A: f32[M, K]", "A: f32[64, K]"),
            "`M` here, not `64`: sizes come with each call; a schedule may say `assume M % 64 == 0`",
        ),
        (SHAPES.replace("A: f32[M, K]", "A: f32[1, K]"), "`M` here, not `1`: sizes come with each call"),
    ],
)
def test_a_size_in_a_shape(shapes: str, expected: str) -> None:
    source = Source("test.gemm", f"gemm 1 {shapes} schedule s for p on sm_80 {{ block 8 x 8 buffers 0 }}")
    assert [d.message for d in parse(source)[1]] == [f"a shape names axes, {expected}"]
    assert [d.code for d in check(source)] == ["G010", "G401"]


def test_a_piece_that_is_cut_short_takes_an_x() -> None:
    _, (wrong,) = parse(Source("test.gemm", "gemm 1 schedule a { thread 4x4 as 2 vector 4 }"))
    assert str(wrong.notes[0]).startswith("known here: x, block, ")


def test_a_text_that_ends_amid_an_error_is_refused_and_no_more() -> None:
    text = (
        "gemm 1\nproblem p {\n  A: f32[M, K] col\n  B: f32[K\n  B: f32[K, N] col\n  C: f32[M, N] = A @ B\n}\n"
        "schedule s for p on sm_80 {\n  block 16 x 8 x 3\n  thread 4 x 1\n},\n"
    )
    with pytest.raises(GemmError):
        checker.loads(text, "x")
