"""`extends`, `prefer`, `no`, `assume`, and what is derived."""

from __future__ import annotations

import pytest

from gemmdsl.checker import loads
from gemmdsl.diagnostics import GemmError
from gemmdsl.spec import CopySteps, LaneOrder, Schedule, Stage
from tests.frontend.texts import HEAD, broken, codes, errors, spec

BASE = """schedule base for p on sm_80 {
  block 128 x 128 x 8
  thread 8 x 8 as 4 x 4
  stage A { vector 4  transpose  pad 4 }
  stage B { vector 4 }
  store C { vector 4 }
  buffers 2
}
"""


def child(options: str, clauses: str = "") -> Schedule:
    return loads(f"{HEAD}schedule c extends base {clauses} {{ {options} }}\n{BASE}").spec("c").schedule


def child_codes(options: str) -> list[str]:
    return codes(f"{HEAD}{BASE}schedule c extends base {{ {options} }}")


def test_everything_is_inherited() -> None:
    program = loads(f"{HEAD}{BASE}schedule c extends base {{}}")
    base, same = program.spec("base"), program.spec("c")
    assert (same.problem, same.target) == (base.problem, base.target)
    assert same.schedule.stage_a == base.schedule.stage_a == Stage(4, 1, 4, True, 4, False)
    assert (same.schedule.threads, same.schedule.buffers, same.schedule.c_vector) == (256, 2, 4)


def test_words_are_overridden_and_stages_merged() -> None:
    schedule = child("thread 8 x 8  stage A { pad 8 }")
    assert (schedule.piece_m, schedule.piece_n) == (8, 8)
    assert schedule.stage_a == Stage(4, 1, 4, True, 8, False)


def test_no_gives_the_default_back() -> None:
    schedule = child("no buffers  no store C  stage A { no pad  no vector }")
    assert (schedule.buffers, schedule.c_vector) == (1, 1)
    assert schedule.stage_a == Stage(transpose=True)
    assert child("no stage A  stage A { pad 1 }").stage_a == Stage(pad=1)


@pytest.mark.parametrize("option", ["no warp", "no assume", "no lanes", "stage A { no swizzle }"])
def test_no_needs_something_to_take_back(option: str) -> None:
    assert "G116" in child_codes(option)


@pytest.mark.parametrize(
    "options",
    [
        "buffers 1 buffers 2",
        "no buffers buffers 2",
        "stage A { pad 1 } stage A { pad 2 }",
        "stage A { pad 1 pad 2 }",
        "stage A { no pad pad 2 }",
        "assume aligned A assume aligned A",
        "assume M % 4 == 0 assume M % 4 == 0",
        "no warp no warp",
    ],
)
def test_repeated_words_are_errors(options: str) -> None:
    assert "G115" in child_codes(options)


def test_assumptions_accumulate() -> None:
    text = f"""{HEAD}
schedule a for p on sm_80 {{ block 8 x 8  assume M % 6 == 0  assume M % 4 == 0  assume aligned B }}
schedule b extends a {{ assume M % 9 == 0  assume K % 2 == 0 }}
schedule c extends b {{ no assume  assume N % 5 == 0 }}
"""
    program = loads(text)
    assumed = {name: [str(a) for a in program.spec(name).schedule.assumptions] for name in program.schedules}
    assert assumed == {
        "a": ["M % 12 == 0", "aligned B"],
        "b": ["M % 36 == 0", "K % 2 == 0", "aligned B"],
        "c": ["N % 5 == 0"],
    }


def test_assumptions_that_break_their_rule_stay_as_they_are() -> None:
    many = "  ".join(f"assume M % {multiple} == 0" for multiple in range(60_000, 64_000))
    wrong = errors(f"{HEAD}schedule a for p on sm_80 {{ block 8 x 8  {many} }}")
    assert [d.code for d in wrong] == ["G601"]
    (odd,) = broken("block 8 x 8  assume M % -3 == 0  assume M % 4 == 0")
    assert odd.message == "M cannot be assumed to be a multiple of -3"


def test_only_a_remainder_of_nought_is_assumed() -> None:
    assert child_codes("assume M % 4 == 1") == ["G118"]


def test_lanes_and_threads_are_derived() -> None:
    given = spec("block 128 x 128 x 8 warp 64 x 32 thread 8 x 8").schedule
    assert given.lanes == (8, 4)
    given = spec("block 128 x 128 x 8 warp 64 x 32 lanes 8 x 4 paired").schedule
    assert (given.thread_m, given.thread_n, given.lane_order) == (8, 8, LaneOrder.PAIRED)
    assert spec("block 8 x 8").schedule.threads == 64


@pytest.mark.parametrize(
    ("items", "stage"),
    [
        ("", Stage()),
        ("vector 4", Stage(4, 4, 4)),
        ("vector 4 pad 2", Stage(4, 2, 2, pad=2)),
        ("vector 4 load vector 1", Stage(1, 1, 4)),
        ("vector 2 read vector 4", Stage(2, 2, 4)),
        ("load vector 4", Stage(4, 1, 1)),
        ("vector 4 swizzle", Stage(4, 4, 4, swizzle=True)),
    ],
)
def test_widths_are_derived(items: str, stage: Stage) -> None:
    assert spec(f"block 64 x 64 x 8 thread 4 x 4 stage B {{ {items} }}").schedule.stage_b == stage


def test_asynchronous_stores_are_as_wide_as_their_loads() -> None:
    options = "block 64 x 64 x 8 thread 4 x 4 buffers 2 async stage B { load vector 4 }"
    assert spec(options).schedule.stage_b == Stage(4, 4, 1)


def test_what_is_preferred_may_be_dropped() -> None:
    wishes = "prefer buffers 3 async  stage A { prefer load vector 1 }"
    program = loads(f"{HEAD}{BASE}schedule c extends base {{ {wishes} }}")
    met = program.spec("c")
    assert (met.schedule.buffers, met.schedule.asynchronous, met.fallbacks) == (3, True, ())
    dropped = program.spec("c", target="sm_75")
    assert (dropped.schedule.buffers, dropped.schedule.asynchronous) == (1, False)
    assert dropped.fallbacks == ("`buffers 3 async` is dropped: sm_75 has no asynchronous copies",)
    assert [d.code for d in program.check("sm_75") if d.severity.value == "note"] == ["G802"]


def test_copies_fragments_and_fmas() -> None:
    plain = child("")
    assert (plain.copy_steps.together, plain.fragments, plain.read_first) == (0, 1, "A")
    assert (plain.fma_along, plain.fma_snake) == ("N", False)
    assert child("fragments 1 A first  fma along N  buffers 2") == plain
    changed = child("buffers 4 async at 2  stage A { load vector 1 }  fragments 2 B first  fma along M snake")
    assert (changed.buffers, changed.asynchronous, changed.copy_steps.together) == (4, True, 2)
    dealt = child("buffers 4 async A at 0 2 2 B at 1  stage A { load vector 1 }  fragments 2")
    assert (dealt.copy_steps.a, dealt.copy_steps.b, dealt.copy_steps.together) == ((0, 2, 2), (1,), None)
    alone = child("buffers 4 async B at 1 3  stage A { load vector 1 }  fragments 2")
    assert alone.copy_steps == CopySteps((0,), (1, 3))
    both = child("buffers 4 async at 1 3  stage A { load vector 1 }  fragments 2")
    assert both.copy_steps == CopySteps((1, 3), (1, 3))
    assert (changed.fragments, changed.read_first) == (2, "B")
    assert (changed.fma_along, changed.fma_snake) == ("M", True)
    assert child("fragments 2  fma along M").read_first == "A"
    assert child("fragments 1 B first").read_first == "B"


def test_steps_unrolled() -> None:
    assert child("").unroll is None
    assert child("unroll 4").unroll == 4
    assert child_codes("unroll 0") == child_codes("unroll -1") == ["G414"]
    assert child_codes("unroll 5") == ["G416"]
    assert child_codes("unroll 4  unroll 4") == ["G115"]
    assert child_codes("no unroll") == ["G116"]
    program = loads(
        f"{HEAD}{BASE}schedule a extends base {{ unroll 4 }}\nschedule b extends a {{ no unroll }}\n"
    )
    assert [program.spec(name).schedule.unroll for name in "ab"] == [4, None]


def test_rasters() -> None:
    plain = child("")
    assert (plain.raster, plain.raster_along) == (1, "M")
    assert child("raster 1") == child("raster 1 along M") == plain
    assert (child("raster 4 along N").raster, child("raster 4 along N").raster_along) == (4, "N")
    assert child_codes("raster 4 along K") == ["G113"]
    assert child_codes("raster 0") == child_codes("raster -1 along N") == ["G213"]
    assert child_codes("raster 4  raster 4 along N") == ["G115"]
    assert child_codes("no raster") == ["G116"]
    program = loads(
        f"{HEAD}{BASE}schedule a extends base {{ raster 4 along N }}\n"
        "schedule b extends a { raster 8 }\nschedule c extends a { no raster }\n"
    )
    found = {name: program.spec(name).schedule for name in "abc"}
    assert [(s.raster, s.raster_along) for s in found.values()] == [(4, "N"), (8, "M"), (1, "M")]


def test_each_word_is_inherited_and_overridden_whole() -> None:
    first = "buffers 4 async at 2  stage A { load vector 1 }  fragments 2 B first  fma along M snake"
    program = loads(
        f"""{HEAD}{BASE}
schedule a extends base {{ {first} }}
schedule same extends a {{}}
schedule later extends a {{ buffers 3 async  fragments 2  fma along M }}
schedule plain extends a {{ no fragments  no fma  no buffers }}
"""
    )
    schedules = {name: program.spec(name).schedule for name in program.schedules}
    same, later, plain = schedules["same"], schedules["later"], schedules["plain"]
    assert (same.copy_steps.together, same.fragments, same.read_first, same.fma_snake) == (2, 2, "B", True)
    assert (later.copy_steps.together, later.fragments, later.read_first, later.fma_snake) == (
        0,
        2,
        "A",
        False,
    )
    assert (plain.copy_steps.together, plain.fragments, plain.read_first, plain.fma_along) == (0, 1, "A", "N")
    assert child_codes("no fragments") == child_codes("no fma") == ["G116"]
    assert child_codes("fragments 2  fragments 2") == child_codes("fma along N  fma along M") == ["G115"]


def test_preferred_fragments_go_with_the_buffers_they_need() -> None:
    wishes = "stage A { load vector 1 }  prefer buffers 4 async at 2  prefer fragments 2 B first"
    program = loads(f"{HEAD}{BASE}schedule c extends base {{ {wishes} }}")
    assert program.spec("c").schedule.fragments == 2
    dropped = program.spec("c", target="sm_75")
    assert (dropped.schedule.fragments, dropped.schedule.copy_steps.together, dropped.schedule.buffers) == (
        1,
        0,
        1,
    )
    assert [fallback.partition("`")[2].partition("`")[0] for fallback in dropped.fallbacks] == [
        "buffers 4 async at 2",
        "fragments 2 B first",
    ]


def test_a_preferred_block_stays() -> None:
    with pytest.raises(GemmError) as wrong:
        spec("prefer block 2048 x 8")
    assert [d.code for d in wrong.value.diagnostics] == ["G201"]


def test_no_more_is_dropped_than_has_to_be() -> None:
    options = "block 64 x 64 x 6  thread 4 x 4  prefer stage A { vector 4  transpose  pad 2 }"
    found = spec(options)
    assert found.schedule.stage_a == Stage(transpose=True, pad=2)
    assert len(found.fallbacks) == 1


def test_a_preference_that_is_not_to_blame_stays() -> None:
    with pytest.raises(GemmError) as wrong:
        spec("block 64 x 64 x 8  thread 4 x 4  prefer stage A { pad 1 }  stage B { pad 65 }")
    assert [d.code for d in wrong.value.diagnostics] == ["G302"]


def test_an_inherited_mistake_is_reported_once() -> None:
    text = f"{HEAD}schedule a for p on sm_75 {{ block 7 x 8 x 8 thread 2 x 2 }}\n"
    text += "schedule b extends a {}\nschedule c extends b { min_blocks 2 }"
    found = errors(text)
    assert {d.code for d in found} == {"G204"}
    assert len({(d.code, d.span) for d in found}) == 1
    with pytest.raises(GemmError) as wrong:
        loads(text).spec("c")
    notes = [str(note) for note in wrong.value.diagnostics[0].notes]
    assert "inherited: schedule `c` has this from `a`" in notes


def test_the_latest_word_is_to_blame() -> None:
    text = f"{HEAD}{BASE}schedule c extends base {{ thread 5 x 8 }}"
    assert {text[d.span.start : d.span.end] for d in errors(text) if d.span} == {"thread 5 x 8"}


def test_a_circle_is_found_from_outside_too() -> None:
    text = f"{HEAD}schedule a extends b {{}} schedule b extends c {{}} schedule c extends b {{}}"
    assert codes(text) == ["G104"]


def test_long_chains_are_no_problem() -> None:
    links = "\n".join(f"schedule s{i} extends s{i + 1} {{}}" for i in range(2000))
    program = loads(f"{HEAD}{links}\nschedule s2000 for p on sm_75 {{ block 8 x 8 }}")
    assert program.spec("s0").schedule.block_m == 8
