"""`gemmdsl rules`: the table of rules."""

from __future__ import annotations

import json

import click

from gemmdsl.rules import RULES

_SCHEMA = "gemmdsl.rules/1"


@click.command()
@click.option(
    "--output-format", "form", type=click.Choice(("text", "json")), default="text", show_default=True
)
def command(form: str) -> None:
    """List the rules a schedule has to keep."""
    if form == "json":
        rows = [
            {"code": rule.code, "formula": rule.formula, "message": rule.message, "words": list(rule.words)}
            for rule in RULES
        ]
        click.echo(json.dumps({"schema": _SCHEMA, "rules": rows}, indent=2))
        return
    for rule in sorted(RULES, key=lambda rule: rule.code):
        click.echo(f"{rule.code}  {rule.formula}")
        click.echo(f"      {', '.join(rule.words)}")
