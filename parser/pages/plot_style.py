"""The common style of all plots: sizes, colours, panels with a legend below, and SVG text.

Plots are readable in grey: lines differ in markers and dashes, bars in hatching. Most colours are from Okabe
& Ito.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, log
from pathlib import Path
from statistics import fmean
from textwrap import wrap
from typing import Any, Literal, TypeVar

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from parser.evaluation.statistics import Estimate
from parser.system.files import atomic_file

PlaceT = TypeVar("PlaceT", int, float)
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"),
    *("#56B4E9", "#000000", "#661100", "#999999", "#882255"),
)
MARKERS = "osD^vPX*"
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
REFERENCE: dict[str, Any] = {"color": "0.5", "linewidth": 1}
"""The style of a line for comparison, such as an ideal or a target."""
WIDTH, HEIGHT = 7.2, 4.4
"""Size in inches of a plot with one panel."""
MAX_LINES = 8
"""Maximum lines in a panel, of which one is for comparison."""
TITLE_SIZE, LABEL_SIZE = 10, 8
LOG_RATIO = 6
"""Values that differ by more are drawn on a logarithmic axis."""
OVERLAP_RATIO = 1.5
"""The labels of batch sizes with a smaller ratio would overlap."""
END_GAP = 0.08
"""Distance between texts at the ends of lines, as a share of the height of the axes."""
POINTS = 72
"""Points in an inch."""
CHARACTER = 0.52
"""The usual width of a character, relative to the font size."""
BATCH_SIZE = "batch size"
"""The label of an axis."""
PLAIN = FuncFormatter(lambda value, _: f"{value:,g}")
Curves = Mapping[str, Mapping[int, Estimate] | Mapping[float, Estimate]]
"""Values by label of the line and place on the x axis. An empty line is not shown, but reserves its style."""


def draw_panels(title: str, curves: Curves, finish: Callable[[Axes], None]) -> Figure:
    """Draw lines in panels of at most `MAX_LINES` lines. Panels are below each other, and share their limits.

    finish: sets scales and labels of a panel, and draws at most one line for comparison.
    """
    shown = [label for label, curve in curves.items() if curve]
    panels = -(-len(shown) // (MAX_LINES - 1))
    size = -(-len(shown) // panels)
    figure = Figure(figsize=(WIDTH, HEIGHT * panels), layout="constrained")
    figure.suptitle(title, fontsize=TITLE_SIZE)
    parts = figure.subfigures(panels, 1, squeeze=False)[:, 0]
    drawn = []
    for number, part in enumerate(parts):
        axes = part.add_subplot()
        draw_lines(axes, curves, shown[number * size : (number + 1) * size])
        finish(axes)
        legend_below(part)
        drawn.append(axes)
    horizontal = [bound for axes in drawn for bound in axes.get_xlim()]
    vertical = [bound for axes in drawn for bound in axes.get_ylim()]
    for axes in drawn:
        axes.set_xlim(min(horizontal), max(horizontal))
        axes.set_ylim(min(vertical), max(vertical))
    return figure


def legend_below(figure: Figure | SubFigure, size: float = LABEL_SIZE) -> float:
    """Draw a legend outside of the plot, for the axes with most labels, in as many columns as fit.

    size: the font size in points. Returns the height of the legend in pixels.
    """
    found = [axes.get_legend_handles_labels() for axes in figure.axes]
    handles, labels = max(found, key=lambda each: len(each[1]))
    place = partial(figure.legend, handles, labels, loc="outside lower center", fontsize=size)
    columns = 3
    legend = place(ncols=columns)
    while columns > 1 and legend.get_window_extent().width > figure.figure.bbox.width:
        legend.remove()
        columns -= 1
        legend = place(ncols=columns)
    return legend.get_window_extent().height


def draw_lines(axes: Axes, curves: Curves, labels: Sequence[str]) -> None:
    """Draw the lines with these labels, with the intervals of their values."""
    for number, (label, curve) in enumerate(curves.items()):
        if label in labels:
            errors = [estimate.errors for estimate in curve.values()]
            axes.errorbar(
                list(curve),
                [estimate.value for estimate in curve.values()],
                yerr=list(zip(*errors, strict=True)) if any(map(any, errors)) else None,
                label=label,
                markersize=5,
                capsize=2,
                color=COLOURS[number % MAX_LINES],
                marker=MARKERS[number % MAX_LINES],
                linestyle=DASHES[number % MAX_LINES],
            )


def label_ends(axes: Axes, curves: Curves, texts: Mapping[str, str]) -> None:
    """Write texts at the ends of the drawn lines on logarithmic axes, so that they do not overlap.

    texts: texts by the labels of lines.
    """
    shown = axes.get_legend_handles_labels()[1]
    ends: dict[float, list[tuple[float, str]]] = {}
    for label in (label for label in texts if label in shown):
        place, estimate = max(curves[label].items())
        ends.setdefault(place, []).append((log(estimate.value), label))
    low, high = map(log, axes.get_ylim())
    for place, lines in ends.items():
        lines.sort()
        heights = spread([height for height, _ in lines], END_GAP * (high - low))
        for height, (_, label) in zip(heights, lines, strict=True):
            axes.annotate(
                texts[label],
                (place, exp(height)),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                fontsize=LABEL_SIZE,
                color=COLOURS[list(curves).index(label) % MAX_LINES],
                annotation_clip=False,
            )


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Return the nearest heights with this gap between them. heights: in ascending order."""
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while (
            len(groups) > 1 and fmean(groups[-1]) - fmean(groups[-2]) < gap * sum(map(len, groups[-2:])) / 2
        ):
            groups[-2:] = [groups[-2] + groups[-1]]
    return [fmean(group) + gap * (n - (len(group) - 1) / 2) for group in groups for n in range(len(group))]


def scale_by_size(axes: Axes, curves: Curves) -> None:
    """Scale axes over batch sizes. The y axis is logarithmic if values differ much, else it starts at 0."""
    axes.set_xscale("log", base=2)
    estimates = [estimate for curve in curves.values() for estimate in curve.values()]
    if max(each.high for each in estimates) > LOG_RATIO * min(each.low for each in estimates):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0)
    axes.set_xticks(_not_overlapping(places_of(curves.values())))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(PLAIN)
    axes.yaxis.set_major_formatter(PLAIN)
    axes.set_xlabel(BATCH_SIZE)
    axes.grid(True, color="0.9")


def places_of(lines: Iterable[Iterable[PlaceT]]) -> list[PlaceT]:
    """Return the places of all lines in ascending order."""
    return sorted({place for line in lines for place in line})


def _not_overlapping(sizes: Iterable[float], least: float = OVERLAP_RATIO) -> list[float]:
    """Return the largest size, and smaller ones whose ratio to the next larger one exceeds `least`."""
    kept: list[float] = []
    for size in sorted(sizes, reverse=True):
        if not kept or kept[-1] / size > least:
            kept.append(size)
    return kept


@dataclass(frozen=True)
class Look:
    """The style and format in which a figure is saved for a paper."""

    format: str = "svg"
    width: float | None = None
    """Width in inches; None for the width of the figure."""
    font_size: float | None = None
    """Size of all text in points; None for the sizes in the figure."""
    scale: Literal["linear", "log"] | None = None
    """Scale of the values over batch sizes; None for a logarithmic scale if they differ much."""


def save(figure: Figure, path: Path, look: Look) -> None:
    """Write a figure without a date. Fonts are embedded; in SVG, text remains text. Raises OSError."""
    if look.width:
        width, height = figure.get_size_inches()
        figure.set_size_inches(look.width, height * (look.width / width) ** 0.5)
        for axes in (axes for axes in figure.axes if axes.get_xlabel() == BATCH_SIZE):
            axes.set_xticks(_not_overlapping(axes.get_xticks(), OVERLAP_RATIO ** (width / look.width)))
    if look.font_size:
        for text in figure.findobj(Text):
            text.set_fontsize(look.font_size)
    if look.width or look.font_size:
        _fit(figure, look.font_size)
    for axes in figure.axes:
        if look.scale and axes.get_xlabel() == BATCH_SIZE:
            axes.set_yscale(look.scale)
            axes.yaxis.set_major_formatter(PLAIN)
    dates = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}}
    with (
        matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "speed", "pdf.fonttype": 42}),
        atomic_file(str(path)) as file,
    ):
        figure.savefig(file, format=look.format, dpi=300, metadata=dates.get(look.format))


def _fit(figure: Figure, font_size: float | None) -> None:
    """Wrap the title and limit the columns of legends to the figure's width; the figure grows in height."""
    size = font_size or TITLE_SIZE
    width, height = figure.get_size_inches()
    most = int(width * POINTS / (CHARACTER * size))
    lines = [part for line in figure.get_suptitle().split("\n") for part in wrap(line, most)]
    figure.suptitle("\n".join(lines), fontsize=size)
    parts: list[Figure | SubFigure] = [figure, *figure.subfigs]
    for part in parts:
        for legend in list(part.legends):
            before = legend.get_window_extent().height
            legend.remove()
            height += (legend_below(part, font_size or LABEL_SIZE) - before) / figure.dpi
    figure.set_size_inches(width, height)


def svg(figure: Figure) -> str:
    """Return the figure as SVG, which depends on its content only. Text remains text; there is no date."""
    text = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "speed"}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    picture = text.getvalue()
    return picture[picture.index("<svg") :]
