"""The tile IR: what one kernel does, as tiles, maps and a short program over them.

A Kernel is a value; passes return new ones.  The program (`body`) speaks of whole tiles: which tile of which
operand is copied, awaited, multiplied or stored, and where a barrier stands.  Who touches which element is
the business of the maps (`gemmdsl.layout`), so the verifier can enumerate both exactly.

Program variables: `tile` counts tiles along K in [0, k_tiles); a slot is an index expression over `tile`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, assert_never

from gemmdsl.conditions import Condition
from gemmdsl.extents import SplitMap, WorkspaceMap
from gemmdsl.index import UNBOUNDED, Bound, Expr, Int, Named, Var, choose, equal, wrap
from gemmdsl.layout import CopyMap, GridMap, SharedTile, ThreadMap
from gemmdsl.spec import Axis, OperandName, Spec, StagedName

K_TILES = Var("k_tiles", UNBOUNDED)
TILE = Var("tile", UNBOUNDED)


@dataclass(frozen=True, slots=True)
class Less:
    """A uniform condition, left < right, over `tile` and `k_tiles`."""

    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Equal:
    """A uniform condition, left == right, over loop counters."""

    left: Expr
    right: Expr


Test = Less | Equal


@dataclass(frozen=True, slots=True)
class Counter:
    """A value that a loop carries along: `value.value` in each iteration, from `start` on, by steps of one.

    `modulus` is where it starts over at 0.
    """

    value: Bound
    start: Expr
    modulus: Named

    @property
    def following(self) -> Expr:
        """Its value in the next iteration."""
        return wrap(self.value + 1, self.modulus)


@dataclass(frozen=True, slots=True)
class CopyTile:
    """Global memory -> shared slot, through registers inside the statement; visible after a barrier."""

    operand: StagedName
    tile: Expr
    slot: Expr | None


@dataclass(frozen=True, slots=True)
class LoadTile:
    """Global memory -> the thread's staging registers of this operand."""

    operand: StagedName
    tile: Expr


@dataclass(frozen=True, slots=True)
class StoreTile:
    """Staging registers -> shared slot; visible after a barrier."""

    operand: StagedName
    slot: Expr | None


@dataclass(frozen=True, slots=True)
class AsyncCopyTile:
    """Global memory -> shared slot by asynchronous copies of the group that the next CommitGroup closes.

    The slot may change at any time until the issuing thread waits for the group; others see it after a
    barrier that follows the wait.  The copies are one of `batches` batches of a thread's share of the tile;
    `batch` counts from 0.
    """

    operand: StagedName
    tile: Expr
    slot: Expr | None
    batch: int = 0
    batches: int = 1


@dataclass(frozen=True, slots=True)
class CommitGroup:
    """Closes the thread's open group of asynchronous copies (it may be empty)."""


@dataclass(frozen=True, slots=True)
class WaitGroups:
    """Waits until at most `pending` of the thread's newest groups are in flight."""

    pending: Expr


@dataclass(frozen=True, slots=True)
class Barrier:
    """__syncthreads(); `reason` is printed beside it."""

    reason: str


@dataclass(frozen=True, slots=True)
class MultiplyTile:
    """acc += A[slot] @ B[slot]: for each k, fragments from shared memory, then one FMA per output."""

    slot: Expr | None


@dataclass(frozen=True, slots=True)
class ReadFragment:
    """Shared slot -> fragment registers: the thread's elements of one operand at one k."""

    operand: StagedName
    slot: Expr | None
    k: Expr
    registers: Expr


@dataclass(frozen=True, slots=True)
class MultiplyFragments:
    """acc += a outer b for the fragments in one set of registers: one FMA per output."""

    registers: Expr


@dataclass(frozen=True, slots=True)
class MultiplyGlobal:
    """acc += A @ B over the whole of K, operands read straight from global memory."""


@dataclass(frozen=True, slots=True)
class StoreOutput:
    """C = alpha * acc + beta * C for the thread's outputs; C is read only when beta != 0."""


@dataclass(frozen=True, slots=True)
class AddOutput:
    """C += alpha * acc for the thread's outputs, by atomic additions; nothing where the block has no K."""


@dataclass(frozen=True, slots=True)
class StorePart:
    """parts[split] = acc for the thread's outputs, in a workspace that has a matrix for each part of K."""


@dataclass(frozen=True, slots=True)
class For:
    """A uniform counted loop: `var` from `start` up to, not including, `stop`; `counters` run along.

    `unroll` is True for a loop that is unrolled whole, else how many iterations are at a time.
    """

    var: Var
    start: Expr
    stop: Expr
    body: tuple[Stmt, ...]
    unroll: bool | Named = False
    counters: tuple[Counter, ...] = ()


@dataclass(frozen=True, slots=True)
class If:
    """`body` when a uniform condition holds."""

    condition: Test
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class ScaleOutput:
    """C = beta * C for every element; C is read only when beta is neither 0 nor 1."""


@dataclass(frozen=True, slots=True)
class ReduceParts:
    """C = alpha * (parts[0] + parts[1] + ...) + beta * C for every element; C is read only when beta != 0."""


# Kernels of their own, which go through all of C before or after the tiles are multiplied.
Sweep = ScaleOutput | ReduceParts

Stmt = (
    CopyTile
    | LoadTile
    | StoreTile
    | AsyncCopyTile
    | CommitGroup
    | WaitGroups
    | Barrier
    | MultiplyTile
    | ReadFragment
    | MultiplyFragments
    | MultiplyGlobal
    | StoreOutput
    | AddOutput
    | StorePart
    | For
    | If
)


@dataclass(frozen=True, slots=True)
class Staging:
    """How one operand reaches the FMAs: its shared tile, who copies it, how wide it moves.

    `store` and `read` are vector widths in floats into and out of shared memory.  `words` takes the place of
    `copy` on paths that allow no vectors of the operand in global memory, and stores what it loads, word by
    word; None where `copy` itself moves single words or every path allows its vectors.
    """

    tile: SharedTile
    copy: CopyMap
    store: Named
    read: Named
    words: CopyMap | None = None

    @property
    def maps(self) -> tuple[CopyMap, ...]:
        """All of its maps: of vectors first."""
        return (self.copy,) if self.words is None else (self.copy, self.words)

    def copy_on(self, path: Path) -> CopyMap:
        """The map by which the tile is copied on a path."""
        return self.copy if self.words is None or self.tile.operand.name in path.aligned else self.words


@dataclass(frozen=True, slots=True)
class FmaOrder:
    """In which order a thread's FMAs of one k follow each other.

    `along` N runs through a row of outputs before the next row, `along` M through a column; `snake` runs
    every other one backwards, so that the operand at the turn is used twice in a row.
    """

    along: Literal["M", "N"] = "N"
    snake: bool = False

    def loops(self, threads: ThreadMap) -> tuple[Var, Var]:
        """The counters of outer and inner loop."""
        return (threads.i, threads.j) if self.along == "N" else (threads.j, threads.i)

    def index(self, outer: Var, step: Expr, count: Named) -> Expr:
        """The inner counter's value at a step of line `outer`, which has `count` of them."""
        return choose(equal(outer % 2, Int(0)), step, count - 1 - step) if self.snake else step


@dataclass(frozen=True, slots=True)
class Path:
    """One specialisation of the kernel.

    `full` axes are known to be multiples of the block tile and carry no guard; `aligned` operands are known
    to allow vectors in global memory, others are accessed element by element.
    """

    name: Literal["fast", "edge", "general"]
    full: frozenset[Axis]
    aligned: frozenset[OperandName]
    requires: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel.  `staging` is None while operands are read straight from global memory.

    `fragments` is how many sets of fragment registers a thread has, None for one that needs no number;
    `read_first` says whose fragment is read before the other's, `unroll` how many steps of a K tile are
    unrolled at a time, None for all.  With `split`, several blocks
    share a tile of C; `workspace` is where they keep their products, None where these go to C at once.
    `before` and `after` are the kernels launched around this one.
    """

    spec: Spec
    block_m: Named
    block_n: Named
    block_k: Named | None
    grid: GridMap
    threads: ThreadMap
    staging: tuple[Staging, Staging] | None
    c_vector: Named
    body: tuple[Stmt, ...]
    paths: tuple[Path, ...]
    min_blocks: int = 0
    fragments: Named | None = None
    read_first: StagedName = "A"
    fma: FmaOrder = FmaOrder()
    unroll: Named | None = None
    split: SplitMap | None = None
    workspace: WorkspaceMap | None = None
    before: tuple[Sweep, ...] = ()
    after: tuple[Sweep, ...] = ()
    applied: tuple[str, ...] = ()

    def stage(self, operand: StagedName) -> Staging:
        assert self.staging is not None
        return self.staging[0 if operand == "A" else 1]

    @property
    def asynchronous(self) -> frozenset[OperandName]:
        """Operands whose tiles are copied asynchronously."""
        return frozenset(one.operand for one in walk(self.body) if isinstance(one, AsyncCopyTile))

    def copies(self, staging: Staging) -> tuple[CopyMap, ...]:
        """The maps by which a tile is copied on some path: of vectors first."""
        used = [staging.copy_on(path) for path in self.paths]
        return tuple(copy for copy in staging.maps if copy in used)

    @property
    def read_order(self) -> tuple[StagedName, StagedName]:
        return ("A", "B") if self.read_first == "A" else ("B", "A")

    @property
    def buffers(self) -> Named | None:
        """Slots of each shared tile; None for one that needs no number, and where nothing is staged."""
        return None if self.staging is None else self.staging[0].tile.stages

    @property
    def output_vector(self) -> int:
        """Floats of C that blocks move at once; 1 where they keep their products elsewhere."""
        return 1 if self.workspace is not None else self.c_vector.value

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block."""
        if self.staging is None:
            return 0
        return sum(stage.tile.shape.bytes * stage.tile.slots for stage in self.staging)

    @property
    def preconditions(self) -> tuple[Condition, ...]:
        """What the last resort still requires: the schedule's assumptions."""
        return self.paths[-1].requires


def walk(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement of a program, outer ones before inner ones."""
    for statement in body:
        yield statement
        match statement:
            case For() | If():
                yield from walk(statement.body)
            case (
                CopyTile()
                | LoadTile()
                | StoreTile()
                | AsyncCopyTile()
                | CommitGroup()
                | WaitGroups()
                | Barrier()
                | MultiplyTile()
                | ReadFragment()
                | MultiplyFragments()
                | MultiplyGlobal()
                | StoreOutput()
                | AddOutput()
                | StorePart()
            ):
                pass
            case _:
                assert_never(statement)


def expressions(statement: Stmt) -> tuple[Expr, ...]:
    """Every expression of a statement itself, not of its body."""
    match statement:
        case CopyTile() | AsyncCopyTile():
            return (statement.tile,) if statement.slot is None else (statement.tile, statement.slot)
        case LoadTile():
            return (statement.tile,)
        case StoreTile() | MultiplyTile():
            return () if statement.slot is None else (statement.slot,)
        case ReadFragment():
            parts = (statement.k, statement.registers)
            return parts if statement.slot is None else (statement.slot, *parts)
        case MultiplyFragments():
            return (statement.registers,)
        case WaitGroups():
            return (statement.pending,)
        case For():
            counters = (part for c in statement.counters for part in (c.start, c.value, c.following))
            unroll = (statement.unroll,) if isinstance(statement.unroll, Named) else ()
            return (statement.start, statement.stop, *unroll, *counters)
        case If():
            return (statement.condition.left, statement.condition.right)
        case CommitGroup() | Barrier() | MultiplyGlobal() | StoreOutput() | AddOutput() | StorePart():
            return ()
        case _:
            assert_never(statement)
