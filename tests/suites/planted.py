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
    ("turns", "NN"),
    ("parts", "NN"),
    ("parts_atomic", "TT"),
)
# Of kernels that share K, what the others do not have.
SHARING = frozenset(
    {
        "alignment of one operand not asked for",
        "memory for parts not looked after",
        "parts in another order",
        "part left out or twice",
        "parts in one place",
        "C not scaled first",
    }
)
_SECONDS = 120.0
EXAMPLES = Path(__file__).parents[2] / "examples"

_ONCE = "each thread copies once per tile, and the stride is multiplied by copy 0"
_STEPS = "j goes in steps of C_VECTOR and ends at the same place"
_UNREAD = "behind the last tile its registers are stored once more, into a buffer that nobody reads again"

# What names a mutant: design, kind, function, and what stands there before and after.
Key = tuple[str, str, str, str, str]
_FILL = (": 0.0f;", ": 1.0f;")
_SWAP = ("ldb", "lda")
_PLACE = (") * B_ROW", ") * (B_ROW - 1)")
_STEP = ("j < THREAD_N; j += C_VECTOR", "j < THREAD_N - 1; j += C_VECTOR")
_SINGLE = "below sm_90 words are added to C one by one"
_UNALIGNED = (
    ("aligned(C, ldc", "aligned(C, 4"),
    ("aligned(C", "aligned(nullptr"),
    ("aligned(C, ldc, C_VECTOR", "aligned(C, ldc, C_VECTOR / 2"),
)
_FETCH = ("if (tile + 1 < k_tiles)", "if (tile < k_tiles)")

_WHOLE = "extents and places are multiples of the width where vectors are allowed"
_LESS = ("n < n_left", "n < n_left - 1")
_FEWER = ("valid >= WIDTH", "valid >= WIDTH - 1")
_AHEAD = ("if (tile + BUFFERS - 1 < k_tiles)", "if (tile < k_tiles)")

# Mutants that compute the same, with the reason.
EQUIVALENT: dict[Key, str] = {
    ("naive_blocked", "tail filled with ones", "multiply_global", *_FILL): (
        "rows and columns beyond the edge are multiplied and not stored"
    ),
    **{
        (design, "tail filled with ones", "load_global", *_FILL): (
            "only C is loaded through it, and what lies beyond the edge is not stored"
        )
        for design in ("naive_blocked", "async_four", "turns")
    },
    **{
        (design, "wrong transposition", function, *_PLACE): _ONCE
        for design, function in (
            ("ping_pong", "store_b"),
            ("warps", "store_b"),
            ("async_four", "copy_b_async"),
            ("turns", "copy_b_async"),
        )
    },
    **{
        (design, "leading dimensions swapped", "compute_block", *_SWAP): _ONCE
        for design in ("pieces", "warps", "swizzled")
    },
    **{
        (design, "output left out", "store_c", *_STEP): _STEPS
        for design in ("naive_blocked", "ping_pong", "pieces", "async_four")
    },
    **{
        (design, "prefetch beyond the last tile", "compute_block", *_FETCH): _UNREAD
        for design in ("ping_pong", "pieces", "warps")
    },
    **{
        (design, "guard of rows or columns off by one", "copy_b_async", *_LESS): _WHOLE
        for design in ("async_four", "turns")
    },
    **{
        ("async_four", "guard of a vector off by one", function, *_FEWER): _WHOLE
        for function in ("load_global", "store_global")
    },
    ("turns", "prefetch beyond the last tile", "compute_block", *_AHEAD): (
        "the first batch of A has no last row: what it reads lies between others, and nobody reads its slot"
    ),
    **{
        ("parts_atomic", "alignment of one operand not asked for", "gemm_tt_parts_atomic", *change): _SINGLE
        for change in _UNALIGNED
    },
}


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant: the kind of finding that killed it, "" if it survived, "compile" if it is no
    C++ or a `static_assert` refuses it, "error" if the test broke, "crash" or "hang" if the kernel did."""

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


def key(host: str, mutant: Mutant) -> Key:
    """What names a mutant of a host in EQUIVALENT, wherever its line is."""
    before, after = (" ".join(text.split()) for text in (mutant.before, mutant.after))
    return host.split()[0], mutant.kind, mutant.function, before, after


def kernel(design: str, layout: str) -> CompiledKernel:
    wanted = spec(design, layout)
    return CompiledKernel(wanted, compile_spec(wanted))


def all_mutants() -> Iterator[tuple[str, CompiledKernel, Mutant]]:
    for design, layout in HOSTS:
        host = kernel(design, layout)
        for mutant in mutants(host.source):
            if host.launch_plan.parts is None or mutant.kind in SHARING:
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


def failed(fate: Fate) -> bool:
    """Whether a fault was missed, or nothing can be said of it because the test broke."""
    return fate.killed_by == "error" or (not fate.killed_by and not fate.reason)


def table(found: Iterable[Fate]) -> str:
    """Kinds of faults, how many of each were planted and what found them; then who survived, and why."""
    kinds: dict[str, Counter[str]] = {}
    for fate in (fates := list(found)):
        kinds.setdefault(fate.mutant.kind, Counter())[fate.killed_by or "nothing"] += 1
    lines = [f"{'fault':<40} {'planted':>7}  found by"]
    for kind, counts in kinds.items():
        ways = ", ".join(f"{way} {count}" for way, count in counts.most_common())
        lines.append(f"{kind:<40} {counts.total():>7}  {ways}")
    refused = sum(fate.killed_by == "compile" for fate in fates)
    killed = sum(fate.killed_by not in ("", "compile", "error") for fate in fates)
    excused = [fate for fate in fates if not fate.killed_by and fate.reason]
    missed = [fate for fate in fates if failed(fate)]
    lines.append(
        f"{len(fates)} faults of {len(kinds)} kinds: {refused} refused by the compiler, {killed} found,"
        f" {len(excused)} equivalent, {len(missed)} missed"
    )
    lines += [f"equivalent: {fate}: {fate.reason}" for fate in excused]
    lines += [f"MISSED: {fate} {fate.message}" for fate in missed]
    return "\n".join(lines)


def _child(right: CompiledKernel, mutant: Mutant, examples: int, pipe: Connection) -> None:
    try:
        settings = Settings(examples=examples, seed=3, work=200_000, cached=False, shrink=False)
        failure = check_kernel(right.with_source(mutant.text), settings).failure
        told = ("", "") if failure is None else (failure.findings[0].kind, str(failure))
    except GemmError as error:
        told = ("compile" if "G913" in str(error) else "error", str(error).splitlines()[0])
    except Exception as error:
        told = ("error", f"{type(error).__name__}: {error}")
    pipe.send(told)
    pipe.close()
