"""The pictures of the HTML page as SVG; colours come from the page's style sheet by class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from math import log10

from gemmdsl.analysis.bankmap import Banks, Pass
from gemmdsl.analysis.banks import BANKS
from gemmdsl.analysis.roofline import Roofline
from gemmdsl.explain.pictures import Event, Ownership
from gemmdsl.target import WARP_SIZE

_HUES = 8
_LABELLED = 24


@dataclass(slots=True)
class _Drawing:
    """Collects elements; lengths are in CSS pixels."""

    width: float
    height: float
    title: str
    parts: list[str] = field(default_factory=list)

    def rect(self, x: float, y: float, w: float, h: float, style: str, tip: str = "") -> None:
        tail = f"><title>{escape(tip)}</title></rect>" if tip else "/>"
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" class="{style}"{tail}')

    def text(self, x: float, y: float, words: str, style: str = "", anchor: str = "middle") -> None:
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{style}">{escape(words)}</text>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str, tip: str = "") -> None:
        tail = f"><title>{escape(tip)}</title></line>" if tip else "/>"
        self.parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{style}"{tail}')

    def done(self) -> str:
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" style="width:{self.width:g}px" role="img"'
            f' aria-label="{escape(self.title)}">{"".join(self.parts)}</svg>'
        )


def block_tile(owned: Ownership) -> str:
    """The block tile, coloured by the warp that computes each part."""
    side = 360
    height, width = len(owned.rows), len(owned.cols)
    extent = (height * owned.piece[0], width * owned.piece[1])
    scale = side / max(extent)
    drawing = _Drawing(extent[1] * scale + 44, extent[0] * scale + 24, "which warp computes which part")
    for y, row in enumerate(owned.owners):
        for start, stop, warp in _runs([owner // WARP_SIZE for owner in row]):
            drawing.rect(
                40 + start * owned.piece[1] * scale,
                20 + y * owned.piece[0] * scale,
                (stop - start) * owned.piece[1] * scale,
                owned.piece[0] * scale,
                f"c{warp % _HUES}",
                f"warp {warp}: m {owned.rows[y]}, n {owned.cols[start]} to"
                f" {owned.cols[stop - 1] + owned.piece[1] - 1}",
            )
    drawing.text(40, 13, "n 0", "axis", "start")
    drawing.text(40 + extent[1] * scale, 13, str(extent[1]), "axis", "end")
    drawing.text(36, 31, "m 0", "axis", "end")
    drawing.text(36, 20 + extent[0] * scale, str(extent[0]), "axis", "end")
    for warp, (y, x) in _first_cells(owned).items():
        drawing.text(
            40 + (x + 0.5) * owned.piece[1] * scale + 4,
            20 + (y + 0.5) * owned.piece[0] * scale + 5,
            f"{warp}",
            "label",
            "start",
        )
    return drawing.done()


def _first_cells(owned: Ownership) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for y, row in enumerate(owned.owners):
        for x, owner in enumerate(row):
            found.setdefault(owner // WARP_SIZE, (y, x))
    return found


def _runs(values: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(start, stop, value) of runs of equal neighbours."""
    start = 0
    for at in range(1, len(values) + 1):
        if at == len(values) or values[at] != values[start]:
            yield start, at, values[start]
            start = at


def warp_tile(owned: Ownership) -> str:
    """The pieces of one warp with the lanes that own them; lane 0's are marked."""
    rows, cols = owned.rows[:_LABELLED], owned.cols[:_LABELLED]
    cell = 26
    drawing = _Drawing(len(cols) * cell + 44, len(rows) * cell + 24, "which lane owns which piece")
    for x, n in enumerate(cols):
        drawing.text(40 + (x + 0.5) * cell, 14, str(n), "axis")
    for y, m in enumerate(rows):
        drawing.text(36, 20 + (y + 0.5) * cell + 4, str(m), "axis", "end")
        for x, owner in enumerate(owned.owners[y][: len(cols)]):
            if owner < 0:
                continue
            lane = owner % WARP_SIZE
            style = "cell mark" if lane == 0 else f"cell c{lane % _HUES}"
            tip = f"lane {lane}: m {m}, n {cols[x]}, {owned.piece[0]} x {owned.piece[1]} outputs"
            drawing.rect(40 + x * cell, 20 + y * cell, cell, cell, style, tip)
            drawing.text(40 + (x + 0.5) * cell, 20 + (y + 0.5) * cell + 4, str(lane), "label")
    return drawing.done()


def banks(passes: Sequence[Pass]) -> str:
    """Passes of one access, one column per bank: a box is a word and the first lane that wants it.

    A copy has two rows of boxes, the banks that it reads and those that it writes.
    """
    cell, head = 22, 18
    rows: list[tuple[str, Banks]] = []
    for number, one in enumerate(passes):
        if one.sources:
            rows += [(f"read {number}", one.sources), (f"write {number}", one.banks)]
        else:
            rows.append((f"pass {number}", one.banks))
    heights = [max(map(len, side)) for _, side in rows]
    drawing = _Drawing(
        BANKS * cell + 56, sum(heights) * cell + len(rows) * 10 + head, "lanes that meet in each bank"
    )
    for bank in range(BANKS):
        drawing.text(52 + (bank + 0.5) * cell, 12, str(bank), "axis")
    top = float(head)
    for (label, side), height in zip(rows, heights, strict=True):
        drawing.text(48, top + 14, label, "axis", "end")
        for bank, words in enumerate(side):
            for level in range(height):
                left, y = 52 + bank * cell, top + level * cell
                if level >= len(words):
                    drawing.rect(left, y, cell, cell, "cell empty")
                    continue
                word, lanes = words[level]
                style = "cell clash" if len(words) > 1 else "cell fine"
                who = ", ".join(map(str, lanes))
                drawing.rect(left, y, cell, cell, style, f"bank {bank}, word {word}: lanes {who}")
                drawing.text(left + cell / 2, y + cell / 2 + 4, f"{lanes[0]}", "label small")
        top += height * cell + 10
    return drawing.done()


def timeline(events: Sequence[Event]) -> str:
    """Steps of a block from left to right, one row per kind; barriers cross all rows."""
    lanes = list(dict.fromkeys(event.lane for event in events if event.lane != "barriers"))
    step, row, left = 34, 30, 92
    places: list[tuple[Event, int]] = []
    column = 0
    previous = ""
    for event in events:
        # Copies of A and B are issued side by side.
        together = event.lane.partition(" ")[0] == previous and event.lane not in ("multiply", "barriers")
        column += 0 if together and event.lane.endswith("B") else 1
        places.append((event, column - 1))
        previous = event.lane.partition(" ")[0]
    height = len(lanes) * row + 24
    drawing = _Drawing(
        left + column * step + 10, height, "copies, products and barriers of the first K tiles"
    )
    for number, lane in enumerate(lanes):
        drawing.text(left - 8, 20 + number * row + 16, lane, "axis", "end")
        drawing.line(left, 20 + (number + 0.5) * row, left + column * step, 20 + (number + 0.5) * row, "grid")
    for event, at in places:
        x = left + at * step
        if event.lane == "barriers":
            drawing.line(x + step / 2, 10, x + step / 2, height - 4, "barrier", f"barrier: {event.text}")
            continue
        y = 20 + lanes.index(event.lane) * row + 3
        style = f"cell c{event.tile % _HUES}" if event.tile >= 0 else "cell fine"
        drawing.rect(x + 2, y, step - 4, row - 6, style, f"{event.lane}: {event.text}")
        mark = str(event.tile) if event.tile >= 0 else event.text[0]
        drawing.text(x + step / 2, y + 16, mark, "label")
    return drawing.done()


def roofline(roof: Roofline, bandwidths: dict[str, float]) -> str:
    """FLOP per byte against FLOP per second, both logarithmic, with the ceilings and the tiers' places."""
    width, height, left, bottom = 560.0, 300.0, 56.0, 36.0
    x_range, y_range = (-1.0, 3.3), (log10(roof.peak_tflops) - 2.2, log10(roof.peak_tflops) + 0.4)
    drawing = _Drawing(width, height, "roofline")

    def px(intensity: float) -> float:
        share = (min(max(log10(intensity), x_range[0]), x_range[1]) - x_range[0]) / (x_range[1] - x_range[0])
        return left + share * (width - left - 12)

    def py(tflops: float) -> float:
        share = (min(max(log10(tflops), y_range[0]), y_range[1]) - y_range[0]) / (y_range[1] - y_range[0])
        return height - bottom - share * (height - bottom - 14)

    for power in range(-1, 4):
        drawing.line(px(10.0**power), 14, px(10.0**power), height - bottom, "grid")
        drawing.text(px(10.0**power), height - bottom + 16, f"{10.0**power:g}", "axis")
    drawing.text((left + width) / 2, height - 4, "FLOP per byte", "axis")
    drawing.text(left, 10, "TFLOP/s", "axis", "end")
    for tflops in (roof.peak_tflops, roof.peak_tflops / 10, roof.peak_tflops / 100):
        drawing.line(left, py(tflops), width - 12, py(tflops), "grid")
        drawing.text(left - 6, py(tflops) + 4, f"{tflops:.3g}", "axis", "end")
    drawing.line(px(10 ** x_range[0]), py(roof.peak_tflops), width - 12, py(roof.peak_tflops), "ceiling")
    drawing.text(width - 14, py(roof.peak_tflops) - 5, "FP32 peak", "axis", "end")
    for name, bandwidth in bandwidths.items():
        ridge = roof.peak_tflops * 1e12 / bandwidth
        # Where the line enters the picture, from below or from the left.
        low = max(10 ** y_range[0] * 1e12 / bandwidth, 10 ** x_range[0])
        drawing.line(
            px(low), py(low * bandwidth / 1e12), px(ridge), py(roof.peak_tflops), f"ceiling {name[:4]}"
        )
        # To the right of its line, where the next line is far, and short enough not to reach it.
        place = low**0.25 * ridge**0.75
        drawing.text(px(place) + 8, py(place * bandwidth / 1e12) + 4, name.split()[0], "axis", "start")
    for number, tier in enumerate(roof.intensities):
        bandwidth = bandwidths["shared memory" if tier.tier.startswith("shared") else "DRAM"]
        attained = min(roof.peak_tflops, tier.flop_per_byte * bandwidth / 1e12)
        x, y = px(tier.flop_per_byte), py(attained)
        drawing.parts.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="9" class="point c{number}">'
            f"<title>{escape(tier.tier)}: {tier.flop_per_byte:.3g} FLOP per byte</title></circle>"
        )
        drawing.text(x, y + 4, str(number + 1), "label")
        legend = f"{number + 1}  {tier.tier}: {tier.flop_per_byte:.3g}"
        drawing.text(
            width - 14, height - bottom - 14 - 16 * (len(roof.intensities) - 1 - number), legend, "", "end"
        )
    return drawing.done()
