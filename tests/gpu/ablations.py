"""What each line of a fast schedule buys: the schedule, and others that differ from it in one thing.

`python -m tests.gpu.evidence ablations` times them in one run and prints a table for docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import gemmdsl
from gemmdsl.bench import Row, Subject
from gemmdsl.bench.session import Shape
from tests import examples


@dataclass(frozen=True, slots=True)
class Ablation:
    """A schedule of an example, the product that it is for, and changes: a name and words of the language."""

    file: str
    schedule: str
    shape: Shape
    changes: tuple[tuple[str, str], ...]


ABLATIONS = (
    Ablation(
        "fast.gemm",
        "fast_90",
        (4096, 4096, 4096),
        (
            ("copies at the head of a tile", "buffers 3 async"),
            ("copies one step earlier", "buffers 3 async at 3"),
            ("copies one step later", "buffers 3 async at 5"),
            ("two buffers", "buffers 2 async at 4"),
            ("four buffers", "buffers 4 async at 4"),
            ("no asynchronous copies", "stage A { no load vector }  buffers 2"),
            ("one set of fragments", "fragments 1  buffers 3 async"),
            ("the fragment of B first", "fragments 2 B first"),
            ("rows of FMAs without turning back", "fma along N"),
            ("columns of FMAs there and back", "fma along M snake"),
            ("lanes in pairs", "lanes 4 x 8 paired"),
            ("warps of 128 x 32", "warp 128 x 32  lanes 8 x 4"),
            ("rows of A without padding", "stage A { pad 0 }"),
            ("rows of A padded by 4", "stage A { pad 4 }"),
            ("B copied word by word", "stage B { vector 4  load vector 1 }"),
            ("C stored word by word", "store C { vector 1 }"),
            ("a tile of 128 x 128, 8 x 8 per thread", "block 128 x 128 x 8  warp 32 x 64  thread 8 x 8"),
            ("groups of four tile rows", "raster 4"),
            ("half of the steps unrolled", "unroll 4"),
        ),
    ),
    Ablation(
        "fast.gemm",
        "fast_90_deep",
        (4096, 4096, 4096),
        (
            ("all copies at one step", "buffers 4 async at 3"),
            ("A in one batch", "buffers 4 async A at 3 B at 1 10"),
            ("B in one batch", "buffers 4 async A at 3 9 B at 1"),
            ("A in four batches", "buffers 4 async A at 3 5 9 11 B at 1 10"),
            ("half as deep", "block 128 x 256 x 8  buffers 4 async A at 3 B at 1"),
            ("three buffers", "buffers 3 async A at 3 9 B at 1 10"),
            ("two buffers", "buffers 2 async A at 3 9 B at 1 10"),
            ("rows of A padded by 12", "stage A { pad 12 }"),
            ("lanes in pairs", "lanes 4 x 8 paired"),
            ("half of the steps unrolled", "unroll 8"),
        ),
    ),
    Ablation(
        "fast.gemm",
        "fast_90_nt",
        (4096, 4096, 4096),
        (
            ("all copies at one step", "buffers 4 async at 5"),
            ("each operand at one step", "buffers 4 async A at 1 B at 4"),
            ("four batches of each", "buffers 4 async A at 0 1 5 9 B at 0 2 6 8"),
            ("half as deep", "block 128 x 256 x 8  buffers 4 async A at 0 1 5 6 B at 0 2 4 6"),
        ),
    ),
    Ablation(
        "shapes.gemm",
        "deep",
        (256, 256, 16384),
        (
            ("K in 33 parts", "split_k 33 atomic"),
            ("K in 132 parts", "split_k 132 atomic"),
            ("K in 8 parts", "split_k 8 atomic"),
            ("added in a fixed order", "split_k 66"),
            ("one block for all of K", "no split_k"),
        ),
    ),
    Ablation(
        "fast.gemm",
        "fast_90",
        (8192, 8192, 8192),
        (
            ("groups of 4 tile rows", "raster 4"),
            ("groups of 8 tile rows", "raster 8"),
            ("groups of 16 tile rows", "raster 16"),
        ),
    ),
)


def subjects(ablation: Ablation) -> Iterator[tuple[str, Subject]]:
    """What is said of each schedule, and the schedule: first the one as it is."""
    text = (examples.FOLDER / ablation.file).read_text()
    yield "as it is", Subject(ablation.file, examples.kernel(ablation.file, ablation.schedule))
    for number, (said, words) in enumerate(ablation.changes):
        name = f"{ablation.schedule}_{number}"
        changed = f"{text}\nschedule {name} extends {ablation.schedule} {{\n  {words}\n}}\n"
        yield said, Subject(ablation.file, gemmdsl.loads(changed, ablation.file).compile(name))


def table(ablation: Ablation, said: list[str], rows: list[Row]) -> Iterator[str]:
    """Lines of Markdown; speeds are relative to the schedule as it is, in the same run."""
    m, n, k = ablation.shape
    yield f"`{ablation.schedule}` at {m} x {n} x {k}:"
    yield ""
    yield "| change | TFLOP/s | of the schedule's | x cuBLAS | registers |"
    yield "|---|---|---|---|---|"
    for words, row in zip(said, rows, strict=True):
        if not row.samples:
            yield f"| {words} | {row.status}: {row.reason} | | | |"
            continue
        part = row.flops / rows[0].flops if rows[0].flops else 0.0
        yield f"| {words} | {row.flops / 1e12:.1f} | {part:.3f} | {row.ratio:.3f} | {row.registers} |"
