"""Finds the grammar and the templates, in a checkout and in an installed wheel alike.

A checkout keeps `grammar/` and `templates/` beside the package; the wheel maps both under it.
"""

from __future__ import annotations

from pathlib import Path
from shlex import quote

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str, marker: str) -> Path:
    """The resource folder `name`; `marker` is a file that tells it from a stranger's folder."""
    # The package's own folder comes first: beside an installed package lies whatever else is installed.
    for parent in (_PACKAGE, _PACKAGE.parent):
        if (parent / name / marker).is_file():
            return parent / name
    raise FileNotFoundError(f"the installation of gemmdsl is incomplete: {name}/{marker} is missing")


def grammar_text() -> str:
    """The lark grammar of the language; FileNotFoundError when the installation is damaged."""
    return (_folder("grammar", "gemm.lark") / "gemm.lark").read_text(encoding="utf-8")


def suite_table() -> Path | None:
    """The table of the suite in a checkout; an installed wheel has no examples."""
    path = _PACKAGE.parent / "examples" / "suite.toml"
    return path if path.is_file() else None


def installs(*extras: str) -> str:
    """The command that installs extras of this very gemmdsl, a checkout or an installed package."""
    names = f"[{','.join(extras)}]"
    if (_PACKAGE.parent / "pyproject.toml").is_file():
        return f"pip install -e {quote(f'{_PACKAGE.parent}{names}')}"
    return f"pip install 'gemmdsl{names}'"


def template_folder() -> Path:
    """The folder of the Jinja templates; FileNotFoundError when the installation is damaged."""
    return _folder("templates", "kernel.cu.j2")
