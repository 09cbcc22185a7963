"""A plot of LAS over the words of train: a point for each treebank, with the scores that others publish."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from parser.pages.plot_style import (
    COLOURS,
    HEIGHT,
    LABEL_SIZE,
    MARKERS,
    REFERENCE,
    TITLE_SIZE,
    WIDTH,
    legend_below,
    spread,
)
from parser.tables.report_lines import LAS, Column, ReportLine, TreebankScore

MOST_NAMES = 20
"""Maximum number of treebanks in a panel for which names are shown; more names would overlap."""
NAMES_GAP = 0.035
"""Distance between names so that they do not overlap, as a share of the range of LAS."""
NAMES_WIDTH, MARGIN = 0.15, 0.05
"""Space left and right of the points, with and without names, in widths of the axes."""
WORDS = FuncFormatter(lambda value, _: f"{value:,.0f}")
INTERVAL = 1.96
"""Half the width of a 95 % interval in standard errors."""


def draw_over_words(title: str, lines: Sequence[ReportLine]) -> Figure | None:
    """A figure with a panel for each kind of input, raw text or tokens; None if there is nothing to draw."""
    columns = {column for line in lines for column in line.scores if column.measure == LAS}
    panels = sorted((column for column in columns if not column.by), key=lambda own: own.place)
    if not panels:
        return None
    figure = Figure(figsize=(WIDTH, HEIGHT * len(panels)), layout="constrained")
    figure.suptitle(f"{title}\nLAS over the words of train", fontsize=TITLE_SIZE)
    for axes, column in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        others = sorted(own for own in columns if own.given == column.given and own.by)
        _draw(axes, [line for line in lines if column in line.scores], column, others)
    legend_below(figure)
    return figure


def _draw(axes: Axes, lines: Sequence[ReportLine], column: Column, others: Sequence[Column]) -> None:
    words = [line.words for line in lines]
    own = [line.scores[column] for line in lines]
    for number, other in enumerate(others, 1):
        with_other = [line for line in lines if other in line.scores]
        there, theirs, ours = (
            [line.words for line in with_other],
            [line.scores[other].value for line in with_other],
            [line.scores[column].value for line in with_other],
        )
        axes.vlines(there, theirs, ours, **REFERENCE)
        axes.plot(
            *(there, theirs),
            color=COLOURS[number],
            marker=MARKERS[number],
            linestyle="none",
            markerfacecolor="white",
            label=f"{other.by}, as published",
        )
    axes.errorbar(
        words,
        [score.value for score in own],
        yerr=[INTERVAL * (score.error or 0.0) for score in own],
        color=COLOURS[0],
        marker=MARKERS[0],
        markersize=5,
        capsize=2,
        linestyle="none",
        label="this program, with the 95 % interval of its test set where there is one",
    )
    if len(lines) <= MOST_NAMES:
        _name_points(axes, lines, own)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(WORDS)
    axes.set_xlabel("words of train")
    axes.set_ylabel(f"LAS, from {column.given}")
    axes.margins(x=NAMES_WIDTH if len(lines) <= MOST_NAMES else MARGIN)
    axes.grid(True, color="0.9")


def _name_points(axes: Axes, lines: Sequence[ReportLine], own: Sequence[TreebankScore]) -> None:
    named = sorted((score.value, line.words, line.name) for line, score in zip(lines, own, strict=True))
    heights = [las for las, *_ in named]
    gap = NAMES_GAP * (heights[-1] - heights[0])
    for height, (_, place, name) in zip(spread(heights, gap), named, strict=True):
        axes.annotate(
            name.removeprefix("UD_").replace("_", " "),
            (place, height),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            fontsize=LABEL_SIZE - 1,
        )
