"""The table of a suite: products, and which schedule computes each of them.

A table is TOML:

    files = ["fast.gemm"]              # where the schedules are, seen from the table's folder
    products = [
      { shape = 512, schedule = "fast_512" },
      { shape = "16x4096x4096", layout = "NT", pad = 1, name = "flat", schedule = "fast_1024_nt" },
    ]

`shape` is M x N x K; `layout` says of A and B whether they are row-major (N) or column-major (T), and is NN
if it is not given; leading dimensions are `pad` more than the least ones.  Codes: `G954` to `G958`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from gemmdsl.api import Program, load
from gemmdsl.diagnostics import Diagnostic, GemmError, Note, error
from gemmdsl.reader import read
from gemmdsl.source import Source, Span
from gemmdsl.spec import Order, Problem
from gemmdsl.suggest import nearest

Layout = Literal["NN", "NT", "TN", "TT"]
LAYOUTS: tuple[Layout, ...] = ("NN", "NT", "TN", "TT")
_KEYS = ("files", "products")
_PRODUCT_KEYS = ("shape", "layout", "pad", "name", "schedule")
_SHAPE = re.compile(r"([0-9]{1,10})(?:x([0-9]{1,10})x([0-9]{1,10}))?")
_LARGEST = 2**31 - 1
_LARGEST_PAD = 2**16
_LONGEST_SHOWN = 60
_COLUMN_MAJOR = " with a column-major C"
# What a bracket may stand in without being one, and the header of a product.
_TOKEN = re.compile(
    r"""(?sm)\"{3}(?:\\.|[^\\])*?\"{3} | '{3}.*?'{3} | "(?:\\.|[^"\\\n])*" | '[^'\n]*' | \#[^\n]*
    | (?P<header>^[ \t]*\[\[[ \t]*products[ \t]*\]\]) | (?P<bracket>[][{}])""",
    re.VERBOSE,
)
_AT = re.compile(r" \(at line ([0-9]+), column ([0-9]+)\)| \(at end of document\)")


@dataclass(frozen=True, slots=True)
class Product:
    """What is computed, and by which schedule."""

    name: str
    shape: tuple[int, int, int]
    layout: Layout
    pad: int
    schedule: str

    @property
    def described(self) -> str:
        """Its name where the table gives none: `4096`, `1000 NT`, `2049 pad 2`."""
        m, n, k = self.shape
        words = [str(m) if m == n == k else f"{m}x{n}x{k}"]
        words += [self.layout] if self.layout != "NN" else []
        words += [f"pad {self.pad}"] if self.pad else []
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Listed:
    """A schedule of one of the files; `layout` is that of its problem, as `layout_of` says it."""

    file: str
    program: Program
    layout: str


@dataclass(frozen=True, slots=True)
class Table:
    """Products, and the schedules of all files by name."""

    source: Source
    products: tuple[Product, ...]
    schedules: Mapping[str, Listed] = field(repr=False)


def layout_of(problem: Problem) -> str:
    """As in a table, for a row-major C; for a column-major one it is none of them."""
    letters = "".join("N" if one.order is Order.ROW else "T" for one in (problem.a, problem.b))
    return letters if problem.c.order is Order.ROW else f"{letters}{_COLUMN_MAJOR}"


def load_table(path: str | PathLike[str]) -> Table:
    """The table in a file.

    GemmError with everything that is wrong with it: G001 to G004 it cannot be read; G954 it is not TOML; G955
    a key is unknown, missing, or has a value that it cannot have; G956 no file has the schedule, or two have;
    G957 the schedule is for other layouts; G958 two products have one name; or what is wrong with a `.gemm`
    file.
    """
    source = read(path, "table")
    try:
        data = tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as problem:
        raise GemmError([_not_toml(source, str(problem))]) from None
    except RecursionError:
        raise GemmError([error("G954", "brackets are nested too deeply in this TOML", source)]) from None
    except ValueError:
        # Of a decimal number; Python takes no longer ones.
        number = re.search(rf"[0-9][0-9_]{{{sys.get_int_max_str_digits()},}}", source.text)
        place = Span(*number.span()) if number else None
        raise GemmError([error("G954", "a number in this TOML has too many digits", source, place)]) from None
    reading = _Reading(source)
    schedules = reading.schedules(data)
    products = reading.products(data, schedules)
    if reading.found:
        raise GemmError(reading.found)
    return Table(source, products, schedules)


def _not_toml(source: Source, told: str) -> Diagnostic:
    place = _AT.search(told)
    message = f"this is not TOML: {_AT.sub('', told).lower()}"
    if place is None or place[1] is None:
        return error("G954", message, source)
    start = sum(len(line) + 1 for line in source.text.split("\n")[: int(place[1]) - 1]) + int(place[2]) - 1
    return error("G954", message, source, Span(start, start + 1))


class _Reading:
    """Reads the parts of a table and keeps what is wrong with them."""

    def __init__(self, source: Source) -> None:
        self.found: list[Diagnostic] = []
        self._source = source

    def schedules(self, data: Mapping[str, Any]) -> dict[str, Listed]:
        """Schedules of all files; a name that two files have is a mistake."""
        whole = Span(0, len(self._source.text))
        self._unknown(data, _KEYS, whole)
        files = _listed(data.get("files"), str)
        if not files or not all(map(str.strip, files)):
            self._report("G955", "`files` has to be a list of `.gemm` files", "files", whole)
            return {}
        found: dict[str, Listed] = {}
        folder = Path(self._source.name).parent
        for file in dict.fromkeys(files):
            try:
                program = load(folder / file)
                for name in program.schedules:
                    if name in found:
                        told = f"{found[name].file} and {file} both have a schedule `{name}`"
                        self._report("G956", told, file, whole, help="rename one of them")
                    found[name] = Listed(file, program, layout_of(program.spec(name).problem))
            except GemmError as wrong:
                self.found += wrong.diagnostics
        return found

    def products(self, data: Mapping[str, Any], schedules: Mapping[str, Listed]) -> tuple[Product, ...]:
        """All products that are sound."""
        rows = _listed(data.get("products"), dict)
        whole = Span(0, len(self._source.text))
        if not rows:
            self._report("G955", "`products` has to be a list of products", "products", whole)
            return ()
        # TOML's reader tells no places.
        places: list[Span | None] = [*_tables(self._source.text)]
        if len(places) != len(rows):
            places = [None] * len(rows)
        made: dict[str, Product] = {}
        for row, place in zip(rows, places, strict=True):
            product = self._product(row, place)
            if product is None:
                continue
            if product.name in made:
                told = f"two products have the name `{_shown(product.name)}`"
                self._report("G958", told, "name" if "name" in row else "shape", place)
            made[product.name] = product
            if schedules:
                self._fits(product, schedules, place)
        return tuple(made.values())

    def _product(self, row: Mapping[str, Any], place: Span | None) -> Product | None:
        before = len(self.found)
        self._unknown(row, _PRODUCT_KEYS, place)
        if len(self.found) > before:
            # A key that is mistyped would be missing, too.
            return None
        shape = self._shape(row, place)
        layout, pad, schedule = row.get("layout", "NN"), row.get("pad", 0), row.get("schedule")
        if layout not in LAYOUTS:
            self._report("G955", f"`layout` is one of {', '.join(LAYOUTS)}", "layout", place)
        if type(pad) is not int or not 0 <= pad <= _LARGEST_PAD:
            self._report("G955", f"`pad` is a number from 0 to {_LARGEST_PAD}", "pad", place)
        if not isinstance(schedule, str):
            self._report("G955", "`schedule` has to name a schedule", "schedule", place)
        name = row.get("name", "-")
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            self._report("G955", "`name` has to be a text of one line", "name", place)
        if len(self.found) > before or shape is None:
            return None
        product = Product(name, shape, layout, pad, str(schedule))
        return product if "name" in row else Product(product.described, shape, layout, pad, str(schedule))

    def _shape(self, row: Mapping[str, Any], place: Span | None) -> tuple[int, int, int] | None:
        value = row.get("shape")
        if type(value) is int:
            # As text it may be too long for Python.
            value = str(min(max(value, 0), _LARGEST + 1))
        match = _SHAPE.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            told = '`shape` is of the form "MxNxK", such as "16x4096x4096", or one number for all three'
            self._report("G955", told, "shape", place)
            return None
        m, n, k = (int(digits) for digits in (match[1], match[2] or match[1], match[3] or match[1]))
        if not 1 <= min(m, n, k) <= max(m, n, k) <= _LARGEST:
            self._report("G955", f"an extent is from 1 to {_LARGEST}", "shape", place)
            return None
        return m, n, k

    def _fits(self, product: Product, schedules: Mapping[str, Listed], place: Span | None) -> None:
        """Whether there is the product's schedule, and it is for the product's layout."""
        name = product.schedule
        if name not in schedules:
            guess = nearest(name, schedules)
            meant = f"; did you mean `{guess}`?" if guess else ""
            self._report("G956", f"no file has a schedule `{_shown(name)}`{meant}", "schedule", place)
            return
        layout = schedules[name].layout
        if layout == product.layout:
            return
        others = [f"`{other}`" for other, listed in schedules.items() if listed.layout == product.layout]
        told = f"`{name}` computes {layout}, and this product is {product.layout}"
        offered = [f"for {product.layout} there is {', '.join(others)}"] if others else []
        if layout.removesuffix(_COLUMN_MAJOR) != layout:
            offered.insert(0, "the products of a suite have a row-major C")
        self._report("G957", told, "schedule", place, help="; ".join(offered))

    def _unknown(self, row: Mapping[str, Any], known: Iterable[str], place: Span | None) -> None:
        for key in row:
            if key not in known:
                guess = nearest(key, known)
                meant = f"did you mean `{guess}`?" if guess else f"there are {', '.join(known)}"
                self._report("G955", f"unknown key `{_shown(key)}`; {meant}", key, place)

    def _report(self, code: str, told: str, word: str, place: Span | None, help: str = "") -> None:
        """Keep a finding; `place` is the part of the text that it is about, if that is known."""
        notes = (Note("help", help),) if help else ()
        span = self._word(word, place) if place is not None else None
        self.found.append(Diagnostic(code, told, self._source, span, notes))

    def _word(self, word: str, place: Span) -> Span | None:
        """Where a key, or the end of a quoted value, is in a part; else the first line of a product."""
        text = self._source.text
        match = re.compile(rf"\b{re.escape(word)}(?=[\"']?\s*=|[\"'])").search(text, place.start, place.end)
        if match is not None:
            return Span(match.start(), match.end())
        if place.end - place.start == len(text):
            return None
        line = text[place.start : place.end].split("\n", 1)[0]
        return Span(place.start + len(line) - len(line.lstrip()), place.start + len(line))


def _tables(text: str) -> Iterator[Span]:
    """Where the products are: from header to header, or the tables directly in a list of the document."""
    headers = [match.start() for match in _TOKEN.finditer(text) if match["header"]]
    if headers:
        yield from map(Span, headers, [*headers[1:], len(text)])
        return
    opened: list[tuple[str, int]] = []
    for match in _TOKEN.finditer(text):
        bracket = match["bracket"]
        if bracket in ("[", "{"):
            opened.append((bracket, match.start()))
        elif bracket and opened:
            _, start = opened.pop()
            if bracket == "}" and [other for other, _ in opened] == ["["]:
                yield Span(start, match.end())


def _shown(text: str) -> str:
    """The text in a message, without an end that is too long for one."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _listed(value: object, kind: type) -> list[Any]:
    """The value if it is a list of that, else nothing."""
    return value if isinstance(value, list) and all(isinstance(one, kind) for one in value) else []
