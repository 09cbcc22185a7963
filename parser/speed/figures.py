"""The plots of a comparison of methods.

Speed-up over batch size (Ding & Koehn 2019, Figure 1), speed, the time of each phase (Neubig et al. 2017,
Figure 2) and the speed-up of each part of a step (Suarez & Zhu 2017, Figures 2 and 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parser.plugins import CELLS, CELLS_BACKWARD, NO_BATCHING, OTHER, PHASES
from parser.speed.drawing import (
    COLOURS,
    HEIGHT,
    LABEL_SIZE,
    PLAIN,
    REFERENCE,
    TITLE_SIZE,
    WIDTH,
    Line,
    draw_line,
    draw_panels,
    legend_below,
    scale_by_size,
    svg,
)
from parser.speed.findings import (
    MethodComparison,
    bracketed,
    gains_of_parts,
    parallel_shares,
    speed_ups,
)
from parser.speed.rows import Row
from parser.speed.statistics import Estimate
from parser.speed.titles import method_title, plot_title, speed_label

HATCHES = ("", "////", "\\\\\\\\", "xxxx", "||||", "----", "++++", "//", "\\\\", "xx")
PHASE_TITLES = {CELLS: "modules, forward", CELLS_BACKWARD: "modules, backward"}
SMALL_SHARE = 0.01
"""Of the time of a step."""
BAR = 0.2
"""Inches, of a horizontal bar."""


def figures(comparison: MethodComparison) -> dict[str, str]:
    """SVG plots by their kind, without those for which nothing was measured."""
    drawn = {
        "speed-up": _speed_up_plot(comparison),
        "speed": _speed_plot(comparison),
        "time": _time_plot(comparison),
        "parts": _parts_plot(comparison),
    }
    return {kind: plot for kind, plot in drawn.items() if plot}


def _title(comparison: MethodComparison) -> str:
    return plot_title(comparison.experiment, comparison.rows)


def _speed_up_plot(comparison: MethodComparison) -> str | None:
    lines: list[Line] = []
    sizes: set[int] = set()
    for number, (method, rows) in enumerate(comparison.by_method().items()):
        curve = speed_ups(rows)
        if shares := parallel_shares(rows):  # there are at least two batch sizes
            label = method_title(comparison.plugin, method)
            if shares[0].value > 0:
                label += ": " + bracketed(f"{100 * shares[0].value:.1f} % parallel", rows)
            lines.append(Line(label, number, list(curve), list(curve.values())))
            sizes |= curve.keys()
    ordered = sorted(sizes)

    def finish(axes: Axes) -> None:
        axes.plot(ordered, ordered, label="ideal: speed-up equal to the batch size", **REFERENCE)
        axes.set_ylabel("speed-up over batches of 1")
        scale_by_size(axes, ordered, lines)
        axes.set_yscale("log", base=2)  # always, for the ideal is a line then
        axes.autoscale(axis="y")
        axes.yaxis.set_major_formatter(PLAIN)

    return svg(draw_panels(_title(comparison), lines, finish)) if lines else None


def _speed_plot(comparison: MethodComparison) -> str | None:
    methods = comparison.by_method()
    sizes = sorted({row["batch_size"] for rows in methods.values() for row in rows})
    if len(sizes) == 1:
        return _speed_bars(comparison)
    lines = [
        Line(
            method_title(comparison.plugin, method),
            number,
            [row["batch_size"] for row in rows],
            [Estimate(row["sentences_per_second"], *row["interval"]) for row in rows],
        )
        for number, (method, rows) in enumerate(methods.items())
    ]

    def finish(axes: Axes) -> None:
        axes.set_ylabel(speed_label(comparison.plugin))
        scale_by_size(axes, sizes, lines)

    return svg(draw_panels(_title(comparison), lines, finish)) if lines else None


def _speed_bars(comparison: MethodComparison) -> str:
    """The speeds of methods at their one batch size."""
    rows = [row for own in comparison.by_method().values() for row in own]
    figure = Figure(figsize=(WIDTH, 1.3 + 1.5 * BAR * len(rows)), layout="constrained")
    figure.suptitle(f"{_title(comparison)}; batch size {rows[0]['batch_size']:,}", fontsize=TITLE_SIZE)
    axes = figure.add_subplot()
    speeds = [row["sentences_per_second"] for row in rows]
    below = [max(0.0, speed - row["interval"][0]) for speed, row in zip(speeds, rows, strict=True)]
    above = [max(0.0, row["interval"][1] - speed) for speed, row in zip(speeds, rows, strict=True)]
    axes.barh(range(len(rows)), speeds, xerr=[below, above], capsize=2, color=COLOURS[5])
    names = [method_title(comparison.plugin, row["method"]) for row in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=LABEL_SIZE)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(PLAIN)
    axes.set_xlabel(speed_label(comparison.plugin))
    axes.grid(True, axis="x", color="0.9")
    axes.set_axisbelow(True)
    return svg(figure)


def _parts_plot(comparison: MethodComparison) -> str | None:
    """A panel for each part of a step; None for one batch size, for which the report has a table."""
    parts = gains_of_parts(comparison)
    if len({row["batch_size"] for row in comparison.rows}) < 2 or not parts:
        return None
    lines = -(-len(parts) // 2)
    figure = Figure(figsize=(1.3 * WIDTH, 0.5 + 0.7 * HEIGHT * lines), layout="constrained")
    figure.suptitle(_title(comparison), fontsize=TITLE_SIZE)
    order = list(comparison.by_method())
    for number, (part, gains) in enumerate(parts.items(), start=1):
        axes = figure.add_subplot(lines, 2, number)
        _draw_gains(axes, comparison, gains, order)
        axes.set_title(part.replace("cells", "modules"), fontsize=TITLE_SIZE - 1)
    legend_below(figure, max(figure.axes, key=lambda axes: len(axes.get_legend_handles_labels()[1])))
    return svg(figure)


def _draw_gains(
    axes: Axes, comparison: MethodComparison, gains: Mapping[str, Mapping[int, float]], order: Sequence[str]
) -> None:
    lines = [
        Line(
            method_title(comparison.plugin, method),
            order.index(method),
            list(curve),
            [Estimate(gain, gain, gain) for gain in curve.values()],
        )
        for method, curve in gains.items()
    ]
    for line in lines:
        draw_line(axes, line)
    axes.axhline(1, **REFERENCE)
    axes.set_ylabel(f"speed-up over “{method_title(comparison.plugin, NO_BATCHING)}”", fontsize=LABEL_SIZE)
    scale_by_size(axes, sorted({size for curve in gains.values() for size in curve}), lines)


def _time_plot(comparison: MethodComparison) -> str | None:
    """Stacked bars: the phases of a step. None if all of the time is in one phase."""
    rows = [row for own in comparison.by_method().values() for row in own]
    phases = [phase for phase in (*PHASES, OTHER) if any(_share(row, phase) > SMALL_SHARE for row in rows)]
    if len(phases) < 2:
        return None
    several_sizes = len({row["batch_size"] for row in rows}) > 1
    places, headings = _places(comparison) if several_sizes else (list(range(len(rows))), [])
    height = BAR * (1 if several_sizes else 1.5) * (max(places) + 2)
    figure = Figure(figsize=(WIDTH, 1.5 + height), layout="constrained")
    axes = figure.add_subplot()
    _draw_phases(axes, places, rows)
    if several_sizes:
        figure.suptitle(_title(comparison), fontsize=TITLE_SIZE)
        names = [f"{row['batch_size']:,}" for row in rows]
        axes.set_ylabel("batch size")
    else:
        figure.suptitle(f"{_title(comparison)}; batch size {rows[0]['batch_size']:,}", fontsize=TITLE_SIZE)
        names = [method_title(comparison.plugin, row["method"]) for row in rows]
    for place, heading in headings:
        axes.text(0.005, place, heading, fontsize=LABEL_SIZE, va="center", fontweight="bold")
    axes.set_yticks(places, names, fontsize=LABEL_SIZE)
    axes.set_ylim(max(places) + 0.7, min([*places, *(place for place, _ in headings)]) - 0.7)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of the time of a step")
    legend_below(figure)
    return svg(figure)


def _places(comparison: MethodComparison) -> tuple[list[float], list[tuple[float, str]]]:
    """Of the bars, and of the headings of methods."""
    places: list[float] = []
    headings = []
    top = 0.0
    for method, rows in comparison.by_method().items():
        headings.append((top, method_title(comparison.plugin, method)))
        places += [top + 1 + number for number in range(len(rows))]
        top += len(rows) + 1.4
    return places, headings


def _draw_phases(axes: Axes, places: Sequence[float], rows: Sequence[Row]) -> None:
    left = [0.0] * len(rows)
    for number, phase in enumerate([*PHASES, OTHER]):
        shares = [_share(row, phase) for row in rows]
        if not any(shares):
            continue
        axes.barh(
            places,
            shares,
            left=left,
            label=PHASE_TITLES.get(phase, phase),
            color=COLOURS[number],
            hatch=HATCHES[number],
            edgecolor="white",
            linewidth=0.3,
        )
        left = [start + share for start, share in zip(left, shares, strict=True)]


def _share(row: Row, phase: str) -> float:
    return row["phase_seconds"].get(phase, 0.0) / sum(row["phase_seconds"].values())
