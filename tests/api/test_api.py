"""The Python interface as a person meets it at a prompt."""

from __future__ import annotations

import gemmdsl
from tests.frontend.texts import HEAD

TEXT = (
    HEAD + "schedule tiled for p on sm_80 { block 8 x 8 x 4 } schedule naive for p on sm_75 { block 8 x 8 }"
)


def test_what_is_shown_is_short() -> None:
    program = gemmdsl.loads(TEXT, "folder/two.gemm")
    assert repr(program) == "<Program two.gemm: tiled, naive>"
    assert repr(gemmdsl.loads(HEAD)) == "<Program <string>: no schedules>"
    kernel = program.compile("tiled")
    assert repr(kernel) == "<CompiledKernel p_tiled for sm_80>"
    # Nor do the parts of which they consist show whole texts.
    for part in (program.checked, kernel.cuda, kernel.spec):
        assert len(repr(part)) < 4000
        assert "\n" not in repr(part)
        assert "__global__" not in repr(part)


def test_names_are_listed_before_they_are_used() -> None:
    assert set(gemmdsl.__all__) <= set(dir(gemmdsl))
