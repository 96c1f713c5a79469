"""Machine code of schedules and of suggestions: what holds as written has to hold as compiled, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gemmdsl.analysis.access import Count
from gemmdsl.analysis.compiled import Compiled, build, compiled
from gemmdsl.analysis.sass import CannotEvaluate
from gemmdsl.analysis.shape import Shape
from gemmdsl.cuda_source import CudaSource
from gemmdsl.emit import emit
from gemmdsl.explain.advice import Suggestion, Want
from gemmdsl.ir import Kernel
from gemmdsl.occupancy import occupancy
from gemmdsl.passes import steps
from gemmdsl.toolchain import ToolError
from gemmdsl.wording import several


@dataclass(frozen=True, slots=True)
class Mend:
    """A change that mends an access as written.

    `tried` says whether its machine code was looked at, `but` what speaks against it then; empty: nothing.
    """

    suggestion: Suggestion
    tried: bool = False
    but: str = ""


def machine_code(kernel: Kernel, source: CudaSource, shape: Shape) -> tuple[Compiled | None, str]:
    """The compiled view, or why there is none."""
    try:
        return compiled(kernel, source, build(source), shape), ""
    except ToolError as problem:
        finding = problem.diagnostics[0]
        # Of all that a tool said, its first line.
        more = [note.text.split("\n")[0] for note in finding.notes if note.label in ("it said", "help")]
        return None, "; ".join([finding.message, *more])
    except CannotEvaluate as problem:
        return None, f"the machine code is not understood: {problem}"


class Trials:
    """Suggestions beside the kernel that they are for, whose machine code is `now` (None: there is none)."""

    def __init__(self, kernel: Kernel, shape: Shape, now: Compiled | None) -> None:
        self.kernel, self.shape, self.now = kernel, shape, now
        self._made: dict[str, Compiled | None] = {}

    def better(self, suggestion: Suggestion) -> bool:
        """Whether machine code, where there is some, takes fewer wavefronts at equal resources."""
        if self.now is None:
            return True
        made = self._compiled(suggestion)
        return (
            made is not None and made.wavefronts < self.now.wavefronts and not self._dearer(suggestion, made)
        )

    def mend(self, want: Want, suggestions: Sequence[Suggestion]) -> Mend:
        """The first change that holds as compiled, or else the first, and what speaks against it."""
        if self.now is None:
            return Mend(suggestions[0])
        tried = (Mend(one, True, self._objection(want, one, self.now)) for one in suggestions)
        mends = []
        for mend in tried:
            if not mend.but:
                return mend
            mends.append(mend)
        return mends[0]

    def _objection(self, want: Want, suggestion: Suggestion, now: Compiled) -> str:
        made = self._compiled(suggestion)
        if made is None:
            return "its machine code has something unknown"
        before, after = _total(now, want), _total(made, want)
        if after.excess if want[0] == "shared" else after.cost >= before.cost:
            unit = "wavefronts" if want[0] == "shared" else "sectors"
            return f"as compiled, they take {after.cost:,} {unit}, and {before.cost:,} without it"
        if made.wavefronts > now.wavefronts:
            return (
                f"as compiled, all take {made.wavefronts:,} wavefronts of shared memory, and"
                f" {now.wavefronts:,} without it"
            )
        return self._dearer(suggestion, made)

    def _compiled(self, suggestion: Suggestion) -> Compiled | None:
        if suggestion.text not in self._made:
            last = steps(suggestion.spec)[-1]
            source = emit(last.kernel, last.proofs)
            self._made[suggestion.text], _ = machine_code(last.kernel, source, self.shape)
        return self._made[suggestion.text]

    def _dearer(self, suggestion: Suggestion, made: Compiled) -> str:
        """What the machine code of a suggestion costs more: registers that spill, blocks that do not fit."""
        assert self.now is not None
        if made.usage.spills and not self.now.usage.spills:
            return "as compiled, registers spill"
        before = self._resident(self.now, self.kernel.shared_bytes)
        after = self._resident(made, suggestion.shared_bytes)
        if after >= before:
            return ""
        registers = several(made.usage.registers, "register")
        return f"as compiled, {registers} leave room for {after} of the {before} blocks per SM"

    def _resident(self, found: Compiled, shared_bytes: int) -> int:
        target, threads = self.kernel.spec.target, self.kernel.threads.threads.value
        return occupancy(target, threads, found.usage.registers, shared_bytes).blocks


def _total(found: Compiled, want: Want) -> Count:
    total = Count()
    for access in found.accesses:
        if (access.space, access.operand, access.kind) == want:
            total += access.total
    return total
