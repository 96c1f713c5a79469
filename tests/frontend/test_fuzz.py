"""No text, however mangled, leads to anything but diagnostics."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gemmdsl.checker import check
from gemmdsl.diagnostics import GemmError, render_all
from gemmdsl.formatter import format_source
from gemmdsl.reader import source_of
from gemmdsl.reports import FORMATS, report
from gemmdsl.source import Source

ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "examples").glob("*.gemm")), ROOT / "docs" / "mistakes.gemm"]
TEXTS = [path.read_text(encoding="utf-8") for path in FILES]
WORDS = sorted({word for text in TEXTS for word in text.split()})
ODD = [
    "{",
    "}",
    "0",
    "-1",
    "9" * 30,
    "9" * 60,
    "no",
    "prefer",
    "schedule",
    "problem",
    "é",
    "\0",
    "\t",
    "#",
    "$",
]


@st.composite
def mangled(draw: st.DrawFn) -> str:
    """An example with some words dropped, doubled, exchanged or replaced."""
    words = draw(st.sampled_from(TEXTS)).split(" ")
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, len(words) - 1))
        kept = draw(st.sampled_from([[], [words[place]] * 2, [words[place]]]))
        put = draw(st.lists(st.sampled_from(WORDS + ODD), max_size=2))
        words[place : place + 1] = [*kept, *put]
        words = words or [""]
    return " ".join(words)


def survives(source: Source) -> str:
    found = check(source)
    for form in FORMATS:
        report(found, form, "0")
    for diagnostic in found:
        span = diagnostic.span
        assert diagnostic.source is source
        assert span is None or 0 <= span.start <= span.end <= len(source.text)
    try:
        text = format_source(source)
    except GemmError as wrong:
        return render_all(wrong.diagnostics)
    assert format_source(Source("formatted", text)) == text
    return text


@settings(max_examples=80, derandomize=True, deadline=None)
@given(mangled())
def test_mangled_examples(text: str) -> None:
    survives(Source("mangled.gemm", text))


@settings(max_examples=80, derandomize=True, deadline=None)
@given(st.lists(st.sampled_from(WORDS + ODD), max_size=40).map(" ".join) | st.text(max_size=60))
def test_any_words(text: str) -> None:
    survives(Source("words.gemm", text))


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    try:
        source = source_of(data, "bytes.gemm")
    except GemmError:
        source = Source("bytes.gemm", data.decode("latin-1"))
    survives(source)
