"""Epochs to the target score over batches in flight and update frequency (Gaunt et al. 2017, section 6)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from matplotlib.axes import Axes

from parser.speed.asynchrony import ASYNCHRONY, METHOD
from parser.speed.document import Heading, Part, Picture, Table
from parser.speed.drawing import PLAIN, Line, draw_panels, svg
from parser.speed.learning import reached
from parser.speed.learning_report import mean_of, over_seeds, spread
from parser.speed.rows import OK, Row
from parser.speed.titles import plot_title

Lines = dict[str, dict[int, list[Row]]]
"""Experiment -> batches in flight -> the rows of all seeds."""


def convergence_parts(rows: Sequence[Row]) -> list[Part]:
    """A figure and a table for each plugin that was trained with several numbers of batches in flight."""
    by_plugin: dict[str, Lines] = defaultdict(dict)
    for row in rows:
        found = METHOD.fullmatch(row["method"])
        if row["status"] == OK and found:
            kind = f", {found['kind']}" if found["kind"] else ""
            line = by_plugin[row["plugin"]].setdefault(f"{row['experiment']}{kind}", {})
            line.setdefault(int(found["active"]), []).append(row)
    parts: list[Part] = []
    for plugin, all_lines in by_plugin.items():
        if lines := {name: line for name, line in all_lines.items() if len(line) > 1}:
            text = (
                "Epochs until the target score, and seconds for each epoch of the same runs: the mean, the "
                "lowest and the highest over seeds."
            )
            parts += [Heading(2, f"{plugin}, convergence"), text]
            if drawn := _lines(lines):
                parts.append(Picture(f"{plugin}-convergence", _drawn(lines, drawn)))
            parts.append(_table(lines))
    return parts


def _lines(lines: Lines) -> list[Line]:
    """Over the numbers of batches with which all seeds reached the target."""
    found = []
    for number, (name, line) in enumerate(lines.items()):
        estimates = {}
        for active, rows in sorted(line.items()):
            epochs = [float(each.epochs) for row in rows if (each := reached(row))]
            if len(epochs) == len(rows):
                estimates[active] = mean_of(epochs)
        if estimates:
            found.append(Line(name, number, list(estimates), list(estimates.values())))
    return found


def _drawn(lines: Lines, drawn: Sequence[Line]) -> str:
    rows = [row for line in lines.values() for own in line.values() for row in own]

    def finish(axes: Axes) -> None:
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted({place for line in lines.values() for place in line}))
        axes.xaxis.set_major_formatter(PLAIN)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(ASYNCHRONY.label)
        axes.set_ylabel("epochs to the target score")
        axes.grid(True, color="0.9")

    return svg(draw_panels(plot_title("epochs to the target over asynchrony", rows), drawn, finish))


def _table(lines: Lines) -> Table:
    places = sorted({place for line in lines.values() for place in line})
    columns = [f"{what}, {ASYNCHRONY.column.format(place)}" for what in _MEASURES for place in places]
    return Table(("experiment", *columns), [[name, *_cells(line, places)] for name, line in lines.items()])


def _cells(line: dict[int, list[Row]], places: Sequence[int]) -> list[str]:
    return [
        measure(line[place]) if place in line else "" for measure in _MEASURES.values() for place in places
    ]


def _seconds_for_each_epoch(rows: Sequence[Row]) -> str:
    return spread([sum(row["seconds"]) / len(row["seconds"]) for row in rows], "{:.2f}")


_MEASURES = {
    "epochs": lambda rows: over_seeds(rows, lambda found: found.epochs, "{:.1f}"),
    "seconds for each epoch": _seconds_for_each_epoch,
}
