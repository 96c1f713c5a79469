"""The Jinja environment: undefined names are errors, line statements leave a template plausible CUDA."""

from __future__ import annotations

from functools import lru_cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gemmdsl.emit.wrapping import tidy
from gemmdsl.resources import template_folder


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The one environment; templates are compiled once per process."""
    return Environment(
        loader=FileSystemLoader(template_folder()),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        line_statement_prefix="//%",
        line_comment_prefix="//#",
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,
    )


def render(template: str, **context: object) -> str:
    """The text of a template, laid out for a reader."""
    return tidy(environment().get_template(template).render(**context))
