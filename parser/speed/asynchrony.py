"""Speed over asynchrony: how many are on their way, how often is updated (Gaunt et al. 2017, section 6)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from parser.speed.document import Heading, Part, Picture, Table
from parser.speed.figures import HEIGHT, PLAIN, WIDTH, draw_line, svg
from parser.speed.findings import bracketed, ratio
from parser.speed.rows import OK, Row
from parser.speed.statistics import Estimate

METHOD = re.compile(r"(?:(?P<kind>.+)-)?active-(?P<active>\d+)")
"""Of methods that have so many on their way."""
UPDATE_AFTER = "update_after"
"""The plugins' setting: gradients for an update."""
Lines = dict[str, dict[int, Row]]
"""What is measured by one line -> its place on the axis -> its row."""


class Axis(NamedTuple):
    name: str
    label: str
    column: str
    """With room for the number."""


ASYNCHRONY = Axis("asynchrony", "batches on their way (max_active_keys)", "{} on their way")
FREQUENCY = Axis("update frequency", "gradients for an update (min_update_frequency)", "update after {}")


def asynchrony_parts(rows: Sequence[Row]) -> list[Part]:
    """A picture and a table for each plugin that sends messages; two where it updates more or less often."""
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
    """Of experiments that differ in nothing else, by the name of the first."""
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
    return f"at {row['batch_size']}{workers}"


def _parts(plugin: str, axis: Axis, lines: Lines) -> list[Part]:
    title = f"{plugin}, {axis.name}"
    name = f"{plugin}-{axis.name.replace(' ', '-')}"
    return [Heading(2, title), Picture(name, _drawn(title, axis, lines)), _table(axis, lines)]


def _drawn(title: str, axis: Axis, lines: Lines) -> str:
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, line) in enumerate(lines.items()):
        places = sorted(line)
        draw_line(axes, number, name, places, [_speed(line[place]) for place in places])
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted({place for line in lines.values() for place in line}))
    axes.xaxis.set_major_formatter(PLAIN)
    axes.set_ylim(bottom=0)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(axis.label)
    axes.set_ylabel("examples per second")
    axes.grid(True, color="0.9")
    axes.legend(fontsize=8)
    return svg(figure)


def _table(axis: Axis, lines: Lines) -> Table:
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
