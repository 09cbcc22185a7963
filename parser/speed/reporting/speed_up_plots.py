"""Plots a comparison of methods.

Speed, speed-up over one baseline, the time of each phase (Neubig et al. 2017, Figure 2), the speed-up of each
part of a step (Suarez & Zhu 2017, Figures 2 and 3), and how each method scales with the batch size (Ding &
Koehn 2019, Figure 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parser.evaluation.statistics import Estimate, exactly
from parser.pages.plot_style import (
    COLOURS,
    HEIGHT,
    LABEL_SIZE,
    PLAIN,
    REFERENCE,
    TITLE_SIZE,
    WIDTH,
    Curves,
    draw_lines,
    draw_panels,
    label_ends,
    legend_below,
    places_of,
    scale_by_size,
)
from parser.speed.measuring.rows import SpeedRow
from parser.speed.reporting.speed_ups import (
    Comparison,
    baseline_of,
    bracketed,
    by_method,
    gains_of_parts,
    in_order,
    parallel_shares,
    ratio,
    scaling,
    sizes_of,
)
from parser.speed.reporting.titles import method_title, plot_title
from parser.speed.tasks.plugin import CELLS, CELLS_BACKWARD, NO_BATCHING, OTHER, PHASES

HATCHES = ("", "////", "\\\\\\\\", "xxxx", "||||", "----", "++++", "//", "\\\\", "xx")
PHASE_TITLES = {CELLS: "modules, forward", CELLS_BACKWARD: "modules, backward"}
SMALL_SHARE = 0.01
"""Share of the time of a step that counts as small."""
BAR = 0.2
"""Height of a horizontal bar in inches."""
WIDE_BAR = 1.5 * BAR
"""Height of a bar with the name of a method, in inches."""


def plots(comparison: Comparison) -> dict[str, Figure]:
    """Return figures by kind, without kinds for which nothing was measured.

    The scaling is last: a method that is slow without batching looks best there.
    """
    drawn = {
        "speed": _speed_plot(comparison),
        "speed-up": _speed_up_plot(comparison),
        "time": _time_plot(comparison),
        "parts": _parts_plot(comparison),
        "scaling": _scaling_plot(comparison),
    }
    return {kind: plot for kind, plot in drawn.items() if plot}


def _title(comparison: Comparison) -> str:
    return plot_title(comparison[0].experiment, comparison)


def _title_at_one_size(comparison: Comparison) -> str:
    return f"{_title(comparison)}; batch size {sizes_of(comparison)[0]:,}"


def _method(row: SpeedRow) -> str:
    return method_title(row.plugin, row.method)


def _speed_up_plot(comparison: Comparison) -> Figure | None:
    """Plot the speed-up over one baseline; None for a single batch size, as the speeds have the same bars."""
    baseline = baseline_of(comparison)
    if baseline is None or len(sizes_of(comparison)) == 1:
        return None
    curves: Curves = {
        bracketed(_method(rows[0]), [*rows, baseline]): {row.batch_size: ratio(row, baseline) for row in rows}
        for rows in by_method(comparison).values()
    }

    def finish(axes: Axes) -> None:
        axes.axhline(1, label=f"1: {_method(baseline)}, batch size {baseline.batch_size:,}", **REFERENCE)
        axes.set_ylabel("speed-up")
        scale_by_size(axes, curves)

    return draw_panels(_title(comparison), curves, finish)


def _scaling_plot(comparison: Comparison) -> Figure | None:
    """Plot the scaling, with the parallel share of each method at the end of its line."""
    curves: dict[str, dict[int, Estimate]] = {}
    ends: dict[str, str] = {}
    for rows in by_method(comparison).values():
        label, shares = _method(rows[0]), parallel_shares(rows)
        curves[label] = scaling(rows) if shares else {}  # there are at least two batch sizes
        if shares and shares[0].value > 0:
            ends[label] = bracketed(f"{100 * shares[0].value:.1f} % parallel", rows)
    sizes = places_of(curves.values())

    def finish(axes: Axes) -> None:
        axes.plot(sizes, sizes, label="ideal: as the batch size", **REFERENCE)
        axes.set_ylabel("over own batches of 1")
        scale_by_size(axes, curves)
        axes.set_yscale("log", base=2)  # always, since the ideal is then a line
        axes.autoscale(axis="y")
        axes.yaxis.set_major_formatter(PLAIN)
        label_ends(axes, curves, ends)

    title = plot_title(f"{comparison[0].experiment}, scaling with the batch size", comparison)
    return draw_panels(title, curves, finish) if sizes else None


def _speed_plot(comparison: Comparison) -> Figure | None:
    if len(sizes_of(comparison)) == 1:
        return _speed_bars(comparison)
    curves: Curves = {
        _method(rows[0]): {row.batch_size: row.speed for row in rows}
        for rows in by_method(comparison).values()
    }

    def finish(axes: Axes) -> None:
        axes.set_ylabel(f"{comparison[0].examples}/s")
        scale_by_size(axes, curves)

    return draw_panels(_title(comparison), curves, finish) if curves else None


def _speed_bars(comparison: Comparison) -> Figure:
    """Plot the speeds of methods at their only batch size."""
    rows = in_order(comparison)
    figure = Figure(figsize=(WIDTH, 1.3 + WIDE_BAR * len(rows)), layout="constrained")
    figure.suptitle(_title_at_one_size(comparison), fontsize=TITLE_SIZE)
    axes = figure.add_subplot()
    speeds = [row.sentences_per_second for row in rows]
    errors = list(zip(*(row.speed.errors for row in rows), strict=True))
    axes.barh(range(len(rows)), speeds, xerr=errors, capsize=2, color=COLOURS[5])
    axes.set_yticks(range(len(rows)), map(_method, rows), fontsize=LABEL_SIZE)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(PLAIN)
    axes.set_xlabel(f"{comparison[0].examples}/s")
    axes.grid(True, axis="x", color="0.9")
    axes.set_axisbelow(True)
    return figure


def _parts_plot(comparison: Comparison) -> Figure | None:
    """Plot a panel for each part of a step; None for a single batch size, as the report has a table of it."""
    parts = gains_of_parts(comparison)
    if len({row.batch_size for row in comparison}) < 2 or not parts:
        return None
    lines = -(-len(parts) // 2)
    figure = Figure(figsize=(1.3 * WIDTH, 0.5 + 0.7 * HEIGHT * lines), layout="constrained")
    titles = {method: _method(rows[0]) for method, rows in by_method(comparison).items()}
    subject = f"{comparison[0].experiment}, parts of a step, over “{titles[NO_BATCHING]}”"
    figure.suptitle(plot_title(subject, comparison), fontsize=TITLE_SIZE)
    for number, (part, gains) in enumerate(parts.items(), start=1):
        axes = figure.add_subplot(lines, 2, number)
        curves: Curves = {
            title: {size: exactly(gain) for size, gain in gains.get(method, {}).items()}
            for method, title in titles.items()
        }
        draw_lines(axes, curves, [title for title, curve in curves.items() if curve])
        axes.axhline(1, **REFERENCE)
        axes.set_ylabel("speed-up", fontsize=LABEL_SIZE)
        scale_by_size(axes, curves)
        axes.set_title(part.replace("cells", "modules"), fontsize=TITLE_SIZE - 1)
    legend_below(figure)
    return figure


def _time_plot(comparison: Comparison) -> Figure | None:
    """Plot the phases of a step as stacked bars; None if all time is spent in one phase."""
    rows = in_order(comparison)
    phases = [phase for phase in (*PHASES, OTHER) if any(row.share(phase) > SMALL_SHARE for row in rows)]
    if len(phases) < 2:
        return None
    if len(sizes_of(comparison)) > 1:
        places, headings = _places(comparison)
        title, names, bar = _title(comparison), [f"{row.batch_size:,}" for row in rows], BAR
    else:
        places, headings = list(range(len(rows))), []
        title, names, bar = _title_at_one_size(comparison), [_method(row) for row in rows], WIDE_BAR
    figure = Figure(figsize=(WIDTH, 1.5 + bar * (max(places) + 2)), layout="constrained")
    figure.suptitle(title, fontsize=TITLE_SIZE)
    axes = figure.add_subplot()
    _draw_phases(axes, places, rows)
    for place, heading in headings:
        axes.text(0.005, place, heading, fontsize=LABEL_SIZE, va="center")
    axes.set_yticks(places, names, fontsize=LABEL_SIZE)
    axes.set_ylabel("batch size" if headings else "")
    axes.set_ylim(max(places) + 0.7, -0.7)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of a step")
    legend_below(figure)
    return figure


def _places(comparison: Comparison) -> tuple[list[float], list[tuple[float, str]]]:
    """Return the places of the bars, and those of the headings of methods."""
    places: list[float] = []
    headings = []
    top = 0.0
    for rows in by_method(comparison).values():
        headings.append((top, _method(rows[0])))
        places += [top + 1 + number for number in range(len(rows))]
        top += len(rows) + 1.4
    return places, headings


def _draw_phases(axes: Axes, places: Sequence[float], rows: Sequence[SpeedRow]) -> None:
    left = [0.0] * len(rows)
    for number, phase in enumerate([*PHASES, OTHER]):
        shares = [row.share(phase) for row in rows]
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
