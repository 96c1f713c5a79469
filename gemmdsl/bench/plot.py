"""Draws a report: the ladder at the largest cube, and each schedule over all cubes; or ratios as bars."""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from gemmdsl.bench.errors import no_matplotlib, nothing_to_draw
from gemmdsl.bench.session import Report, Row, Shape

_LIGHT = "#9db8d2"
_DARK = "#1f4e79"
_BASELINE = "#c0504d"


def check_library() -> None:
    """GemmError without matplotlib."""
    _pyplot()


def drawn(report: Report, form: str) -> bytes:
    """An image, `form` being svg or png; GemmError without matplotlib, or when nothing was timed."""
    plt = _pyplot()
    timed = [row for row in report.rows if row.samples]
    if not timed:
        raise nothing_to_draw("timed")
    cubes = sorted({row.shape for row in timed if len(set(row.shape)) == 1})
    shown = max(cubes) if cubes else max((row.shape for row in timed), key=lambda s: s[0] * s[1] * s[2])
    ladder = [row for row in timed if row.shape == shown]
    wide = len(cubes) > 1
    height = 1.6 + 0.28 * len(ladder)
    figure, axes = plt.subplots(
        1,
        2 if wide else 1,
        figsize=(13 if wide else 7, max(4.0, height)),
        squeeze=False,
        layout="constrained",
    )
    _ladder(axes[0][0], report, ladder, shown)
    if wide:
        _sweep(axes[0][1], report, timed, cubes)
    figure.suptitle(f"{report.device}, FP32")
    return _saved(plt, figure, form)


def bars(ratios: Sequence[tuple[str, float]], title: str, form: str) -> bytes:
    """An image of named ratios as bars, those of 1 and more dark; GemmError without matplotlib, or when
    nothing was compared."""
    plt = _pyplot()
    if not ratios:
        raise nothing_to_draw("compared")
    figure, axes = plt.subplots(figsize=(9, 1.4 + 0.26 * len(ratios)), layout="constrained")
    values = [ratio for _, ratio in ratios]
    axes.barh(range(len(ratios)), values, color=[_DARK if ratio >= 1 else _LIGHT for ratio in values])
    axes.set_yticks(range(len(ratios)), [name for name, _ in ratios], fontsize=8)
    axes.invert_yaxis()
    for place, ratio in enumerate(values):
        _at_the_end_of_a_bar(axes, ratio, place, f"{ratio:.2f}")
    axes.axvline(1.0, color=_BASELINE)
    axes.margins(x=0.08, y=0.01)
    axes.set_title(title, fontsize=10)
    return _saved(plt, figure, form)


def _at_the_end_of_a_bar(axes: Any, value: float, place: int, text: str) -> None:
    # On white, as the line of cuBLAS may pass there.
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
    axes.annotate(text, (value, place), (3, 0), textcoords="offset points", va="center", fontsize=8, bbox=box)


def _pyplot() -> Any:
    try:
        matplotlib = import_module("matplotlib")
        matplotlib.use("agg")
        # The same report gives the same bytes.
        matplotlib.rcParams["svg.hashsalt"] = "gemmdsl"
        return import_module("matplotlib.pyplot")
    except ImportError as missing:
        raise no_matplotlib(str(missing)) from missing


def _saved(plt: Any, figure: Any, form: str) -> bytes:
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None} if form == "svg" else {}
    figure.savefig(buffer, format=form, metadata=metadata, dpi=150)
    plt.close(figure)
    return buffer.getvalue()


def _ladder(axes: Any, report: Report, rows: list[Row], shape: Shape) -> None:
    names = [row.schedule for row in rows]
    rates = [row.flops / 1e12 for row in rows]
    best = max(rates)
    axes.barh(range(len(rows)), rates, color=[_DARK if rate == best else _LIGHT for rate in rates])
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    for place, rate in enumerate(rates):
        _at_the_end_of_a_bar(axes, rate, place, f"{rate:.1f}")
    compared = [row.flops / row.ratio / 1e12 for row in rows if row.ratio]
    if compared:
        axes.axvline(max(compared), color=_BASELINE, label="cuBLAS FP32")
    axes.axvline(report.ceilings.flops / 1e12, color="gray", linestyle=":", label="FMAs, measured")
    axes.legend(loc="upper right", fontsize=8)
    axes.set_xlabel("TFLOP/s")
    axes.set_title("x".join(map(str, shape)))


def _sweep(axes: Any, report: Report, rows: list[Row], cubes: list[Shape]) -> None:
    names = list(dict.fromkeys(row.schedule for row in rows))
    # Dark to light in the order of the file, so that each has a colour of its own.
    colors = import_module("matplotlib").colormaps["viridis"].resampled(len(names) + 1)
    for number, name in enumerate(names):
        found = {row.shape: row.flops / 1e12 for row in rows if row.schedule == name}
        sizes = [shape for shape in cubes if shape in found]
        axes.plot(
            [shape[0] for shape in sizes],
            [found[shape] for shape in sizes],
            marker="o",
            color=colors(number),
            label=name,
        )
    compared = {row.shape: row.flops / row.ratio / 1e12 for row in rows if row.ratio}
    sizes = [shape for shape in cubes if shape in compared]
    if sizes:
        axes.plot(
            [shape[0] for shape in sizes],
            [compared[shape] for shape in sizes],
            color=_BASELINE,
            linewidth=2.5,
            label="cuBLAS FP32",
        )
    axes.axhline(report.ceilings.flops / 1e12, color="gray", linestyle=":")
    axes.set_xscale("log", base=2)
    axes.set_xticks([shape[0] for shape in cubes], [str(shape[0]) for shape in cubes])
    axes.set_xlabel("M = N = K")
    axes.set_ylabel("TFLOP/s")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
