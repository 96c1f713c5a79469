"""The finished kernel is what the schedule asks for: each field is looked at, and each pass is missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace

import pytest

from gemmdsl import passes
from gemmdsl.extents import split_map
from gemmdsl.index import Int, Named
from gemmdsl.ir import AsyncCopyTile, CopyTile, Equal, FmaOrder, For, If, Kernel, ReadFragment, Stmt
from gemmdsl.layout import ThreadTile, grid_map, raster_grid, warp_map
from gemmdsl.passes import PIPELINE, steps
from gemmdsl.spec import LaneOrder, Schedule, Spec
from gemmdsl.verifier import ProofError, verify_final
from gemmdsl.verifier.asked import as_asked
from tests.verifier.kernels import SPECS, kernel, with_stage
from tests.verifier.planting import BLOCK_K, named

# A field with no row, and why.
WITHOUT_ROW = {
    "name": "is no part of the kernel",
    "assumptions": "P303 compares them with the last path",
}
# A kernel that asks for each pass.
ASKING = {
    "register_blocking": "column",
    "warp_tiling": "warps",
    "stage_shared": "shared",
    "transpose": "exchanged",
    "pad": "vectors",
    "swizzle": "swizzle",
    "vectorise": "vectors",
    "ping_pong": "ping_pong",
    "async_copies": "async4",
    "fma_order": "fragments",
    "fragments": "fragments",
    "unroll": "unroll",
    "raster": "raster",
    "split_k": "split",
    "launch_bounds": "bounded",
    "specialise": "naive",
}


def spec_of(name: str) -> Spec:
    if name != "bounded":
        return SPECS[name]
    given = SPECS["ping_pong"]
    return replace(given, schedule=replace(given.schedule, min_blocks=2))


@pytest.mark.parametrize("name", SPECS)
def test_every_field_is_looked_at_once(name: str) -> None:
    looked_at = Counter(field for row in as_asked(kernel(name)) for field in row.fields)
    assert looked_at == Counter({field.name for field in fields(Schedule)} - WITHOUT_ROW.keys())


def test_every_pass_has_a_kernel_that_asks_for_it() -> None:
    assert set(ASKING) == {each.__name__ for each in PIPELINE}


@pytest.mark.parametrize("missing", PIPELINE, ids=lambda each: each.__name__)
def test_a_pass_that_is_left_out_is_missed(missing: passes.Pass, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(ASKING[missing.__name__])
    assert missing.__name__ in steps(spec)[-1].kernel.applied
    monkeypatch.setattr(passes, "PIPELINE", tuple(each for each in PIPELINE if each is not missing))
    # Where passes after it need what it made, other rules may be the first to miss it.
    with pytest.raises(ProofError):
        steps(spec)


def _edited(body: tuple[Stmt, ...], change: Callable[[Stmt], Stmt]) -> tuple[Stmt, ...]:
    inner = (replace(s, body=_edited(s.body, change)) if isinstance(s, For | If) else s for s in body)
    return tuple(map(change, inner))


def _issued_elsewhere(statement: Stmt) -> Stmt:
    if isinstance(statement, If) and isinstance(statement.condition, Equal):
        return replace(statement, condition=Equal(statement.condition.left, Int(3)))
    return statement


def _read_otherwise(statement: Stmt) -> Stmt:
    if not isinstance(statement, ReadFragment):
        return statement
    return replace(statement, operand="A" if statement.operand == "B" else "B")


def _through_registers(statement: Stmt) -> Stmt:
    if isinstance(statement, AsyncCopyTile):
        return CopyTile(statement.operand, statement.tile, statement.slot)
    return statement


def _lanes(lanes: tuple[int, int], warp: tuple[int, int], order: LaneOrder) -> Kernel:
    given = kernel("warps")
    tile = ThreadTile((8, 8), (4, 4))
    return replace(given, threads=warp_map(given.block_m, given.block_n, tile, warp, lanes, order))


def _as_one_grid(name: str, rows_first: bool) -> Kernel:
    given = kernel(name)
    tile = ThreadTile((8, 8), (4, 4))
    return replace(given, threads=grid_map(given.block_m, given.block_n, tile, rows_first))


# Ways to compute the right thing that are not what is asked for.
OTHERWISE: dict[str, Callable[[], Kernel]] = {
    "lanes in another order": lambda: _lanes((8, 4), (64, 32), LaneOrder.ROW),
    "lanes laid over the warp otherwise": lambda: _lanes((4, 8), (32, 64), LaneOrder.PAIRED),
    "threads as one grid": lambda: _as_one_grid("warps", False),
    "threads along the other axis": lambda: _as_one_grid("ping_pong", True),
    "copies in another step": lambda: replace(
        kernel("fragments"), body=_edited(kernel("fragments").body, _issued_elsewhere)
    ),
    "the other fragment first": lambda: replace(
        kernel("fragments"), body=_edited(kernel("fragments").body, _read_otherwise)
    ),
    "copies through registers": lambda: replace(
        kernel("async4"), body=_edited(kernel("async4").body, _through_registers)
    ),
    "more sets of fragments": lambda: replace(kernel("fragments"), fragments=Named("FRAGMENTS", Int(4))),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_what_is_not_asked_for_is_refused(what: str) -> None:
    given = OTHERWISE[what]()
    with pytest.raises(ProofError) as caught:
        verify_final(given, "a_pass")
    assert caught.value.rule.name == "as-asked"


ASKED: dict[str, Callable[[Kernel], Kernel]] = {
    "pad": lambda k: with_stage(k, "A", lambda s: replace(s, tile=replace(s.tile, pad=None))),
    "store width": lambda k: with_stage(k, "B", lambda s: replace(s, store=named(s.store, 2))),
    "vectors of C": lambda k: replace(k, c_vector=named(k.c_vector, 2)),
    "launch bounds": lambda k: replace(k, min_blocks=1),
    "fragment read first": lambda k: replace(k, read_first="B"),
    "FMA order": lambda k: replace(k, fma=FmaOrder("M")),
    "unrolled steps": lambda k: replace(k, unroll=Named("UNROLL", Int(4))),
    "raster": lambda k: replace(k, grid=raster_grid(2, "M")),
    "axis of the raster": lambda k: replace(k, grid=raster_grid(1, "N")),
    "parts of K": lambda k: replace(k, split=split_map(2, BLOCK_K)),
}


@pytest.mark.parametrize("what", ASKED)
def test_the_finished_kernel_has_what_was_asked_for(what: str) -> None:
    with pytest.raises(ProofError) as caught:
        verify_final(ASKED[what](kernel("async4")), "specialise")
    assert caught.value.rule.name == "as-asked"
