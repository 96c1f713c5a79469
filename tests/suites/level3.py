"""A sweep like that of the Level-3 reference BLAS tests: tiny sizes, scalars, layouts, error exits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from gemmdsl.api import CompiledKernel, compile_spec
from gemmdsl.spec import Order, Spec
from gemmdsl.testing import Case, run_case
from gemmdsl.testing.case import LANDINGS, OPERANDS, ORDERS, make_case
from gemmdsl.testing.edges import systematic
from gemmdsl.testing.far import far_cases
from gemmdsl.testing.refusals import calls
from tests.suites.designs import LAYOUTS, spec
from tests.suites.tally import Tally

SIZES = (0, 1, 2, 3, 5, 9)
ALPHAS = (0.0, 1.0, 0.7)
BETAS = (0.0, 1.0, 1.3)


def cases(wanted: Spec) -> Iterator[Case]:
    """6 ^ 3 shapes with 3 x 3 scalars; leading dimensions, operands and orders go round."""
    sweep = product(product(SIZES, repeat=3), ALPHAS, BETAS)
    for turn, ((m, n, k), alpha, beta) in enumerate(sweep):
        case = make_case(
            wanted.problem,
            m,
            n,
            k,
            alpha=alpha,
            beta=beta,
            operands=OPERANDS[turn % len(OPERANDS)],
            order=ORDERS[turn % len(ORDERS)],
            landing=LANDINGS[turn % len(LANDINGS)] if wanted.schedule.asynchronous else "late",
            seed=turn,
        )
        padding = turn % 4
        yield case.changed(
            lda=case.lda + padding, ldb=case.ldb + 2 * padding, ldc=case.ldc + 3 * padding, offset_a=turn % 3
        )


def sweep(design: str) -> Tally:
    """One design in all four layouts, C row- and column-major in turn."""
    tally = Tally()
    for turn, layout in enumerate(LAYOUTS):
        wanted = spec(design, layout, (Order.ROW, Order.COLUMN)[turn % 2])
        kernel = CompiledKernel(wanted, compile_spec(wanted))
        tally.counts["kernels"] += 1
        for kind, found in (("cases", cases(wanted)), ("larger", systematic(wanted, kernel.launch_plan))):
            for case in found:
                outcome = run_case(kernel.cuda, case)
                tally.counts[kind] += 1
                if not outcome.ok:
                    tally.failures.append(f"{design} {layout} {case}: {outcome.findings}")
        for odd in (*calls(kernel.cuda), *far_cases(kernel.cuda)):
            tally.counts["error exits and odd calls"] += 1
            tally.failures += [f"{design} {layout}: {finding}" for finding in odd.check(kernel.cuda)]
    return tally
