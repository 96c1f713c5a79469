"""`gemmdsl doctor`: what is there, what is missing, and what mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gemmdsl.doctor import Check, Group

_UNWELL = 2
_SCHEMA = "gemmdsl.doctor/1"
_MARKS = {"ok": "ok", "missing": "--", "broken": "BAD"}
_TITLES: dict[str, str] = {
    "basis": "Compiling, running and testing on the CPU",
    "cuda": "Machine code",
    "gpu": "Running on a GPU",
    "extras": "Extras",
}


@click.command()
@click.option(
    "--need",
    type=click.Choice(["cpu", "cuda", "gpu"]),
    default="cpu",
    show_default=True,
    help="What has to work: the CPU alone, nvcc too, or a GPU as well.",
)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def command(ctx: click.Context, need: str, output_format: str) -> None:
    """Say which tools and devices are there, and how to get what is missing.

    Exits with 2 when something is missing that --need asks for, or something that is there cannot be used.
    """
    from gemmdsl.doctor import examine, healthy

    checks = examine()
    needed: dict[str, frozenset[Group]] = {
        "cpu": frozenset({"basis"}),
        "cuda": frozenset({"basis", "cuda"}),
        "gpu": frozenset({"basis", "cuda", "gpu"}),
    }
    well = healthy(checks, needed[need])
    if output_format == "json":
        _print_json(checks, well)
    else:
        _print(checks)
    if not well:
        ctx.exit(_UNWELL)


def _print(checks: tuple[Check, ...]) -> None:
    for group, title in _TITLES.items():
        click.echo(f"{title}:")
        for check in (check for check in checks if check.group == group):
            click.echo(f"  {_MARKS[check.state]:<3}  {check.name:<17}  {check.found}")
            if check.state != "ok":
                click.echo(f"{'':<26}for: {check.use}")
                if check.mend:
                    click.echo(f"{'':<26}get it: {check.mend}")


def _print_json(checks: tuple[Check, ...], well: bool) -> None:
    import json
    from dataclasses import asdict

    data = {"schema": _SCHEMA, "ok": well, "checks": [asdict(check) for check in checks]}
    click.echo(json.dumps(data, indent=2))
