"""The program of a kernel as C text, statement by statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from gemmdsl import extents
from gemmdsl.emit.printing import Printer
from gemmdsl.index import Expr, Named
from gemmdsl.ir import (
    AddOutput,
    AsyncCopyTile,
    Barrier,
    CommitGroup,
    CopyTile,
    For,
    If,
    Less,
    LoadTile,
    MultiplyFragments,
    MultiplyGlobal,
    MultiplyTile,
    ReadFragment,
    Stmt,
    StoreOutput,
    StorePart,
    StoreTile,
    WaitGroups,
)


@dataclass(frozen=True, slots=True)
class CounterView:
    """A counter that runs along with a loop: its first value, and how it goes on."""

    name: str
    start: str
    following: str


@dataclass(frozen=True, slots=True)
class StatementView:
    """One statement; `kind` names its macro in templates/program.j2, the rest is what that macro prints.

    `function` is the function of the text that it calls, if any.
    """

    kind: str
    function: str = ""
    operand: str = ""
    k_left: str = ""
    slot: str = ""
    k: str = ""
    registers: str = ""
    pending: str = ""
    batch: str = ""
    batches: str = ""
    reason: str = ""
    var: str = ""
    start: str = ""
    stop: str = ""
    condition: str = ""
    counters: tuple[CounterView, ...] = ()
    unroll: bool = False
    at_a_time: str = ""
    body: tuple[StatementView, ...] = ()

    @property
    def lower(self) -> str:
        return self.operand.lower()

    @property
    def lands(self) -> bool:
        """Whether it stores to the slot, from the thread's first place on."""
        return bool(self.operand and self.slot and not self.registers)

    @property
    def landing(self) -> str:
        return f"{self.slot}.{self.operand}[0] + {self.lower}_to"


def statement_view(statement: Stmt, block_k: Named | None, text: Printer) -> StatementView:
    """The view of one statement and of those inside it."""

    def k_left(tile: Expr) -> str:
        assert block_k is not None
        return text(extents.k_left(tile, block_k))

    def slot(expr: Expr | None) -> str:
        return "stage" if expr is None else f"stages[{text(expr)}]"

    kind = type(statement).__name__
    match statement:
        case CopyTile():
            return StatementView(
                kind,
                f"copy_{statement.operand.lower()}",
                operand=statement.operand,
                k_left=k_left(statement.tile),
                slot=slot(statement.slot),
            )
        case AsyncCopyTile():
            return StatementView(
                kind,
                f"copy_{statement.operand.lower()}_async",
                operand=statement.operand,
                k_left=k_left(statement.tile),
                slot=slot(statement.slot),
                batch=str(statement.batch),
                batches=str(statement.batches),
            )
        case LoadTile():
            name = f"load_{statement.operand.lower()}"
            return StatementView(kind, name, operand=statement.operand, k_left=k_left(statement.tile))
        case StoreTile():
            name = f"store_{statement.operand.lower()}"
            return StatementView(kind, name, operand=statement.operand, slot=slot(statement.slot))
        case WaitGroups():
            return StatementView(kind, pending=text(statement.pending))
        case Barrier():
            return StatementView(kind, reason=statement.reason)
        case MultiplyTile():
            return StatementView(kind, "multiply_tile", slot=slot(statement.slot))
        case ReadFragment():
            return StatementView(
                kind,
                f"read_{statement.operand.lower()}",
                operand=statement.operand,
                slot=slot(statement.slot),
                k=text(statement.k),
                registers=text(statement.registers),
            )
        case MultiplyFragments():
            return StatementView(kind, registers=text(statement.registers))
        case MultiplyGlobal():
            return StatementView(kind, "multiply_global")
        case StoreOutput():
            return StatementView(kind, "store_c")
        case AddOutput():
            return StatementView(kind, "add_c")
        case StorePart():
            return StatementView(kind, "store_part")
        case CommitGroup():
            return StatementView(kind)
        case For():
            return StatementView(
                kind,
                var=statement.var.name,
                start=text(statement.start),
                stop=text(statement.stop),
                unroll=bool(statement.unroll),
                at_a_time=text(statement.unroll) if isinstance(statement.unroll, Named) else "",
                counters=tuple(
                    CounterView(c.value.name, text(c.start), text(c.following)) for c in statement.counters
                ),
                body=program_view(statement.body, block_k, text),
            )
        case If():
            condition = statement.condition
            sign = "<" if isinstance(condition, Less) else "=="
            return StatementView(
                kind,
                condition=f"{text(condition.left)} {sign} {text(condition.right)}",
                body=program_view(statement.body, block_k, text),
            )
        case _:
            assert_never(statement)


def program_view(body: tuple[Stmt, ...], block_k: Named | None, text: Printer) -> tuple[StatementView, ...]:
    """The views of a list of statements; `block_k` is the depth of a K tile."""
    return tuple(statement_view(statement, block_k, text) for statement in body)
