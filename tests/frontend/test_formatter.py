"""Formatting keeps comments and meaning, and is done after one go."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmdsl.checker import analyse
from gemmdsl.diagnostics import GemmError
from gemmdsl.formatter import format_source
from gemmdsl.parser import parse
from gemmdsl.source import Source

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.gemm"))
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES}


def formatted(text: str) -> str:
    return format_source(Source("test.gemm", text))


def meaning(text: str) -> list[object]:
    """Every Spec of a text, or the codes of what is wrong with it."""
    program, found = analyse(Source("test.gemm", text))
    specs: list[object] = [[diagnostic.code for diagnostic in found]]
    for name in program.schedules:
        try:
            specs.append(program.spec(name))
        except GemmError as wrong:
            specs.append([diagnostic.code for diagnostic in wrong.diagnostics])
    return specs


def comments(text: str) -> list[str]:
    return [comment.text for comment in parse(Source("test.gemm", text))[0].comments]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_formatted(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert formatted(text) == text


# Between two words: spaces, line ends, blank lines, comments (some with what looks like code).
GAPS = st.sampled_from(
    [" ", "  ", "\n", "\n\n\n", "\t", " # note\n", "\n# own line\n", "\n\n# } {\n\n", " #\n"]
)


@settings(max_examples=60)
@given(data=st.data(), name=st.sampled_from(sorted(TEXTS)))
def test_any_layout_leads_to_the_same_meaning(data: st.DataObject, name: str) -> None:
    words = [word for line in TEXTS[name].splitlines() for word in line.partition("#")[0].split()]
    places = data.draw(st.lists(st.integers(0, len(words) - 1), max_size=30))
    gaps = {place: data.draw(GAPS) for place in places}
    text = "".join(word + gaps.get(place, " ") for place, word in enumerate(words))
    result = formatted(text)
    assert formatted(result) == result
    assert sorted(comments(result)) == sorted(comments(text))
    assert meaning(result) == meaning(text)


def test_layout() -> None:
    text = """# top


gemm 1 # version
problem x { A: f32[M,K] col B: f32[K,N] # after B
 # before C
 C: f32[M,N] = A@B+beta*C

 # last
 } # after x
# before s
schedule s on sm_75 for x { block 128x 128 x8
 # before warp

 warp 64 # odd {
   x 32 lanes 8 x 4 paired buffers 4 async
 at 2 fragments 2 # in fragments
 B first prefer fma along N
 snake stage A { prefer load vector 4 # in A
 transpose no read vector } store C { } }
schedule t extends s { no warp no fma no fragments buffers 3 async fragments 1 fma along M
 unroll 2 raster 4 prefer raster # in raster
 8 along N stage A { vector 4
   transpose } }
schedule u { # in u
}
"""
    assert (
        formatted(text)
        == """# top

gemm 1  # version

problem x {
  A: f32[M, K] col
  B: f32[K, N]  # after B
  # before C
  C: f32[M, N] = A @ B + beta * C

  # last
}  # after x

# before s
schedule s for x on sm_75 {
  block 128 x 128 x 8
  # before warp

  # odd {
  warp 64 x 32
  lanes 8 x 4 paired
  buffers 4 async at 2
  # in fragments
  fragments 2 B first
  prefer fma along N snake
  stage A {
    prefer load vector 4  # in A
    transpose
    no read vector
  }
  store C {}
}

schedule t extends s {
  no warp
  no fma
  no fragments
  buffers 3 async
  fragments 1
  fma along M
  unroll 2
  raster 4
  # in raster
  prefer raster 8 along N
  stage A { vector 4  transpose }
}

schedule u {  # in u
}
"""
    )


def test_syntax_errors_are_not_formatted_away() -> None:
    with pytest.raises(GemmError):
        formatted("gemm 1 schedule {")


@pytest.mark.parametrize("text", ["", "\n\n", "# only this", "gemm 1"])
def test_small_texts(text: str) -> None:
    assert formatted(text) == (text.strip() and text.strip() + "\n")
