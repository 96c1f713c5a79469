"""Operands whose elements lie more than 2^31 elements apart, where 32-bit offsets wrap around.

The memory is reserved and never filled: only the pages that hold elements exist.  One operand at a time lies
that far apart; the others are small.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gemmdsl.cuda_source import CudaSource
from gemmdsl.emulator.checker import Sanitizer
from gemmdsl.emulator.library import RunOptions
from gemmdsl.emulator.run import launch
from gemmdsl.launch_errors import LaunchError
from gemmdsl.reference import Floats, StoredMatrix, compare
from gemmdsl.spec import Axis, OperandName, Order
from gemmdsl.testing.case import NAMES, Case, make_case
from gemmdsl.testing.edges import alignments, multiples, up
from gemmdsl.testing.operands import draw
from gemmdsl.testing.outcome import Finding

_SPREAD = 2**31
_LINES = 3
# Reserve addresses, not memory (Linux; 0 elsewhere, where the system decides).
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0)


@dataclass(frozen=True, slots=True)
class Far:
    """A case in which the lines of `operand` are 2^31 elements or more from the first to the last."""

    operand: OperandName
    case: Case

    def check(
        self, source: CudaSource, *, cached: bool = True, sanitize: tuple[Sanitizer, ...] = ()
    ) -> tuple[Finding, ...]:
        """What is wrong with the run; nothing when the system does not give the addresses.

        `cached` keeps the compiled kernel, and what `sanitize` names is watched.  The checker has a word for
        each place of C, in its padding too, so that C is far without it.
        """
        case, problem = self.case, source.problem
        operand = problem.operand(self.operand)
        lines, width = case.extents[operand.strided], case.extents[operand.contiguous]
        try:
            memory = mmap.mmap(
                -1,
                4 * ((lines - 1) * case.ld(self.operand) + width),
                flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE,
            )
        except (OSError, ValueError, OverflowError):
            return ()
        words = np.frombuffer(memory, np.float32)
        stored = np.lib.stride_tricks.as_strided(words, (lines, width), (4 * case.ld(self.operand), 4))
        matrices: dict[OperandName, Floats] = {
            self.operand: stored if operand.order is Order.ROW else stored.T
        }
        arguments = {"M": case.m, "N": case.n, "K": case.k, self.operand: int(words.ctypes.data)}
        near: list[StoredMatrix] = []
        for name in NAMES:
            arguments[problem.operand(name).ld] = case.ld(name)
            if name != self.operand:
                one = problem.operand(name)
                rows, cols = case.extents[one.rows], case.extents[one.cols]
                near.append(StoredMatrix(one, rows, cols, ld=case.ld(name)))
                matrices[name], arguments[name] = near[-1].matrix, near[-1].address
        a, b, _ = draw(case)
        matrices["A"][...], matrices["B"][...], matrices["C"][...] = a, b, np.nan
        spread = f"{operand.ld} = {case.ld(self.operand)}"
        try:
            launch(
                source,
                arguments,
                options=RunOptions(wanted=sanitize),
                cached=cached,
                checked=bool(sanitize) and self.operand != "C",
            )
        except LaunchError as failed:
            return (Finding("launch", f"{spread}: {failed.diagnostics[0].message}"),)
        verdict = compare(problem, matrices["C"], a, b, exact=True)
        if verdict.ok:
            return ()
        return (Finding("result", f"{spread}: {verdict}"),)


def far_cases(source: CudaSource) -> Iterator[Far]:
    """For each operand one case in which 2^31 is passed within a tile, and one in which the tile's own offset
    is that large."""
    problem, plan = source.problem, source.plan
    needed, aligned = multiples(plan.preconditions), alignments(plan)
    block: dict[Axis, int] = {"M": plan.block_m, "N": plan.block_n, "K": _LINES - 1}
    for name in NAMES:
        operand = problem.operand(name)
        # The first line of a tile that is not the first one; of two lines, one leading dimension apart, none
        # is as far as 2^31 elements.
        tile = up(_LINES - 1, block[operand.strided])
        for index in sorted({_LINES - 1, tile}):
            sizes: dict[Axis, int] = {"M": _LINES, "N": _LINES, "K": _LINES}
            sizes[operand.strided] = index + 1
            sizes = {axis: up(size, needed[axis]) for axis, size in sizes.items()}
            case = make_case(problem, sizes["M"], sizes["N"], sizes["K"], seed=1)
            lds = {problem.operand(one).ld: up(case.ld(one), aligned[one]) for one in NAMES}
            yield Far(name, case.changed(**{**lds, operand.ld: up(_SPREAD // index + 1, 4)}))
