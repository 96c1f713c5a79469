"""Conditions on sizes, addresses and leading dimensions under which a path of a kernel is right.

The compiler states them, the launcher and the runtimes decide by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from gemmdsl.spec import Axis, OperandName


@dataclass(frozen=True, slots=True)
class Multiple:
    """Condition: extent `axis` is a multiple of `of`."""

    axis: Axis
    of: int

    def holds(self, sizes: Mapping[str, int]) -> bool:
        return sizes[self.axis] % self.of == 0

    def refusal(self, sizes: Mapping[str, int]) -> str:
        """What breaks the condition, as `M = 130 is no multiple of 128`; "" when it holds."""
        return _not_multiple(self.axis, sizes[self.axis], self.of)

    def __str__(self) -> str:
        return f"{self.axis} % {self.of} == 0"


@dataclass(frozen=True, slots=True)
class Aligned:
    """Condition: the operand's address and its leading dimension allow vectors of `elements` floats."""

    operand: OperandName
    elements: int

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """`sizes` holds the address under the operand's name and its leading dimension under ld<name>."""
        ld = sizes[f"ld{self.operand.lower()}"]
        return sizes[self.operand] % (4 * self.elements) == 0 and ld % self.elements == 0

    def refusal(self, sizes: Mapping[str, int]) -> str:
        """What breaks the condition: the leading dimension, else the address; "" when it holds."""
        ld = f"ld{self.operand.lower()}"
        if wrong := _not_multiple(ld, sizes[ld], self.elements):
            return wrong
        unit = 4 * self.elements
        return f"the address of {self.operand} is no multiple of {unit}" if sizes[self.operand] % unit else ""

    def __str__(self) -> str:
        return f"{self.operand} aligned for {self.elements}-float vectors"


Condition = Multiple | Aligned


def implied(condition: Condition, by: Iterable[Condition]) -> bool:
    """Whether a condition holds wherever one of others does."""
    match condition:
        case Multiple(axis, of):
            return any(isinstance(one, Multiple) and one.axis == axis and one.of % of == 0 for one in by)
        case Aligned(operand, width):
            return any(
                isinstance(one, Aligned) and one.operand == operand and one.elements % width == 0
                for one in by
            )
        case _:
            assert_never(condition)


def _not_multiple(name: str, value: int, of: int) -> str:
    return f"{name} = {value} is no multiple of {of}" if value % of else ""
