"""`gemmdsl ir`: the tile IR of a schedule at any stage, what each pass changes, and what is proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gemmdsl.passes import Step

_EVERY = "all"


@click.command()
@click.argument("file")
@click.option("--schedule", "-s", metavar="NAME", help="The schedule to show.")
@click.option("--target", "-t", metavar="SM", help="Compile for this target instead, such as sm_90.")
@click.option("--after", metavar="PASS", help="Show the IR after this pass instead of the last one.")
@click.option(
    "--diff",
    metavar="[PASS]",
    is_flag=False,
    flag_value=_EVERY,
    help="Show what this pass changes, or what every pass changes.",
)
@click.option("--list", "listed", is_flag=True, help="List the passes and say which changed the kernel.")
def command(
    file: str, schedule: str | None, target: str | None, after: str | None, diff: str | None, listed: bool
) -> None:
    """Show the tile IR before and after each pass.

    Each stage comes with what was proved of it.  `lower` is the naive kernel that the passes start from.
    """
    if sum((after is not None, diff is not None, listed)) > 1:
        raise click.UsageError("--after, --diff and --list exclude each other")
    from gemmdsl.checker import load
    from gemmdsl.passes import steps

    program = load(file)
    for name in (after, diff):
        if name is not None and name != _EVERY:
            _known(name)
    spec = program.spec(schedule, target)
    for sentence in spec.fallbacks:
        click.echo(f"note: {sentence}", err=True)
    done = steps(spec)
    if listed:
        click.echo(_listing(done), nl=False)
    elif diff is not None:
        click.echo(_differences(done, diff), nl=False)
    else:
        click.echo(_stage(done, after), nl=False)


def _known(name: str) -> None:
    """GemmError with the nearest pass unless `name` is one."""
    from gemmdsl.diagnostics import GemmError, error
    from gemmdsl.suggest import nearest

    names = _stages()
    if name in names:
        return
    guess = nearest(name, names)
    meant = f"; did you mean `{guess}`?" if guess else ""
    raise GemmError([error("G721", f"there is no pass `{name}`{meant}", passes=", ".join(names))])


def _stages() -> tuple[str, ...]:
    """Lowering and every pass, in order."""
    from gemmdsl.passes import LOWERING, PIPELINE

    return (LOWERING, *(apply.__name__ for apply in PIPELINE))


def _listing(done: tuple[Step, ...]) -> str:
    changed = {step.name for step in done}
    width = max(map(len, _stages()))
    rows = (f"{name:<{width}}  {'changed' if name in changed else '-'}\n" for name in _stages())
    return "".join(rows)


def _stage(done: tuple[Step, ...], after: str | None) -> str:
    """The IR after a pass: what the last pass up to there that changed something left."""
    from gemmdsl.printer import print_stage

    if after is None:
        return print_stage(done[-1].kernel, done[-1].proofs)
    _note_unchanged(done, after)
    until = _stages()[: _stages().index(after) + 1]
    step = [step for step in done if step.name in until][-1]
    return print_stage(step.kernel, step.proofs)


def _differences(done: tuple[Step, ...], name: str) -> str:
    from gemmdsl.printer import difference, print_stage

    if name != _EVERY:
        _note_unchanged(done, name)
    texts = [print_stage(step.kernel, step.proofs) for step in done]
    pairs = zip(done, done[1:], texts, texts[1:], strict=False)
    return "\n".join(
        difference(old_text, new_text, old.name, new.name)
        for old, new, old_text, new_text in pairs
        if name in (_EVERY, new.name)
    )


def _note_unchanged(done: tuple[Step, ...], name: str) -> None:
    if name not in {step.name for step in done}:
        click.echo(f"note: {name} changes nothing in this schedule", err=True)
