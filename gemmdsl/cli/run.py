"""`gemmdsl run`: does a schedule compute what numpy computes?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gemmdsl.cli.options import ShapeType, sanitizers, three

if TYPE_CHECKING:
    from gemmdsl.emulator.checker import Sanitizer
    from gemmdsl.testing.case import Case, Landing, OperandsKind, ThreadOrder
    from gemmdsl.testing.outcome import Outcome
    from gemmdsl.testing.trial import Device

_WRONG_RESULT = 1


@click.command()
@click.argument("file")
@click.option("--schedule", "-s", metavar="NAME", help="The schedule to run, or 'all'.")
@click.option(
    "--shape", type=ShapeType(), required=True, help="Sizes of the product, or one number for all three."
)
@click.option("--target", "-t", metavar="SM", help="Compile for this target instead, such as sm_90.")
@click.option("--alpha", type=float, default=1.0, show_default=True, help="Factor of A @ B.")
@click.option("--beta", type=float, default=0.0, show_default=True, help="Factor of the old C.")
@click.option("--lda", type=int, metavar="LD", help="Leading dimension of A; the least legal one by default.")
@click.option("--ldb", type=int, metavar="LD", help="Leading dimension of B.")
@click.option("--ldc", type=int, metavar="LD", help="Leading dimension of C.")
@click.option("--entry", metavar="PATH", help="Run this path: fast, edge or general.")
@click.option(
    "--offsets",
    callback=three,
    default="0,0,0",
    metavar="A,B,C",
    help="Elements from an aligned address to the first of each operand.",
)
@click.option(
    "--operands",
    type=click.Choice(["integers", "uniform", "pick-b", "pick-a", "special"]),
    default="integers",
    show_default=True,
    help="Small integers, compared exactly; numbers in [-1, 1); rows of A that pick rows of B, or columns"
    " of B that pick columns of A; numbers with NaN and infinities among them.",
)
@click.option(
    "--order",
    type=click.Choice(["forward", "reversed", "seeded"]),
    default="forward",
    show_default=True,
    help="Order of the threads between barriers.",
)
@click.option(
    "--landing",
    type=click.Choice(["late", "early"]),
    default="late",
    show_default=True,
    help="When an asynchronous copy lands: when it is waited for, or at once.",
)
@click.option(
    "--sanitize",
    callback=sanitizers,
    default="none",
    show_default=True,
    metavar="LIST",
    help="Watch every access for these, of race, memory, init and align; or 'none'.",
)
@click.option("--source", metavar="CU", help="Run this hand-edited text of the kernel.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the operands and of the order.")
@click.option("--device", type=click.Choice(["cpu", "gpu"]), default="cpu", show_default=True)
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    schedule: str | None,
    shape: tuple[int, int, int],
    target: str | None,
    alpha: float,
    beta: float,
    lda: int | None,
    ldb: int | None,
    ldc: int | None,
    entry: str | None,
    offsets: tuple[int, int, int],
    operands: OperandsKind,
    order: ThreadOrder,
    landing: Landing,
    sanitize: tuple[Sanitizer, ...],
    source: str | None,
    seed: int,
    device: Device,
) -> None:
    """Compile a schedule, run it and compare the result with numpy.

    On the CPU, the emitted CUDA text itself is compiled by the machine's C++ compiler; with --device gpu, by
    nvcc for the machine's first GPU.  What a kernel must
    not look at is NaN: the padding, C when beta is 0, A and B when alpha is 0.  Words around and between
    the rows of the operands are checked for stray writes.  Exits with 1 when a result is wrong, or a schedule
    refuses the shape; with --schedule all the others run all the same.
    """
    if device == "gpu" and sanitize:
        raise click.UsageError("--sanitize is for --device cpu; gemmdsl test --device gpu watches a GPU")
    from gemmdsl.api import load
    from gemmdsl.cli.edited import with_edits
    from gemmdsl.cli.errors import of_the_input
    from gemmdsl.diagnostics import GemmError, render_all
    from gemmdsl.testing.case import make_case
    from gemmdsl.testing.trial import run_case

    program = load(file)
    names = program.schedules if schedule == "all" else (schedule,)
    if source is not None and len(names) > 1:
        raise click.UsageError("--source is the text of one kernel: name its schedule")
    lds = {"lda": lda, "ldb": ldb, "ldc": ldc}
    parts: dict[str, Any] = {name: value for name, value in lds.items() if value is not None}
    parts |= dict(zip(("offset_a", "offset_b", "offset_c"), offsets, strict=True))
    parts |= {"alpha": alpha, "beta": beta, "operands": operands, "seed": abs(seed)}
    parts |= {"entry": entry or "", "order": order, "landing": landing}

    def right(name: str | None) -> bool:
        kernel = with_edits(program.compile(name, target), source)
        case = make_case(kernel.spec.problem, *shape, **parts)
        outcome = run_case(kernel.cuda, case, sanitize=sanitize, device=device)
        click.echo(f"{kernel.spec.schedule.name} for {kernel.spec.target.name}, {_title(case)}")
        for sentence in kernel.spec.fallbacks:
            click.echo(f"  note    {sentence}")
        # A path that was asked for needs no reason.
        reasons = () if entry else kernel.launch_plan.why_not(case.conditions())
        _print(case, outcome, reasons, device)
        return outcome.ok

    failures = 0
    for name in names:
        try:
            failures += not right(name)
        except GemmError as refused:
            # What one schedule refuses, the next one may take; without a tool none of them runs.
            if len(names) == 1 or not of_the_input(refused):
                raise
            click.echo(render_all(refused.diagnostics), nl=False, err=True)
            failures += 1
    if failures:
        ctx.exit(_WRONG_RESULT)


def _print(case: Case, outcome: Outcome, reasons: tuple[str, ...], device: Device) -> None:
    if outcome.summary:
        because = f": {', '.join(reasons)}" if reasons else ""
        click.echo(f"  path    {outcome.path + because if outcome.path else 'none: nothing to compute'}")
    if outcome.summary and not any(finding.kind == "result" for finding in outcome.findings):
        equal = f"all {case.m * case.n} elements equal numpy's"
        click.echo(f"  result  right: {equal if outcome.exact else outcome.summary}")
    for finding in outcome.findings:
        click.echo(f"  {finding.kind:<7} WRONG: {finding.message}")
        for note in finding.notes:
            click.echo(f"  {'':<7} {note}")
    if outcome.drift:
        click.echo("  note    errors are larger than rounding errors that average out would be")
    work = case.m * case.n * case.k
    rate = f", {_rate(work / outcome.seconds)} FMA/s" if work and outcome.seconds else ""
    # One cold run: gemmdsl bench is what takes a GPU's time properly.
    place = "on the GPU, one run" if device == "gpu" else f"on the CPU emulator{rate}"
    click.echo(f"  time    {outcome.seconds * 1e3:.2f} ms {place}")


def _rate(rate: float) -> str:
    """A number of so many a second, in thousands or millions."""
    thousands = rate / 1e3
    return f"{thousands:.0f} thousand" if thousands < 10_000 else f"{thousands / 1e3:.0f} million"


def _title(case: Case) -> str:
    return f"{case.m} x {case.n} x {case.k}, alpha = {case.alpha:g}, beta = {case.beta:g}"
