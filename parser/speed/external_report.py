"""The part of a report about other programs."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from parser.speed.document import Heading, Part, Picture, Table
from parser.speed.drawing import COLOURS, LABEL_SIZE, PLAIN, TITLE_SIZE, WIDTH, svg
from parser.speed.rows import OK, Row
from parser.speed.statistics import median_of, ratio_of

COLUMNS = ("program", "sentences/s", "95 % interval", "over the first", "turns", "command")
BAR_HEIGHT = 0.35
"""Inches."""


def external_parts(rows: Sequence[Row]) -> list[Part]:
    """rows: of `measure_external`. The ratios are over the first program that was measured."""
    if not rows:
        return []
    done = [row for row in rows if row["status"] == OK]
    parts: list[Part] = [Heading(2, "Programs in turns")]
    if done:
        lines = [_cells(row, done[0]) for row in done]
        parts += [Picture("programs", _drawn(done)), Table(COLUMNS, lines)]
    return [*parts, *(f"{row['name']}: {row['status']}." for row in rows if row["status"] != OK)]


def _cells(row: Row, first: Row) -> list[str]:
    speed = median_of(row["speeds"])
    ratio = ratio_of(row["speeds"], first["speeds"], interleaved=True)
    interval = f"{speed.low:,.0f} to {speed.high:,.0f}"
    return [
        row["name"],
        f"{speed.value:,.0f}",
        interval,
        str(ratio),
        str(len(row["speeds"])),
        f"`{row['command']}`",
    ]


def _drawn(rows: Sequence[Row]) -> str:
    figure = Figure(figsize=(WIDTH, 1 + BAR_HEIGHT * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    speeds = [median_of(row["speeds"]) for row in rows]
    for place, speed in enumerate(speeds):
        errors = [[speed.value - speed.low], [speed.high - speed.value]]
        axes.barh(place, speed.value, xerr=errors, color=COLOURS[place % len(COLOURS)], capsize=2)
        axes.annotate(f" {speed.value:,.0f}", (speed.high, place), va="center", fontsize=LABEL_SIZE)
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(PLAIN)
    axes.set_xlabel("sentences/s, median of the turns with its 95 % interval")
    axes.set_title("Programs in turns", fontsize=TITLE_SIZE)
    return svg(figure)
