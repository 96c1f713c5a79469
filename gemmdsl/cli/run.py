"""`gemmdsl run`: does a schedule compute what numpy computes?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import numpy as np

    from gemmdsl.cuda_source import CudaSource
    from gemmdsl.emulator.run import Launch
    from gemmdsl.reference import Floats, Verdict

_WRONG_RESULT = 1
_NOT_AVAILABLE = 2
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)", re.IGNORECASE)
_MAX_EXTENT = 2**31 - 1


def _shape(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, int, int]:
    """M, N and K; BadParameter if `value` is not of the form MxNxK or an extent is no 32-bit integer."""
    match = _SHAPE.fullmatch(value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r} is not of the form MxNxK, such as 130x127x129")
    m, n, k = (int(digits) for digits in match.groups())
    if max(m, n, k) > _MAX_EXTENT:
        raise click.BadParameter(f"an extent is at most {_MAX_EXTENT}")
    return m, n, k


@click.command()
@click.argument("file")
@click.option("--schedule", "-s", metavar="NAME", help="The schedule to run, or 'all'.")
@click.option("--shape", callback=_shape, metavar="MxNxK", required=True, help="Sizes of the product.")
@click.option("--target", "-t", metavar="SM", help="Compile for this target instead, such as sm_90.")
@click.option("--alpha", type=float, default=1.0, show_default=True, help="Factor of A @ B.")
@click.option("--beta", type=float, default=0.0, show_default=True, help="Factor of the old C.")
@click.option("--lda", type=int, metavar="LD", help="Leading dimension of A; the least legal one by default.")
@click.option("--ldb", type=int, metavar="LD", help="Leading dimension of B.")
@click.option("--ldc", type=int, metavar="LD", help="Leading dimension of C.")
@click.option("--entry", metavar="PATH", help="Run this path: fast, edge or general.")
@click.option(
    "--operands",
    type=click.Choice(["integers", "uniform"]),
    default="integers",
    show_default=True,
    help="Small integers, compared exactly, or numbers in [-1, 1).",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the operands.")
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
    operands: str,
    seed: int,
    device: str,
) -> None:
    """Compile a schedule, run it and compare the result with numpy.

    On the CPU, the emitted CUDA text itself is compiled by the machine's C++ compiler.  What a kernel must
    not look at is NaN: the padding, C when beta is 0, A and B when alpha is 0.  Words around and between
    the rows of the operands are checked for stray writes.  Exits with 1 when a result is wrong.
    """
    if device == "gpu":
        click.echo("error: --device gpu is not available in this version; run with --device cpu", err=True)
        ctx.exit(_NOT_AVAILABLE)
    from gemmdsl.api import load

    program = load(file)
    names = program.schedules if schedule == "all" else (schedule,)
    failures = 0
    for name in names:
        kernel = program.compile(name, target)
        click.echo(f"{kernel.spec.schedule.name} for {kernel.spec.target.name}, {_title(shape, alpha, beta)}")
        for sentence in kernel.spec.fallbacks:
            click.echo(f"  note    {sentence}")
        right = _run(kernel.cuda, shape, alpha, beta, (lda, ldb, ldc), entry, operands, seed)
        failures += not right
    if failures:
        ctx.exit(_WRONG_RESULT)


def _run(
    source: CudaSource,
    shape: tuple[int, int, int],
    alpha: float,
    beta: float,
    leading: tuple[int | None, int | None, int | None],
    entry: str | None,
    operands: str,
    seed: int,
) -> bool:
    """Run one kernel and print what came of it; whether the result is right."""
    import numpy as np

    from gemmdsl.emulator.run import arguments_of, launch, store

    m, n, k = shape
    stored = store(source, m, n, k, lda=leading[0], ldb=leading[1], ldc=leading[2])
    rng = np.random.default_rng(abs(seed))
    a, b, c = (_draw(rng, operands, rows, cols) for rows, cols in ((m, k), (k, n), (m, n)))
    if alpha != 0:
        stored["A"].fill(a)
        stored["B"].fill(b)
    if beta != 0:
        stored["C"].fill(c)
    before = {name: matrix.buffer.copy() for name, matrix in stored.items() if name != "C"}
    launched = launch(source, arguments_of(stored, m, n, k), alpha, beta, entry=entry)
    verdict, exact = _judge(source, stored["C"].matrix, a, b, c, alpha, beta)
    strays = [stored["C"].stray_writes()]
    strays += [
        f"{name} was written to"
        for name, words in before.items()
        if not np.array_equal(words, stored[name].buffer)
    ]
    _print(launched, verdict, exact, shape, [stray for stray in strays if stray])
    return verdict.ok and not any(strays)


def _draw(rng: np.random.Generator, operands: str, rows: int, cols: int) -> Floats:
    from gemmdsl.reference import integers, uniform

    return integers(rng, rows, cols) if operands == "integers" else uniform(rng, rows, cols)


def _judge(
    source: CudaSource, result: Floats, a: Floats, b: Floats, c: Floats, alpha: float, beta: float
) -> tuple[Verdict, bool]:
    """The verdict, and whether the comparison was exact, as it is wherever FP32 holds every sum."""
    from gemmdsl.reference import InexactError, compare

    try:
        return compare(source.problem, result, a, b, c, alpha, beta, exact=True), True
    except InexactError:
        return compare(source.problem, result, a, b, c, alpha, beta), False


def _print(
    launched: Launch, verdict: Verdict, exact: bool, shape: tuple[int, int, int], strays: list[str]
) -> None:
    m, n, k = shape
    click.echo(f"  path    {launched.entry.path if launched.entry else 'none: nothing to compute'}")
    if m * n == 0:
        click.echo("  result  right: C has no elements")
    elif verdict.ok and exact:
        compared = f"all {m * n} elements equal numpy's" if m * n > 1 else "the element equals numpy's"
        click.echo(f"  result  right: {compared}")
    else:
        click.echo(f"  result  {'right' if verdict.ok else 'WRONG'}: {verdict}")
    if verdict.drift:
        click.echo("  note    errors are larger than rounding errors that average out would be")
    for stray in strays:
        click.echo(f"  memory  WRONG: {stray}")
    rate = f", {m * n * k / launched.seconds / 1e6:.0f} million FMA/s" if m * n * k else ""
    click.echo(f"  time    {launched.seconds * 1e3:.2f} ms on the CPU emulator{rate}")


def _title(shape: tuple[int, int, int], alpha: float, beta: float) -> str:
    m, n, k = shape
    return f"{m} x {n} x {k}, alpha = {alpha:g}, beta = {beta:g}"
