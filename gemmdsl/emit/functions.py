"""Functions of the emitted text: of the parameters and flags that they might have, those that they use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z_]\w*")
# The name in a declaration: the last word, but for extents of an array.
_DECLARED = re.compile(r"(\w+)\)?(?:\[[^\]]*\])*$")


def names_in(*texts: str) -> frozenset[str]:
    """The names that occur in C texts."""
    return frozenset(name for text in texts for name in _NAME.findall(text))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter, and what callers pass for it unless they say otherwise: what goes by its name."""

    declaration: str
    value: str = ""

    @property
    def name(self) -> str:
        found = _DECLARED.search(self.declaration)
        assert found is not None, self.declaration
        return found[1]

    @property
    def argument(self) -> str:
        return self.value or self.name


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its name, the flags of the path that it depends on, its parameters.

    `numbers` are what a call says in angle brackets besides flags.
    """

    name: str
    flags: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    numbers: tuple[str, ...] = ()

    @property
    def template(self) -> str:
        """The line before it, empty where nothing is said in angle brackets."""
        listed = (*(f"bool {flag}" for flag in self.flags), *(f"int {name}" for name in self.numbers))
        return f"template <{', '.join(listed)}>" if listed else ""

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(p.declaration for p in self.parameters)})"

    @property
    def used(self) -> frozenset[str]:
        """The names that a call mentions, where all arguments are the usual ones."""
        return frozenset(self.flags) | names_in(*(p.argument for p in self.parameters))

    def call(self, *numbers: str, **arguments: str) -> str:
        """A call; `arguments` by the name of their parameter, the usual one for others.

        `numbers` are those of the function, in their order; others are left out.
        """
        listed = (*self.flags, *numbers[: len(self.numbers)])
        return self.call_with(f"<{', '.join(listed)}>" if listed else "", **arguments)

    def call_with(self, flags: str, **arguments: str) -> str:
        """A call with flags of the caller's own, in angle brackets."""
        given = ", ".join(arguments.get(p.name, p.argument) for p in self.parameters)
        return f"{self.name}{flags}({given})"


def function(
    name: str, flags: Iterable[str], parameters: Iterable[Parameter], used: frozenset[str]
) -> Function:
    """A function whose body uses the names `used`."""
    return Function(
        name,
        tuple(flag for flag in flags if flag in used),
        tuple(parameter for parameter in parameters if parameter.name in used),
    )


def closure(names: frozenset[str], definitions: Mapping[str, str]) -> frozenset[str]:
    """`names`, those in their definitions, those in theirs, and so on."""
    found, new = names, names
    while new:
        new = names_in(*(definitions[name] for name in new if name in definitions)) - found
        found |= new
    return found
