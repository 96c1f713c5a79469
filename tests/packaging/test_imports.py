"""Who imports whom: one place per third-party library, and stages that look one way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "gemmdsl"

SOLE_IMPORTERS = {
    "click": "cli/",
    "hypothesis": "testing/",
    "jinja2": "emit/",
    "lark": "parser.py",
    "pycuda": "runtime/",
}

# What a stage must not know of, by the place it is in.
FORBIDDEN = {
    "spec.py": ("source", "diagnostics", "syntax", "parser", "checker", "ir", "lowering", "passes", "emit"),
    "index.py": ("spec", "syntax", "parser", "checker", "lowering", "passes", "emit", "emulator"),
    "ir.py": ("syntax", "parser", "checker", "lowering", "passes", "emit", "emulator", "verifier"),
    "verifier/": ("syntax", "parser", "checker", "lowering", "passes", "emit", "emulator"),
    "passes/": ("syntax", "parser", "checker", "emit", "emulator", "toolchain"),
    "emit/": ("syntax", "parser", "checker", "emulator", "toolchain"),
    "emulator/": ("syntax", "parser", "checker", "ir", "lowering", "passes", "emit", "verifier"),
    "runtime/": ("syntax", "parser", "checker", "ir", "lowering", "passes", "emit", "verifier", "emulator"),
    "toolchain/": ("syntax", "parser", "checker", "ir", "lowering", "passes", "emit", "emulator"),
}


def modules() -> Iterator[Path]:
    return PACKAGE.rglob("*.py")


def imported(module: Path) -> set[str]:
    """Dotted names that a module imports, at its top or inside a function."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                names |= {alias.name for alias in node.names}
            case ast.ImportFrom(module=str(origin)):
                names |= {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
            case _:
                pass
    return names


def lies_in(module: Path, place: str) -> bool:
    path = module.relative_to(PACKAGE).as_posix()
    return path.startswith(place) if place.endswith("/") else path == place


@pytest.mark.parametrize("library", SOLE_IMPORTERS)
def test_each_library_has_one_importer(library: str) -> None:
    importers = [
        module.relative_to(PACKAGE).as_posix()
        for module in modules()
        if not lies_in(module, SOLE_IMPORTERS[library])
        and any(name.split(".")[0] == library for name in imported(module))
    ]
    assert importers == []


@pytest.mark.parametrize("place", FORBIDDEN)
def test_stages_look_one_way(place: str) -> None:
    found = [
        (module.relative_to(PACKAGE).as_posix(), name)
        for module in modules()
        if lies_in(module, place)
        for name in imported(module)
        if name.startswith(tuple(f"gemmdsl.{stage}" for stage in FORBIDDEN[place]))
        and name.split(".")[1] in FORBIDDEN[place]
    ]
    assert found == []
