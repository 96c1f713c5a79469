"""Prints index expressions as C and remembers which named constants and functions the text needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from gemmdsl.index import Expr, Named, Op, constant, terms
from gemmdsl.index_parts import constants
from gemmdsl.index_text import calls, to_c
from gemmdsl.spec import Operand


@dataclass(slots=True)
class Printer:
    """`printer(expr)` is the C text of an expression.

    `used` collects its constants by name, `called` the functions of templates/helpers.j2 that it calls.
    """

    used: dict[str, Named] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)

    def __call__(self, expr: Expr) -> str:
        for named in constants(expr):
            known = self.used.setdefault(named.name, named)
            assert known == named, f"the text has two constants {named.name}"
        self.called.update(calls(expr))
        return to_c(expr)


def wide(expr: Expr, text: Printer) -> str:
    """C text of an expression of ints; products that are its summands take 64 bits."""
    return " + ".join(_wide(term, text) for term in terms(expr))


def _wide(term: Expr, text: Printer) -> str:
    if isinstance(term, Op) and term.kind == "*":
        return f"static_cast<int64_t>({text(term.left)}) * {text(term.right)}"
    return text(term)


def address(operand: Operand, strided: Expr, contiguous: Expr, text: Printer) -> str:
    """C text of the distance in floats between two elements of an operand that lie this far apart.

    `strided` and `contiguous` count along the operand's axes; the product with the leading dimension is 64
    bits wide.
    """
    parts = []
    if constant(strided) != 0:
        text.called.add("offset")
        parts.append(f"offset({text(strided)}, {operand.ld})")
    if constant(contiguous) != 0 or not parts:
        parts.append(text(contiguous))
    return " + ".join(parts)


@dataclass(frozen=True, slots=True)
class ConstantGroup:
    """Constants printed together under a title."""

    title: str
    items: tuple[ConstantLine, ...]


@dataclass(frozen=True, slots=True)
class ConstantLine:
    """One `constexpr int`."""

    name: str
    value: str
    note: str


_FIRST = (
    "BLOCK_M",
    "BLOCK_N",
    "BLOCK_K",
    "BUFFERS",
    "WARP_SIZE",
    "WARP_M",
    "WARP_N",
    "LANES_M",
    "LANES_N",
    "THREAD_M",
    "THREAD_N",
    "PIECE_M",
    "PIECE_N",
    "PARTS",
)
_TITLES = {
    "": "Tiles and threads.",
    "A": "How A moves and where its tile lies.",
    "B": "How B moves and where its tile lies.",
    "C": "How C moves.",
}


def constant_groups(used: dict[str, Named]) -> tuple[ConstantGroup, ...]:
    """The constants in the order that a reader expects, each after those it is defined by."""
    ordered: list[Named] = [used[name] for name in _FIRST if name in used]
    ordered += [named for name, named in used.items() if name not in _FIRST]
    groups: dict[str, list[ConstantLine]] = {title: [] for title in _TITLES}
    for named in ordered:
        prefix = named.name.split("_")[0]
        group = prefix if prefix in ("A", "B", "C") else ""
        groups[group].append(ConstantLine(named.name, to_c(named.definition), named.note))
    return tuple(ConstantGroup(_TITLES[key], tuple(items)) for key, items in groups.items() if items)
