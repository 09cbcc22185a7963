"""What all plots share: sizes, colours, panels with their legend below, and SVG text.

The plots are readable in grey: lines differ in marker and dashes, bars in hatching. Most colours are those of
Okabe & Ito.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from parser.speed.statistics import Estimate

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#661100",
    "#999999",
    "#882255",
)
MARKERS = "osD^vPX*"
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
REFERENCE: dict[str, Any] = {"color": "0.5", "linewidth": 1}
"""The look of a line for comparison, such as an ideal or a target."""
WIDTH, HEIGHT = 7.2, 4.4
"""Inches, of a plot with one panel."""
MAX_LINES = 8
"""In one panel, with one line for comparison."""
TITLE_SIZE, LABEL_SIZE = 10, 8
LOG_RATIO = 6
"""Values that differ by more are drawn on a logarithmic axis."""
OVERLAP_RATIO = 1.5
"""The labels of batch sizes with a smaller ratio would overlap."""
PLAIN = FuncFormatter(lambda value, _: f"{value:,g}")


class Line(NamedTuple):
    label: str
    number: int
    """Of its colour, marker and dashes."""
    places: Sequence[float]
    estimates: Sequence[Estimate]


def draw_panels(title: str, lines: Sequence[Line], finish: Callable[[Axes], None]) -> Figure:
    """A plot with at most `MAX_LINES` lines in each panel, one below the other, with the same limits.

    finish: sets scales and labels of a panel, and draws at most one line for comparison.
    """
    panels = -(-len(lines) // (MAX_LINES - 1))
    size = -(-len(lines) // panels)
    figure = Figure(figsize=(WIDTH, HEIGHT * panels), layout="constrained")
    figure.suptitle(title, fontsize=TITLE_SIZE)
    parts = figure.subfigures(panels, 1, squeeze=False)[:, 0]
    drawn = []
    for number, part in enumerate(parts):
        axes = part.add_subplot()
        for line in lines[number * size : (number + 1) * size]:
            draw_line(axes, line)
        finish(axes)
        legend_below(part)
        drawn.append(axes)
    _share_limits(drawn)
    return figure


def legend_below(figure: Figure | SubFigure, axes: Axes | None = None) -> None:
    """A legend outside of the plot. axes: those with the labels, if there are several."""
    handles, labels = (axes or figure.axes[0]).get_legend_handles_labels()
    columns = (
        1 if max(map(len, labels), default=0) > 45 else 2 if max(map(len, labels), default=0) > 22 else 3
    )
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=LABEL_SIZE)


def _share_limits(panels: Sequence[Axes]) -> None:
    horizontal = [bound for axes in panels for bound in axes.get_xlim()]
    vertical = [bound for axes in panels for bound in axes.get_ylim()]
    for axes in panels:
        axes.set_xlim(min(horizontal), max(horizontal))
        axes.set_ylim(min(vertical), max(vertical))


def draw_line(axes: Axes, line: Line) -> None:
    """A line through the estimates with their intervals."""
    values, low, high = zip(*line.estimates, strict=True)
    below = [max(0.0, value - bound) for value, bound in zip(values, low, strict=True)]
    above = [max(0.0, bound - value) for value, bound in zip(values, high, strict=True)]
    axes.errorbar(
        line.places,
        values,
        yerr=[below, above] if any([*below, *above]) else None,
        label=line.label,
        markersize=5,
        capsize=2,
        **look_of(line.number),
    )


def look_of(number: int) -> dict[str, Any]:
    """Colour, marker and dashes of the `number`-th line."""
    number %= MAX_LINES
    return {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": DASHES[number]}


def scale_by_size(axes: Axes, sizes: Sequence[int], lines: Sequence[Line]) -> None:
    """Axes over batch sizes. The y axis is logarithmic if the values differ much, else it begins at 0."""
    axes.set_xscale("log", base=2)
    estimates = [estimate for line in lines for estimate in line.estimates]
    if max(each.high for each in estimates) > LOG_RATIO * min(each.low for each in estimates):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0)
    axes.set_xticks(_not_overlapping(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(PLAIN)
    axes.yaxis.set_major_formatter(PLAIN)
    axes.set_xlabel("batch size")
    axes.grid(True, color="0.9")


def _not_overlapping(sizes: Sequence[int]) -> list[int]:
    kept: list[int] = []
    for size in sorted(sizes, reverse=True):
        if not kept or kept[-1] / size > OVERLAP_RATIO:
            kept.append(size)
    return kept


def svg(figure: Figure) -> str:
    """The figure as SVG, the same for the same content: text stays text, and there is no date."""
    text = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "speed"}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    picture = text.getvalue()
    return picture[picture.index("<svg") :]
