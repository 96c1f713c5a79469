"""Uniformity: every thread of a block takes the same way through the program and reaches every barrier."""

from __future__ import annotations

from gemmdsl.index_parts import free
from gemmdsl.ir import K_TILES, For, If, Stmt, expressions
from gemmdsl.printer import headline
from gemmdsl.verifier.failure import UNIFORM, Refuted


def prove_uniform(body: tuple[Stmt, ...], names: frozenset[str] = frozenset((K_TILES.name,))) -> None:
    """Control flow and places depend on `names`, the number of tiles, and on loop counters alone."""
    for statement in body:
        inner = {statement.var.name} if isinstance(statement, For) and statement.counters else set()
        for expr in expressions(statement):
            unknown = free(expr) - names - inner
            if unknown:
                raise Refuted(
                    UNIFORM,
                    f"`{headline(statement)}` depends on {', '.join(sorted(unknown))}",
                    variable=min(unknown),
                )
        match statement:
            case For():
                prove_uniform(statement.body, names | {statement.var.name})
            case If():
                prove_uniform(statement.body, names)
            case _:
                pass
