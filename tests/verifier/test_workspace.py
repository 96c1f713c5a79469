"""Planted faults in where the parts of K are kept: each is refuted, small ones with a true witness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest

from gemmdsl.extents import BLOCK_COL, BLOCK_ROW, PART, SPLIT, WorkspaceMap, tiles, workspace_map
from gemmdsl.index import Bound, Expr, Int, Named, Var, evaluate
from gemmdsl.ir import Kernel
from gemmdsl.spec import Operand, Order
from gemmdsl.verifier import ProofError, verify
from gemmdsl.verifier.failure import Refuted
from gemmdsl.verifier.workspace import prove_workspace
from tests.verifier.kernels import kernel
from tests.verifier.planting import Fault

M, N, HALF = Var("M"), Var("N"), 2
# Vectors of C in the kernel that the faults are planted in.
VECTOR = Named("C_VECTOR", Int(4))


def kept(change: Callable[[WorkspaceMap], WorkspaceMap]) -> Fault:
    """`split` with its parts kept otherwise."""

    def plant() -> Kernel:
        given = kernel("split")
        assert given.workspace is not None
        return replace(given, workspace=change(given.workspace))

    return plant


def lines(ld: Expr) -> Fault:
    """Parts of as many lines, which are this long."""

    def change(given: WorkspaceMap) -> WorkspaceMap:
        bound = Bound(given.ld.name, ld)
        return replace(given, ld=bound, floats=Bound(given.floats.name, M * bound))

    return kept(change)


def floats(change: Callable[[WorkspaceMap], Expr]) -> Fault:
    return kept(lambda given: replace(given, floats=Bound(given.floats.name, change(given))))


def otherwise(kind: type[WorkspaceMap]) -> Fault:
    """The same map with other formulas."""
    return kept(lambda given: kind(*(getattr(given, field.name) for field in fields(given))))


class _Repeating(WorkspaceMap):
    def place(self, part: Expr, m: Expr, n: Expr) -> Expr:
        return part * self.floats + m * self.ld + n % 100_000


class _Apart(WorkspaceMap):
    def place(self, part: Expr, m: Expr, n: Expr) -> Expr:
        # The first floats of a line together, the others at its end: in words of their own, none beyond.
        return part * self.floats + m * self.ld + n // 8 * 8 + (n % 8) * 3 % 8


class _InOnePlace(WorkspaceMap):
    @property
    def origin(self) -> Expr:
        return self.place(SPLIT // HALF, BLOCK_ROW, BLOCK_COL)


class _OfAnotherTile(WorkspaceMap):
    @property
    def origin(self) -> Expr:
        return self.place(SPLIT, BLOCK_COL, BLOCK_ROW)


class _Exchanged(WorkspaceMap):
    def within(self, m: Expr, n: Expr) -> Expr:
        return self.place(Int(0), n, m)


class _Backwards(WorkspaceMap):
    def walk(self, m: Expr, n: Expr) -> tuple[Expr, Expr]:
        return self.place(self.parts - 1, m, n), Int(0) - PART * self.floats


class _FirstAgain(WorkspaceMap):
    def walk(self, m: Expr, n: Expr) -> tuple[Expr, Expr]:
        return self.place(Int(0), m, n), Int(0)


class _Twice(WorkspaceMap):
    def walk(self, m: Expr, n: Expr) -> tuple[Expr, Expr]:
        return self.place(PART, m, n), PART * self.floats


# What small outputs show, with a witness among the elements.
SMALL: dict[str, Fault] = {
    "lines that are no whole vectors": lines(N),
    "lines without their last vector": lines(N // VECTOR * VECTOR),
    "lines as long as a vector": lines(VECTOR + Int(0)),
    "parts of half the lines": floats(lambda given: tiles(M, Named("HALF", Int(2))) * given.ld),
    "parts as large as the other axis": floats(lambda given: N * given.ld),
    "parts that begin amid a vector": floats(lambda given: M * given.ld + Int(1)),
    "a part of the size of a line": floats(lambda given: given.ld),
}
# What only a look at all sizes shows, or at the kernel around.
LARGE: dict[str, Fault] = {
    "a vector too many in each line": lines((tiles(N, VECTOR) + Int(1)) * VECTOR),
    "parts with a line too many": floats(lambda given: (M + Int(1)) * given.ld),
    "places that begin anew far beyond what was enumerated": otherwise(_Repeating),
    "lines whose floats change places": otherwise(_Apart),
    "two parts stored in one place": otherwise(_InOnePlace),
    "tiles stored in each other's place": otherwise(_OfAnotherTile),
    "rows and columns of a tile exchanged": otherwise(_Exchanged),
    "parts added up from the last one on": otherwise(_Backwards),
    "the first part added up again and again": otherwise(_FirstAgain),
    "every other part added up": otherwise(_Twice),
    "fewer parts than blocks have": kept(lambda given: replace(given, parts=Named("KEPT", Int(2)))),
    "lines along the other axis": kept(
        lambda given: workspace_map(given.parts, Operand("C", "M", "N", Order.COLUMN), VECTOR)
    ),
    # Of single words, for which no path asks anything.
    "no place at all": lambda: replace(kernel("split"), workspace=None, c_vector=Named("C_VECTOR", Int(1))),
}


@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_a_planted_fault_is_refuted(name: str) -> None:
    with pytest.raises(ProofError) as caught:
        verify((SMALL | LARGE)[name](), "split_k")
    assert caught.value.rule.name == "workspace"
    assert caught.value.witness


@pytest.mark.parametrize("name", SMALL)
def test_witnesses_are_true(name: str) -> None:
    """The element named lies outside, or where another one or no vector is."""
    workspace = SMALL[name]().workspace
    assert workspace is not None
    with pytest.raises(ProofError) as caught:
        verify(SMALL[name](), "split_k")
    witness = {key: int(value) for key, value in caught.value.witness.items()}
    sizes = {"M": witness["M"], "N": witness["N"]}
    numbers = np.indices((workspace.parts.value, sizes["M"], sizes["N"]))
    env = {**sizes, **dict(zip(("part", "m", "n"), numbers, strict=True))}
    words = np.asarray(evaluate(workspace.place(PART, Var("m"), Var("n")), env))
    word = int(words[witness["part"], witness["m"], witness["n"]])
    assert word == witness["word"]
    outside = word >= int(evaluate(workspace.size, sizes))
    unaligned = witness["n"] % VECTOR.value == 0 and word % VECTOR.value != 0
    assert outside or unaligned or (words == word).sum() > 1


def test_a_workspace_counts_its_bytes_in_64_bits() -> None:
    given = kernel("split")
    with pytest.raises(Refuted, match="64 bits") as caught:
        prove_workspace(replace(given, block_m=Named("BLOCK_M", Int(1 << 30))))
    assert caught.value.witness["bytes"] > 2**63  # type: ignore[operator]


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("vector", [1, 2, 4])
@pytest.mark.parametrize("parts", [2, 3, 512])
def test_every_workspace_is_proved(order: Order, vector: int, parts: int) -> None:
    given = kernel("split")
    c, width = replace(given.spec.problem.c, order=order), Named("C_VECTOR", Int(vector))
    assert given.split is not None
    split = replace(given.split, parts=Named("PARTS", Int(parts)))
    changed = replace(
        given,
        spec=replace(given.spec, problem=replace(given.spec.problem, c=c)),
        split=split,
        c_vector=width,
        workspace=workspace_map(split.parts, c, width),
    )
    assert prove_workspace(changed)


def test_kernels_that_keep_nothing_need_no_proof() -> None:
    assert prove_workspace(kernel("split_atomic")) is None
