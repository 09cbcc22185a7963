"""The plot of the speed-ups over no batching, for README."""

from __future__ import annotations

from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator

from figures.headline import Group, Headline, in_words
from parser.speed.reporting.plot_style import COLOURS, LABEL_SIZE
from parser.speed.reporting.speed_ups import bracketed

Look = dict[str, Any]
"""Keyword arguments of Matplotlib."""
WIDTH = 8.6
"""Width of the plot, in inches."""
SMALL = LABEL_SIZE - 1
HEIGHT = 0.34
"""Height of a line, in inches."""
TITLE_WIDTH = 75
"""Characters per line of a title."""
TICKS = 1, 2, 5, 10, 20, 50, 100
BAR: Look = {"facecolor": COLOURS[5], "edgecolor": "0.3", "linewidth": 0.6}
PAPER: Look = {
    "color": COLOURS[1],
    "marker": "D",
    "markersize": 5,
    "linewidth": 3,
    "markeredgecolor": "black",
}
BEST_SIMPLE: Look = {"color": "black", "marker": "o", "markersize": 5, "linestyle": "none"}
OTHER_SIMPLE: Look = {**BEST_SIMPLE, "markerfacecolor": "white"}
NOTE: Look = {"textcoords": "offset points", "va": "center", "fontsize": SMALL}
METHOD_OF_PAPER: Look = {"bbox": {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"}}
INTERVAL: Look = {"color": "black", "capsize": 3, "linewidth": 1.2}


def draw(groups: list[Group]) -> Figure:
    """A panel for each group: horizontal bars that start at 1, with marks for simple ways and papers."""
    lines = sum(len(group.lines) for group in groups)
    figure = Figure(figsize=(WIDTH, 1.9 + HEIGHT * lines), layout="constrained")
    panels = figure.subplots(
        len(groups), 1, sharex=True, squeeze=False, height_ratios=[len(group.lines) for group in groups]
    )[:, 0]
    for axes, group in zip(panels, groups, strict=True):
        title = fill(f"{group.title}, on {group.machine}: 1 is {group.baseline}", TITLE_WIDTH)
        axes.set_title(title, fontsize=LABEL_SIZE + 1, loc="left")
        _draw_lines(axes, group.lines)
    panels[-1].set_xscale("log")
    panels[-1].set_xticks(TICKS, map(str, TICKS), fontsize=LABEL_SIZE)
    panels[-1].xaxis.set_minor_locator(NullLocator())
    panels[-1].set_xlabel("speed-up by the best method", fontsize=LABEL_SIZE)
    figure.legend(
        handles=_legend(),
        loc="outside lower center",
        ncols=2,
        fontsize=LABEL_SIZE,
    )
    return figure


def _draw_lines(axes: Axes, lines: list[Headline]) -> None:
    for place, line in enumerate(lines):
        gain = line.over_baseline
        axes.barh(place, gain.value - 1, left=1, height=0.62, **BAR)
        if any(gain.errors):
            axes.errorbar(gain.value, place, xerr=[[error] for error in gain.errors], **INTERVAL)
        for number, row in enumerate(line.simple):
            value = line.gain(row, line.baseline).value
            axes.plot(value, place, **(OTHER_SIMPLE if number else BEST_SIMPLE))
        if line.paper.over_none:
            axes.plot(line.paper.over_none, (place, place), **PAPER)
            if method := line.method_of_paper:
                end = line.paper.over_none[1], place
                axes.annotate(method, end, (6, 0), **NOTE, **METHOD_OF_PAPER)
        text = bracketed(in_words(gain, 1), [line.best, line.baseline])
        axes.text(1.01, place, text, fontsize=SMALL, va="center", transform=axes.get_yaxis_transform())
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(lines)), [_label(line) for line in lines], fontsize=SMALL)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.grid(True, axis="x", color="0.9")
    axes.set_axisbelow(True)


def _label(line: Headline) -> str:
    simple = f"; simple: {line.simple[0].method}" if line.simple else ""
    return f"{line.task}\n{line.best.method}, batches of {line.best.batch_size:,}{simple}"


def _legend() -> list[Patch | Line2D]:
    interval = "95 % interval, over the turns of one run on one machine"
    paper = "the paper, on its machine, over its own baseline;\nits method if it is not that of the bar"
    return [
        Patch(label="this program", **BAR),
        Line2D([], [], label=interval, color="black", marker="|"),
        Line2D([], [], label="the best simple way: by hand, or PyTorch's layers", **BEST_SIMPLE),
        Line2D([], [], label="other simple ways", **OTHER_SIMPLE),
        Line2D([], [], label=paper, **PAPER),
    ]
