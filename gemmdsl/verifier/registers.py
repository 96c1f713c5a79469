"""Fragment registers: which set a step uses is known when the kernel is compiled.

Registers have no addresses.  An index of them that is known at run time only would put them into memory,
which changes no result and is many times slower.
"""

from __future__ import annotations

from gemmdsl.index import Expr, Named, constant, evaluate
from gemmdsl.index_parts import free
from gemmdsl.ir import For, If, MultiplyFragments, ReadFragment, Stmt
from gemmdsl.verifier.failure import REGISTER_SETS, Refuted


def prove_register_sets(body: tuple[Stmt, ...], loops: tuple[For, ...] = ()) -> None:
    """Each index of a register set repeats with the turns of the loops around it, as they are unrolled."""
    for statement in body:
        if isinstance(statement, (For, If)):
            inner = (*loops, statement) if isinstance(statement, For) else loops
            prove_register_sets(statement.body, inner)
        elif isinstance(statement, (ReadFragment, MultiplyFragments)):
            _prove(statement.registers, loops)


def _prove(registers: Expr, loops: tuple[For, ...]) -> None:
    names = free(registers)
    for loop in loops:
        name = loop.var.name
        if name not in names or loop.unroll is True:
            continue
        start, stop = constant(loop.start), constant(loop.stop)
        if names != {name} or start is None or stop is None:
            raise Refuted(REGISTER_SETS, f"registers depend on {name} and on what is not known", counter=name)
        period = loop.unroll.value if isinstance(loop.unroll, Named) else 1
        for value in range(start, stop - period):
            now, then = (evaluate(registers, {name: step}) for step in (value, value + period))
            if now != then:
                raise Refuted(
                    REGISTER_SETS,
                    f"the loop over {name} is unrolled by {period}, and its next turn uses other registers",
                    **{name: value, "registers": int(now), "next_registers": int(then)},
                )
