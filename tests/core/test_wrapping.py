"""Lines that are broken for a reader."""

from __future__ import annotations

import pytest

from gemmdsl.emit.wrapping import WIDTH, tidy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("// " + "word " * 5, ["// word word word word word"]),
        # Evenly, and under the text of a label.
        ("// label     " + "many " * 18, ["// label     " + "many " * 9, "//           " + "many " * 9]),
        # At the end of a clause, where it is not as good as alone.
        (
            "// Requires M % 128 == 0; N % 128 == 0; K % 8 == 0; A, B, C at multiples of 16 bytes,"
            " lda multiple of 4.",
            [
                "// Requires M % 128 == 0; N % 128 == 0; K % 8 == 0;",
                "// A, B, C at multiples of 16 bytes, lda multiple of 4.",
            ],
        ),
        ("// A: " + "many " * 20, ["// A: " + "many " * 10, "// " + "many " * 10]),
        # What cannot be broken stays.
        (f"// {'x' * 120} end", [f"// {'x' * 120}", "// end"]),
    ],
)
def test_comments_are_broken_evenly(text: str, expected: list[str]) -> None:
    lines = tidy(text).splitlines()
    assert lines == [line.rstrip() for line in expected]
    assert all(len(line) <= WIDTH or "xxx" in line for line in lines)
