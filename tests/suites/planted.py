"""Runs every planted fault through the tests that `gemmdsl test` does, and tells which are found and how."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic, sleep

from gemmdsl.api import CompiledKernel, compile_spec, load
from gemmdsl.diagnostics import GemmError
from gemmdsl.testing import Settings, check_kernel
from tests.suites.designs import spec
from tests.suites.faults import Mutant, barriers_and_waits, mutants

# Kernels whose text together has every construct that a fault changes.
HOSTS = (
    ("naive_blocked", "NN"),
    ("padded", "TN"),
    ("ping_pong", "NN"),
    ("pieces", "NT"),
    ("warps", "TT"),
    ("async_four", "NN"),
    ("swizzled", "NT"),
    ("odd", "TN"),
)
_SECONDS = 120.0
EXAMPLES = Path(__file__).parents[2] / "examples"

_ONCE = "each thread copies once per tile, and the stride is multiplied by copy 0"
_STEPS = "j goes in steps of C_VECTOR and ends at the same place"
_UNREAD = "behind the last tile its registers are stored once more, into a buffer that nobody reads again"

# Mutants that compute the same: design, kind, function and text after, with the reason.
EQUIVALENT: dict[tuple[str, str, str, str], str] = {
    ("naive_blocked", "tail filled with ones", "load_global", ": 1.0f;"): (
        "only C is loaded through it, and what lies beyond the edge is not stored"
    ),
    ("naive_blocked", "tail filled with ones", "multiply_global", ": 1.0f;"): (
        "rows and columns beyond the edge are multiplied and not stored"
    ),
    ("ping_pong", "wrong transposition", "store_b", ") * (B_ROW - 1)"): _ONCE,
    ("warps", "wrong transposition", "store_b", ") * (B_ROW - 1)"): _ONCE,
    ("pieces", "leading dimensions swapped", "compute_block", "lda"): _ONCE,
    ("warps", "leading dimensions swapped", "compute_block", "lda"): _ONCE,
    **{
        (design, "output left out", "store_c", "j < THREAD_N - 1; j += C_VECTOR"): _STEPS
        for design in ("naive_blocked", "ping_pong", "pieces")
    },
    **{
        (design, "prefetch beyond the last tile", "compute_block", "if (tile < k_tiles)"): _UNREAD
        for design in ("ping_pong", "pieces", "warps")
    },
}


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant: the kind of finding that killed it, "" if it survived."""

    host: str
    mutant: Mutant
    killed_by: str
    message: str = ""

    @property
    def reason(self) -> str:
        """Why a survivor is no fault; "" for one that is."""
        return EQUIVALENT.get(key(self.host, self.mutant), "")

    def __str__(self) -> str:
        mutant = self.mutant
        change = f"{mutant.before} -> {mutant.after or 'nothing'}".replace("\n", " ")
        return f"{self.host}, {mutant.function} line {mutant.line}, {mutant.kind}: {' '.join(change.split())}"


def key(host: str, mutant: Mutant) -> tuple[str, str, str, str]:
    """What names a mutant of a host in EQUIVALENT, wherever its line is."""
    return host.split()[0], mutant.kind, mutant.function, " ".join(mutant.after.split())


def kernel(design: str, layout: str) -> CompiledKernel:
    wanted = spec(design, layout)
    return CompiledKernel(wanted, compile_spec(wanted))


def all_mutants() -> Iterator[tuple[str, CompiledKernel, Mutant]]:
    for design, layout in HOSTS:
        host = kernel(design, layout)
        for mutant in mutants(host.source):
            yield f"{design} {layout}", host, mutant


def example_barriers() -> Iterator[tuple[str, CompiledKernel, Mutant]]:
    """Every schedule of every example with each of its barriers and waits taken out in turn."""
    for path in sorted(EXAMPLES.glob("*.gemm")):
        program = load(path)
        for name in program.schedules:
            host = program.compile(name)
            for mutant in barriers_and_waits(host.source):
                yield f"{path.name} {name}", host, mutant


def fates(
    planted: Iterable[tuple[str, CompiledKernel, Mutant]], workers: int, examples: int = 25
) -> Iterator[Fate]:
    """Test mutants, each in a process of its own, which a fault may end or keep for ever."""
    context = multiprocessing.get_context("fork")
    running: list[tuple[str, Mutant, multiprocessing.process.BaseProcess, Connection, float]] = []
    queue = iter(planted)
    more = True
    while more or running:
        while more and len(running) < workers:
            if (entry := next(queue, None)) is None:
                more = False
                break
            host, right, mutant = entry
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(right, mutant, examples, theirs), daemon=True)
            process.start()
            theirs.close()
            running.append((host, mutant, process, ours, monotonic()))
        for entry in list(running):
            host, mutant, process, pipe, started = entry
            late = monotonic() - started > _SECONDS
            if pipe.poll() or not process.is_alive() or late:
                try:
                    killed_by, message = pipe.recv() if pipe.poll() else ("hang" if late else "crash", "")
                except EOFError:
                    killed_by, message = "crash", ""
                if late:
                    process.kill()
                process.join()
                pipe.close()
                running.remove(entry)
                yield Fate(host, mutant, killed_by, message)
        sleep(0.005)


def table(found: Iterable[Fate]) -> str:
    """Kinds of faults, how many of each were planted and what found them; then who survived, and why."""
    kinds: dict[str, Counter[str]] = {}
    survivors: list[Fate] = []
    for fate in found:
        kinds.setdefault(fate.mutant.kind, Counter())[fate.killed_by or "survived"] += 1
        survivors += [] if fate.killed_by else [fate]
    lines = [f"{'fault':<40} {'planted':>7}  found by"]
    for kind, counts in kinds.items():
        ways = ", ".join(f"{way} {count}" for way, count in counts.most_common())
        lines.append(f"{kind:<40} {counts.total():>7}  {ways}")
    planted = sum(counts.total() for counts in kinds.values())
    excused = [fate for fate in survivors if fate.reason]
    lines.append(
        f"{planted} faults of {len(kinds)} kinds: {planted - len(survivors)} killed,"
        f" {len(excused)} equivalent, {len(survivors) - len(excused)} survived"
    )
    lines += [f"equivalent: {fate}: {fate.reason}" for fate in excused]
    lines += [f"SURVIVED: {fate}" for fate in survivors if not fate.reason]
    return "\n".join(lines)


def _child(right: CompiledKernel, mutant: Mutant, examples: int, pipe: Connection) -> None:
    try:
        settings = Settings(examples=examples, seed=3, work=200_000, cached=False, shrink=False)
        failure = check_kernel(right.with_source(mutant.text), settings).failure
        told = ("", "") if failure is None else (failure.findings[0].kind, str(failure))
    except GemmError as error:
        told = ("compile", str(error).splitlines()[0])
    pipe.send(told)
    pipe.close()
