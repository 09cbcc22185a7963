"""The plots: speed-up over batch size (Ding & Koehn 2019, Figure 1), speed, and where the time goes
(Neubig et al. 2017, Figure 2); and the gain of each part of a step (Suarez & Zhu 2017, Figures 2 and 3).

Readable in grey: lines differ in marker and dash, bars in hatching. Colours: Okabe & Ito's.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from parser.plugins import PHASES
from parser.speed.findings import MethodComparison, Gains, gains_of_parts, bracketed, parallel_shares, speed_ups
from parser.speed.rows import Row
from parser.speed.statistics import Estimate

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#F0E442",
    "#999999",
    "#661100",
)
MARKERS = "osD^vPX"
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "+++", "---", "ooo", "|||", "**")
WIDTH, HEIGHT = 6.4, 4.2
NEAR = 1.5
"""Sizes at such a ratio, and below, have labels that overlap."""
PLAIN = FuncFormatter(lambda value, _: f"{value:,g}")


def figures(comparison: MethodComparison) -> dict[str, str]:
    """SVG pictures by their kind; those for which nothing was measured are missing."""
    drawings: dict[str, Callable[[Axes, MethodComparison], bool]] = {
        "speed-up": _draw_speed_up,
        "speed": _draw_speed,
        "time": _draw_time,
    }
    pictures = {}
    for kind, draw in drawings.items():
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        if draw(axes, comparison):
            axes.set_title(comparison.title, fontsize=10)
            pictures[kind] = svg(figure)
    if parts := gains_of_parts(comparison):
        pictures["parts"] = svg(_parts_drawn(parts, comparison))
    return pictures


def _parts_drawn(parts: Gains, comparison: MethodComparison) -> Figure:
    """Beside each other, in pairs."""
    lines = -(-len(parts) // 2)
    figure = Figure(figsize=(1.4 * WIDTH, 0.75 * HEIGHT * lines), layout="constrained")
    figure.suptitle(comparison.title, fontsize=10)
    order = list(comparison.by_method())
    for number, (part, gains) in enumerate(parts.items(), start=1):
        axes = figure.add_subplot(lines, 2, number)
        for method, curve in gains.items():
            estimates = [Estimate(gain, gain, gain) for gain in curve.values()]
            draw_line(axes, order.index(method), method, list(curve), estimates)
        axes.axhline(1, color="0.5", linewidth=1)
        axes.set_title(part, fontsize=9)
        axes.set_ylabel("times as fast as none", fontsize=8)
        scale_by_size(axes, sorted({size for curve in gains.values() for size in curve}))
    return figure


def svg(figure: Figure) -> str:
    text = io.StringIO()
    # Text stays text, and nothing in the file depends on the time: equal rows give equal files.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "speed"}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    picture = text.getvalue()
    return picture[picture.index("<svg") :]


def _draw_speed_up(axes: Axes, comparison: MethodComparison) -> bool:
    sizes: set[int] = set()
    for number, (method, rows) in enumerate(comparison.by_method().items()):
        curve = speed_ups(rows)
        if shares := parallel_shares(rows):  # there are two sizes at least
            label = f"{method}: " + bracketed(f"{100 * shares[0].value:.1f} % parallel", rows)
            draw_line(axes, number, label, list(curve), list(curve.values()))
            sizes |= curve.keys()
    if not sizes:
        return False
    ordered = sorted(sizes)
    axes.plot(ordered, ordered, color="0.5", linewidth=1, label="ideal")
    axes.set_ylabel("speed-up over batches of 1")
    scale_by_size(axes, ordered)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(PLAIN)
    return True


def _draw_speed(axes: Axes, comparison: MethodComparison) -> bool:
    methods = comparison.by_method()
    if not methods:
        return False
    for number, (method, rows) in enumerate(methods.items()):
        estimates = [Estimate(row["sentences_per_second"], *row["interval"]) for row in rows]
        draw_line(axes, number, method, [row["batch_size"] for row in rows], estimates)
    axes.set_ylabel("sentences per second")
    scale_by_size(axes, sorted({row["batch_size"] for rows in methods.values() for row in rows}))
    return True


def draw_line(
    axes: Axes, number: int, label: str, sizes: Sequence[float], estimates: Sequence[Estimate]
) -> None:
    """number: the method's, so that it looks alike in every picture."""
    values, low, high = zip(*estimates, strict=True)
    below = [max(0.0, value - bound) for value, bound in zip(values, low, strict=True)]
    above = [max(0.0, bound - value) for value, bound in zip(values, high, strict=True)]
    axes.errorbar(
        sizes,
        values,
        yerr=[below, above],
        label=label,
        markersize=5,
        capsize=2,
        **look_of(number),
    )


def look_of(number: int) -> dict[str, Any]:
    """Of the number-th line."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": DASHES[number % len(DASHES)],
    }


def scale_by_size(axes: Axes, sizes: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(_apart(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(PLAIN)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PLAIN)
    axes.set_xlabel("batch size")
    axes.grid(True, color="0.9")
    axes.legend(fontsize=8)


def _apart(sizes: Sequence[int]) -> list[int]:
    """Those whose labels do not lie on the one of a larger size."""
    kept: list[int] = []
    for size in sorted(sizes, reverse=True):
        if not kept or kept[-1] / size > NEAR:
            kept.append(size)
    return kept


def _draw_time(axes: Axes, comparison: MethodComparison) -> bool:
    rows = [row for own in comparison.by_method().values() for row in own]
    if not rows:
        return False
    left = [0.0] * len(rows)
    for number, phase in enumerate([*PHASES, "other"]):
        shares = [_share(row, phase) for row in rows]
        if not any(shares):
            continue
        axes.barh(
            range(len(rows)),
            shares,
            left=left,
            label=phase,
            color=COLOURS[number],
            hatch=HATCHES[number],
            edgecolor="white",
            linewidth=0.3,
        )
        left = [start + share for start, share in zip(left, shares, strict=True)]
    axes.set_yticks(range(len(rows)), [f"{row['method']}, {row['batch_size']}" for row in rows], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of a step's time")
    axes.legend(fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.45, -0.14))
    return True


def _share(row: Row, phase: str) -> float:
    return row["phase_seconds"].get(phase, 0.0) / sum(row["phase_seconds"].values())
