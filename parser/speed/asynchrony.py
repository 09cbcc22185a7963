"""Speed over asynchrony: batches in flight and update frequency (Gaunt et al. 2017, section 6)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from parser.speed.document import Heading, Part, Picture, Table
from parser.speed.drawing import PLAIN, Line, draw_panels, svg
from parser.speed.findings import bracketed, ratio
from parser.speed.rows import OK, Row
from parser.speed.statistics import Estimate
from parser.speed.titles import plot_title, speed_label

METHOD = re.compile(r"(?:(?P<kind>.+)-)?active-(?P<active>\d+)")
"""Methods with a number of batches in flight."""
UPDATE_AFTER = "update_after"
"""The plugins' setting: gradients for each update."""
Lines = dict[str, dict[int, Row]]
"""Label of a line -> position on the axis -> row."""


class AsynchronyAxis(NamedTuple):
    name: str
    label: str
    column: str
    """Heading of a column, with a place for the number."""


ASYNCHRONY = AsynchronyAxis("asynchrony", "batches in flight (max_active_keys)", "{} in flight")
FREQUENCY = AsynchronyAxis(
    "update frequency", "gradients for each update (min_update_frequency)", "update after {}"
)


def asynchrony_parts(rows: Sequence[Row]) -> list[Part]:
    """A plot and a table for each plugin with asynchronous messages, and others over the update frequency."""
    by_plugin: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["status"] == OK and METHOD.fullmatch(row["method"]):
            by_plugin[row["plugin"]].append(row)
    parts: list[Part] = []
    for plugin, own in by_plugin.items():
        parts += _parts(plugin, ASYNCHRONY, _by_asynchrony(own))
        if lines := _by_frequency(own):
            parts += _parts(plugin, FREQUENCY, lines)
    return parts


def _by_asynchrony(rows: Sequence[Row]) -> Lines:
    lines: Lines = defaultdict(dict)
    for row in rows:
        found = METHOD.fullmatch(row["method"])
        assert found is not None
        kind = f", {found['kind']}" if found["kind"] else ""
        lines[f"{row['experiment']}{kind} {_size(row)}"][int(found["active"])] = row
    return lines


def _by_frequency(rows: Sequence[Row]) -> Lines:
    """Experiments that differ only in the update frequency share a line, named after the first."""
    lines: Lines = defaultdict(dict)
    first: dict[str, str] = {}
    for row in rows:
        settings = dict(row["settings"])
        after = settings.pop(UPDATE_AFTER, 1)
        experiment = first.setdefault(json.dumps(settings, sort_keys=True), row["experiment"])
        lines[f"{experiment}, {row['method']} {_size(row)}"][after] = row
    return {name: line for name, line in lines.items() if len(line) > 1}


def _size(row: Row) -> str:
    workers = f", {row['threads']} workers" if row["threads"] > 1 else ""
    return f"at batch size {row['batch_size']}{workers}"


def _parts(plugin: str, axis: AsynchronyAxis, lines: Lines) -> list[Part]:
    title = f"{plugin}, {axis.name}"
    return [Heading(2, title), Picture(title, _drawn(axis, lines)), _table(axis, lines)]


def _drawn(axis: AsynchronyAxis, lines: Lines) -> str:
    rows = [row for line in lines.values() for row in line.values()]
    drawn = [
        Line(name, number, sorted(line), [_speed(line[place]) for place in sorted(line)])
        for number, (name, line) in enumerate(lines.items())
    ]

    def finish(axes: Axes) -> None:
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted({place for line in lines.values() for place in line}))
        axes.xaxis.set_major_formatter(PLAIN)
        axes.yaxis.set_major_formatter(PLAIN)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(axis.label)
        axes.set_ylabel(speed_label(rows[0]["plugin"]))
        axes.grid(True, color="0.9")

    return svg(draw_panels(plot_title(f"speed over {axis.name}", rows), drawn, finish))


def _table(axis: AsynchronyAxis, lines: Lines) -> Table:
    places = sorted({place for line in lines.values() for place in line})
    head = ("examples/s", *map(axis.column.format, places), "largest over 1")
    return Table(head, [_cells(name, line, places) for name, line in lines.items()])


def _cells(name: str, line: dict[int, Row], places: Sequence[int]) -> list[str]:
    speeds = [f"{_speed(line[place]).value:,.1f}" if place in line else "" for place in places]
    ends = [line[place] for place in (max(line), 1) if place in line]
    gain = bracketed(str(ratio(*ends)), ends) if len(ends) == 2 else ""
    return [name, *speeds, gain]


def _speed(row: Row) -> Estimate:
    return Estimate(row["sentences_per_second"], *row["interval"])
