"""The syntax tree of a `.gemm` file: what was written, and where, before anything is checked.

Every node has the span of its text.  Comments are kept beside the tree, in the order of the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gemmdsl.source import Source, Span

Access = Literal["load", "store", "read"]


@dataclass(frozen=True, slots=True)
class Comment:
    """`#` up to the end of its line; `text` has the `#` and no spaces at its end."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Number:
    value: int
    span: Span


@dataclass(frozen=True, slots=True)
class Version:
    number: Number
    span: Span


@dataclass(frozen=True, slots=True)
class Term:
    """`alpha * A @ B`: the names, and between each two of them `*` or `@`."""

    factors: tuple[Name, ...]
    operators: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Sum:
    terms: tuple[Term, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class OperandDecl:
    """`A: f32[M, K] col`, for the result with `= alpha * A @ B + beta * C`."""

    name: Name
    dtype: Name
    rows: Name
    cols: Name
    order: Name | None
    product: Sum | None
    span: Span


@dataclass(frozen=True, slots=True)
class ProblemDecl:
    name: Name
    operands: tuple[OperandDecl, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Clause:
    """`extends v1`, `for sgemm` or `on sm_75`."""

    word: Literal["extends", "for", "on"]
    name: Name
    span: Span


@dataclass(frozen=True, slots=True)
class Extents:
    numbers: tuple[Number, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Block:
    extents: Extents
    span: Span


@dataclass(frozen=True, slots=True)
class Warp:
    extents: Extents
    span: Span


@dataclass(frozen=True, slots=True)
class Lanes:
    extents: Extents
    order: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class Thread:
    extents: Extents
    piece: Extents | None
    span: Span


@dataclass(frozen=True, slots=True)
class Vector:
    """`vector 4`, or with an access `load vector 4`."""

    access: Access | None
    width: Number
    span: Span


@dataclass(frozen=True, slots=True)
class Transpose:
    span: Span


@dataclass(frozen=True, slots=True)
class Swizzle:
    span: Span


@dataclass(frozen=True, slots=True)
class Pad:
    count: Number
    span: Span


ItemSetting = Vector | Transpose | Swizzle | Pad


@dataclass(frozen=True, slots=True)
class Item:
    """A line of `stage` or `store`, perhaps behind `prefer`."""

    setting: ItemSetting
    prefer: bool
    span: Span


@dataclass(frozen=True, slots=True)
class ItemReset:
    """`no transpose`, `no load vector`: `words` is what follows `no`."""

    words: str
    span: Span


@dataclass(frozen=True, slots=True)
class StageDecl:
    """`stage A { ... }` or `store C { ... }`: `word` tells them apart."""

    word: Literal["stage", "store"]
    operand: Name
    items: tuple[Item | ItemReset, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class CopyStepsOf:
    """`at 2`, or `A at 0 2 4`: the steps are those of `operand`, of both without one."""

    operand: Name | None
    steps: tuple[Number, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Buffers:
    """`buffers 4 async at 2`, `buffers 4 async A at 0 2 B at 4`."""

    count: Number
    asynchronous: bool
    at: tuple[CopyStepsOf, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Fragments:
    """`fragments 2 B first`: `first` is the operand."""

    count: Number
    first: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class Fma:
    """`fma along N snake`."""

    along: Name
    snake: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Unroll:
    count: Number
    span: Span


@dataclass(frozen=True, slots=True)
class Raster:
    """`raster 8 along M`: `along` is the axis."""

    count: Number
    along: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class MinBlocks:
    count: Number
    span: Span


@dataclass(frozen=True, slots=True)
class SplitK:
    """`split_k 8 atomic`."""

    count: Number
    atomic: bool
    span: Span


@dataclass(frozen=True, slots=True)
class AssumeMultiple:
    axis: Name
    multiple: Number
    remainder: Number
    span: Span


@dataclass(frozen=True, slots=True)
class AssumeAligned:
    operand: Name
    span: Span


Setting = (
    Block
    | Warp
    | Lanes
    | Thread
    | StageDecl
    | Buffers
    | Fragments
    | Fma
    | Unroll
    | Raster
    | MinBlocks
    | SplitK
    | AssumeMultiple
    | AssumeAligned
)


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a schedule, perhaps behind `prefer`."""

    setting: Setting
    prefer: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Reset:
    """`no warp`, `no stage A`: an inherited word gets its default back."""

    word: str
    operand: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class ScheduleDecl:
    name: Name
    clauses: tuple[Clause, ...]
    options: tuple[Option | Reset, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class File:
    """A whole file.

    `broken` are the offsets of syntax errors, and the end of a text of which the rest was not read: a
    declaration around one is incomplete.
    """

    source: Source
    version: Version | None
    declarations: tuple[ProblemDecl | ScheduleDecl, ...]
    comments: tuple[Comment, ...]
    broken: tuple[int, ...] = ()
