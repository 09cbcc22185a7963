"""Speed over asynchrony: batches in flight and update frequency (Gaunt et al. 2017, section 6)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from parser.speed.measuring.cells import Cell
from parser.speed.measuring.rows import SpeedRow
from parser.speed.measuring.run import RunRows
from parser.speed.reporting.document import Section, Table, cells_at
from parser.speed.reporting.plot_style import PLAIN, draw_panels, places_of, svg
from parser.speed.reporting.speed_ups import bracketed, ratio
from parser.speed.reporting.titles import plot_title

METHOD = re.compile(r"(?:(?P<kind>.+)-)?active-(?P<active>\d+)")
"""Methods with a number of batches in flight."""
UPDATE_AFTER = "update_after"
"""The plugins' setting: gradients for each update."""
Lines = Mapping[str, Mapping[int, SpeedRow]]
"""Label of a line -> position on the axis -> row."""


class AsynchronyAxis(NamedTuple):
    name: str
    label: str
    column: str
    """Heading of a column, with a place for the number."""

    def scale(self, axes: Axes, places: Sequence[int]) -> None:
        axes.set_xscale("log", base=2)
        axes.set_xticks(places)
        axes.xaxis.set_major_formatter(PLAIN)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(self.label)
        axes.grid(True, color="0.9")


ASYNCHRONY = AsynchronyAxis("asynchrony", "batches in flight (max_active_keys)", "{} in flight")
FREQUENCY = AsynchronyAxis(
    "update frequency", "gradients for each update (min_update_frequency)", "update after {}"
)


def sections(run: RunRows) -> Iterator[Section]:
    """For each plugin with asynchronous messages, and others over the update frequency."""
    by_plugin: dict[str, list[SpeedRow]] = defaultdict(list)
    for row in run.measured:
        if METHOD.fullmatch(row.method):
            by_plugin[row.plugin].append(row)
    for plugin, own in by_plugin.items():
        yield _section(plugin, ASYNCHRONY, _by_asynchrony(own))
        if lines := _by_frequency(own):
            yield _section(plugin, FREQUENCY, lines)


def line_and_place(cell: Cell) -> tuple[str, int]:
    """The experiment, with the kind of its messages if there are several, and the batches in flight."""
    found = METHOD.fullmatch(cell.method)
    assert found is not None
    return cell.experiment + (f", {found['kind']}" if found["kind"] else ""), int(found["active"])


def _by_asynchrony(rows: Sequence[SpeedRow]) -> Lines:
    lines: dict[str, dict[int, SpeedRow]] = defaultdict(dict)
    for row in rows:
        name, active = line_and_place(row)
        lines[f"{name} {_size(row)}"][active] = row
    return lines


def _by_frequency(rows: Sequence[SpeedRow]) -> Lines:
    """Experiments that differ only in the update frequency share a line, named after the first."""
    lines: dict[str, dict[int, SpeedRow]] = defaultdict(dict)
    first: dict[str, str] = {}
    for row in rows:
        settings = dict(row.settings)
        after = settings.pop(UPDATE_AFTER, 1)
        experiment = first.setdefault(json.dumps(settings, sort_keys=True), row.experiment)
        lines[f"{experiment}, {row.method} {_size(row)}"][after] = row
    return {name: line for name, line in lines.items() if len(line) > 1}


def _size(cell: Cell) -> str:
    workers = f", {cell.threads} workers" if cell.threads > 1 else ""
    return f"at batch size {cell.batch_size}{workers}"


def _section(plugin: str, axis: AsynchronyAxis, lines: Lines) -> Section:
    title, places = f"{plugin}, {axis.name}", places_of(lines.values())
    curves = {name: {place: line[place].speed for place in sorted(line)} for name, line in lines.items()}

    rows = [row for line in lines.values() for row in line.values()]
    speed = f"{rows[0].examples}/s"

    def finish(axes: Axes) -> None:
        axis.scale(axes, places)
        axes.yaxis.set_major_formatter(PLAIN)
        axes.set_ylabel(speed)

    plot = svg(draw_panels(plot_title(f"speed over {axis.name}", rows), curves, finish))
    table = Table(
        (speed, *map(axis.column.format, places), "largest over 1"),
        [
            [name, *cells_at(line, places, lambda row: f"{row.sentences_per_second:,.1f}"), _gain(line)]
            for name, line in lines.items()
        ],
    )
    return Section(title, {title: plot}, [table])


def _gain(line: Mapping[int, SpeedRow]) -> str:
    ends = [line[place] for place in (max(line), 1) if place in line]
    return bracketed(str(ratio(*ends)), ends) if len(ends) == 2 else ""
