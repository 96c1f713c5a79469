"""K shared among blocks: its parts, and how their products come together in C."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

import numpy as np

from gemmdsl.extents import ALL_TILES, K_FIRST, SPLIT, WHOLE, SplitMap, tiles
from gemmdsl.index import Named, Op, evaluate
from gemmdsl.index_parts import parts as parts_of
from gemmdsl.ir import AddOutput, Kernel, ReduceParts, ScaleOutput, StoreOutput, StorePart, Sweep, walk
from gemmdsl.verifier.failure import K_PARTS, SUMS, Refuted

if TYPE_CHECKING:
    from gemmdsl.index import Array, Expr

_INT_MAX = 2**31 - 1
# One beta that hides what C held, one that keeps it, and one that shows how often it was multiplied.
_BETAS = (0, 1, 3)


@lru_cache(maxsize=16)
def prove_parts(split: SplitMap, block_k: Named) -> str:
    """The parts of K are disjoint, cover it, and begin with a K tile; no step of the formulas passes an int.

    The formulas depend on the number of K tiles by its quotient and its remainder by the number of parts, and
    are linear in the quotient: every remainder is looked at with the first quotients, and the largest sizes.
    """
    count, block = split.parts.value, block_k.value
    ends = np.arange(2 * count + 2, dtype=np.int64) * block
    sizes = np.unique((ends[:, None] + np.array([0, 1, block - 1])).ravel())
    sizes = np.concatenate([sizes, np.arange(_INT_MAX - block - 1, _INT_MAX + 1)])
    sizes = sizes[sizes >= 0]
    env: dict[str, Array | int] = {WHOLE.name: sizes[:, None], SPLIT.name: np.arange(count, dtype=np.int64)}
    env[ALL_TILES.name] = evaluate(tiles(WHOLE, block_k), env)
    first = _values(split.first, env, (len(sizes), count))
    env[K_FIRST.name] = first
    depth = _values(split.depth, env, (len(sizes), count))
    for expr in (split.first, split.depth):
        _prove_ints(expr, env)
    ends_before = np.concatenate([np.zeros((len(sizes), 1), np.int64), (first + depth)[:, :-1]], axis=1)
    busy = depth > 0
    # A part without tiles may begin anywhere within K: nothing is read from there.
    wrong = (
        (depth < 0)
        | (first < 0)
        | (first > sizes[:, None])
        | (busy & ((first != ends_before) | (first % block != 0)))
        | (~busy & (first + depth != np.maximum(ends_before, first)))
    )
    missing = depth.sum(axis=1) != sizes
    if wrong.any() or missing.any():
        row, part = map(int, np.argwhere(wrong)[0]) if wrong.any() else (int(np.argmax(missing)), count - 1)
        raise Refuted(
            K_PARTS,
            f"the {count} parts of K = {sizes[row]} are not disjoint tiles that cover it",
            K=int(sizes[row]),
            split=part,
            k_first=int(first[row, part]),
            depth=int(depth[row, part]),
        )
    return f"K: {count} parts of whole tiles, which are disjoint and cover it"


def _values(expr: Expr, env: dict[str, Array | int], shape: tuple[int, int]) -> Array:
    return np.broadcast_to(np.asarray(evaluate(expr, env), dtype=np.int64), shape)


def _prove_ints(expr: Expr, env: dict[str, Array | int]) -> None:
    """Every value on the way to that of an expression fits an int."""
    for part in parts_of(expr):
        _prove_ints(part, env)
    if isinstance(expr, Op) and np.any(np.abs(evaluate(expr, env)) > _INT_MAX):
        raise Refuted(K_PARTS, "a step of the formula for a part of K passes the largest int", kind=expr.kind)


def prove_sums(kernel: Kernel) -> str:
    """What C held is multiplied by beta once, and the product of each part of K is added once, after that.

    One element of C is followed through the launches, for each kind of beta; blocks of one launch may come in
    any order, so that none of them may scale what another one adds to.
    """
    ends = [s for s in walk(kernel.body) if isinstance(s, StoreOutput | AddOutput | StorePart)]
    count = kernel.split.parts.value if kernel.split is not None else 1
    for beta in _BETAS if kernel.spec.problem.beta else _BETAS[:1]:
        element = _Element(beta, count)
        for sweep in kernel.before:
            element.sweep(sweep)
        for part in range(count):
            for statement in ends:
                element.block(statement, part)
        for sweep in kernel.after:
            element.sweep(sweep)
        element.prove_complete()
    return f"sums: C is scaled by beta once, and each of {count} parts is added once"


class _Element:
    """One element of C: how often its old value and the product of each part are in it."""

    def __init__(self, beta: int, parts: int) -> None:
        self.beta, self.parts = beta, parts
        self.old = 1
        self.added: Counter[int] = Counter()
        self.stored: set[int] = set()

    def sweep(self, sweep: Sweep) -> None:
        match sweep:
            case ScaleOutput():
                if self.added:
                    raise self._refuted("C is scaled after a part was added", part=min(self.added))
                self.old *= self.beta
            case ReduceParts():
                if missing := set(range(self.parts)) - self.stored:
                    raise self._refuted("parts are added up that were never stored", part=min(missing))
                self.old *= self.beta
                self.added.update(range(self.parts))
            case _:
                assert_never(sweep)

    def block(self, statement: StoreOutput | AddOutput | StorePart, part: int) -> None:
        match statement:
            case StoreOutput():
                if self.parts > 1:
                    raise self._refuted("a block scales C, to which other blocks add", part=part)
                self.old *= self.beta
                self.added[part] += 1
            case AddOutput():
                self.added[part] += 1
            case StorePart():
                self.stored.add(part)
            case _:
                assert_never(statement)

    def prove_complete(self) -> None:
        if self.old != self.beta:
            raise self._refuted(
                f"C is multiplied by beta so that {self.beta} becomes {self.old}", factor=self.old
            )
        for part in range(self.parts):
            if self.added[part] != 1:
                what = f"the product of part {part} is added {self.added[part]} times"
                raise self._refuted(what, part=part, times=self.added[part])

    def _refuted(self, what: str, **witness: int) -> Refuted:
        return Refuted(SUMS, what, beta=self.beta, **witness)
