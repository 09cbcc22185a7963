"""Speed over asynchrony: by how many instances are on their way (Gaunt et al. 2017, section 6)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from matplotlib.figure import Figure

from parser.speed.document import Heading, Part, Picture, Table
from parser.speed.figures import HEIGHT, PLAIN, WIDTH, draw_line, svg
from parser.speed.rows import OK, Row
from parser.speed.statistics import Estimate

METHOD = re.compile(r"(?:(?P<kind>.+)-)?active-(?P<active>\d+)")
"""Of methods that have so many on their way."""
Lines = dict[str, dict[int, Row]]
"""What is measured by one line -> instances on their way -> its row."""


def asynchrony_parts(rows: Sequence[Row]) -> list[Part]:
    """A picture and a table for each plugin that sends messages."""
    by_plugin: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["status"] == OK and METHOD.fullmatch(row["method"]):
            by_plugin[row["plugin"]].append(row)
    parts: list[Part] = []
    for plugin, own in by_plugin.items():
        lines = _lines(own)
        parts += [Heading(2, f"{plugin}, asynchrony"), Picture(f"{plugin}-asynchrony", _drawn(plugin, lines))]
        parts.append(_table(lines))
    return parts


def _lines(rows: Sequence[Row]) -> Lines:
    lines: Lines = defaultdict(dict)
    for row in rows:
        found = METHOD.fullmatch(row["method"])
        assert found is not None
        kind = f", {found['kind']}" if found["kind"] else ""
        lines[f"{row['experiment']}{kind} at {row['batch_size']}"][int(found["active"])] = row
    return lines


def _drawn(plugin: str, lines: Lines) -> str:
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, line) in enumerate(lines.items()):
        places = sorted(line)
        draw_line(axes, number, name, places, [_speed(line[place]) for place in places])
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted({place for line in lines.values() for place in line}))
    axes.xaxis.set_major_formatter(PLAIN)
    axes.set_ylim(bottom=0)
    axes.set_title(f"{plugin}, asynchrony", fontsize=10)
    axes.set_xlabel("batches on their way (max_active_keys)")
    axes.set_ylabel("examples per second")
    axes.grid(True, color="0.9")
    axes.legend(fontsize=8)
    return svg(figure)


def _table(lines: Lines) -> Table:
    places = sorted({place for line in lines.values() for place in line})
    head = ("examples/s", *(f"{place} on their way" for place in places), "most over 1")
    return Table(head, [_cells(name, line, places) for name, line in lines.items()])


def _cells(name: str, line: dict[int, Row], places: Sequence[int]) -> list[str]:
    speeds = [f"{_speed(line[place]).value:,.1f}" if place in line else "" for place in places]
    gain = f"{_speed(line[max(line)]).value / _speed(line[1]).value:.2f}" if 1 in line else ""
    return [name, *speeds, gain]


def _speed(row: Row) -> Estimate:
    return Estimate(row["sentences_per_second"], *row["interval"])
