"""What commands that time kernels share: the baseline, the bar that shows how far they are, the picture."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gemmdsl.cli.options import is_terminal, keep_inputs

if TYPE_CHECKING:
    from gemmdsl.bench.baseline import Baseline

_FORMS = (".svg", ".png")


def plot_file(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """The file of a picture; BadParameter if it is of a form that cannot be drawn."""
    if value is not None and Path(value).suffix not in _FORMS:
        raise click.BadParameter(f"{value!r} ends in neither {' nor '.join(_FORMS)}")
    return Path(value) if value is not None else None


def check_plot(path: Path | None, inputs: Iterable[str]) -> None:
    """Refuse a picture that could not be drawn, before anything is measured for it.

    UsageError when it is one of the inputs; GemmError without matplotlib, or when the file cannot be written.
    """
    from gemmdsl.bench.plot import check_library
    from gemmdsl.files import check_writable

    if path is None:
        return
    keep_inputs([path], inputs)
    check_library()
    check_writable(path)


def baseline_of(against: str) -> Baseline | None:
    """What to compare with; GemmError when cuBLAS is asked for and no library binds it."""
    from gemmdsl.bench.baseline import cublas
    from gemmdsl.diagnostics import GemmError, render_all

    if against == "none":
        return None
    try:
        return cublas()
    except GemmError as missing:
        if against == "cublas":
            raise
        click.echo(render_all(missing.diagnostics).replace("error", "note", 1), nl=False, err=True)
        return None


@contextmanager
def steps_shown(steps: int) -> Iterator[Callable[[str], None]]:
    """A bar on a terminal; what is yielded is called with the title of each step."""
    with click.progressbar(
        length=steps,
        label="measuring",
        file=sys.stderr,
        hidden=not is_terminal(sys.stderr),
        item_show_func=lambda title: title,
    ) as bar:
        yield lambda title: bar.update(1, current_item=title)
