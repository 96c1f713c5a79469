"""Who imports whom: one place per third-party library, and one order in which the package is built up."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gemmdsl"

SOLE_IMPORTERS = {
    "click": "cli/",
    "hypothesis": "testing/",
    "jinja2": "emit/",
    "lark": "parser.py",
    "pycuda": "runtime/",
}

# From the ground up.  A layer is of stages that stand side by side and know nothing of each other; the units
# of a stage, modules or packages, are in order too.  A unit may import those of lower layers and those before
# it in its own stage.
LAYERS: tuple[dict[str, tuple[str, ...]], ...] = (
    {"ground": ("version", "source", "target", "occupancy", "suggest", "wording", "resources")},
    {"contracts": ("diagnostics", "files", "spec", "conditions", "index", "cuda_source")},
    {
        "rules": (
            *("rules_options", "rules_case"),
            *("rules_sizes", "rules_tiles", "rules_staging", "rules_resources"),
            *("rules", "rules_repair"),
        ),
        "tools": ("toolchain", "cache", "cubins"),
        "launches": ("launch_errors", "memory", "matrices", "reference"),
    },
    {
        "front end": (
            *("reader", "syntax", "parser", "names", "problems", "inheritance"),
            *("formatter", "resolution", "checker"),
        ),
        "compiler": (
            *("index_parts", "index_text", "extents", "layout", "ir", "printer"),
            *("verifier", "lowering", "passes", "emit"),
        ),
        "emulator": ("emulator",),
        "runtime": ("runtime",),
    },
    {"interface": ("api", ""), "models": ("analysis",)},
    {
        "explain": ("explain",),
        "testing": ("testing",),
        "bench": ("bench",),
        "doctor": ("doctor",),
        "reports": ("reports",),
    },
    {"commands": ("cli", "__main__")},
)
PLACES = {
    unit: (height, stage, position)
    for height, layer in enumerate(LAYERS)
    for stage, units in layer.items()
    for position, unit in enumerate(units)
}


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name without `gemmdsl.`; the package itself is ""."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(module: Path) -> set[str]:
    """Dotted names that a module imports: at its top, inside a function, or for its types alone."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                names |= {alias.name for alias in node.names}
            case ast.ImportFrom(module=str(origin)):
                names |= {f"{origin}.{alias.name}" for alias in node.names}
            case _:
                pass
    return names


def within(name: str) -> str | None:
    """The module of the package that an imported name is, or is of; None for a name of another library."""
    head, _, rest = name.partition(".")
    if head != "gemmdsl":
        return None
    while rest not in modules():
        rest = rest.rpartition(".")[0]
    return rest


def edges() -> Iterator[tuple[str, str]]:
    """(module, module that it imports) within the package."""
    for name, path in modules().items():
        for other in map(within, imported(path)):
            if other is not None and other != name:
                yield name, other


def unit(module: str) -> str:
    return module.split(".")[0]


def lies_in(module: Path, place: str) -> bool:
    path = module.relative_to(PACKAGE).as_posix()
    return path.startswith(place) if place.endswith("/") else path == place


@pytest.mark.parametrize("library", SOLE_IMPORTERS)
def test_each_library_has_one_importer(library: str) -> None:
    importers = [
        name
        for name, path in modules().items()
        if not lies_in(path, SOLE_IMPORTERS[library])
        and any(other.split(".")[0] == library for other in imported(path))
    ]
    assert importers == []


def test_every_module_has_its_place() -> None:
    assert set(map(unit, modules())) == set(PLACES)
    assert len(PLACES) == sum(len(units) for layer in LAYERS for units in layer.values())


def test_imports_go_down() -> None:
    def legal(above: str, below: str) -> bool:
        height, stage, position = PLACES[above]
        other_height, other_stage, other_position = PLACES[below]
        if height == other_height:
            return stage == other_stage and position >= other_position
        return height > other_height

    assert sorted((name, other) for name, other in edges() if not legal(unit(name), unit(other))) == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Within a package too; what `__init__` hands on counts as its own."""
    graph: dict[str, set[str]] = {name: set() for name in modules()}
    for name, other in edges():
        graph[name].add(other)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        pytest.fail(" <- ".join(cycle.args[1]))


def test_the_architecture_names_every_unit() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    missing = [name for name in PLACES if name and f"`{name}" not in text and f"{name}.py`" not in text]
    assert missing == []
