"""Speed by asynchrony, the number of batches in flight (Gaunt et al. 2017, section 6)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from parser.pages.document import Section, Table, cells_at
from parser.pages.plot_style import PLAIN, draw_panels, places_of
from parser.speed.measuring.cells import Cell
from parser.speed.measuring.rows import SpeedRow
from parser.speed.measuring.run import RunRows
from parser.speed.reporting.speed_ups import bracketed, ratio
from parser.speed.reporting.titles import plot_title

METHOD = re.compile(r"(?:(?P<kind>.+)-)?active-(?P<active>\d+)")
"""Pattern of methods with a number of batches in flight."""
Lines = Mapping[str, Mapping[int, SpeedRow]]
"""Label of a line -> position on the axis -> row."""


class AsynchronyAxis(NamedTuple):
    label: str
    column: str
    """Heading of a column, with a placeholder for the number."""

    def scale(self, axes: Axes, places: Sequence[int]) -> None:
        axes.set_xscale("log", base=2)
        axes.set_xticks(places)
        axes.xaxis.set_major_formatter(PLAIN)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(self.label)
        axes.grid(True, color="0.9")


ASYNCHRONY = AsynchronyAxis("batches in flight (max_active_keys)", "{} in flight")


def sections(run: RunRows) -> Iterator[Section]:
    """Yield a section for each plugin with asynchronous messages."""
    by_plugin: dict[str, list[SpeedRow]] = defaultdict(list)
    for row in run.measured:
        if METHOD.fullmatch(row.method):
            by_plugin[row.plugin].append(row)
    for plugin, own in by_plugin.items():
        yield _section(plugin, _by_asynchrony(own))


def line_and_place(cell: Cell) -> tuple[str, int]:
    """Return the experiment, with the kind of messages if there are several, and the batches in flight."""
    found = METHOD.fullmatch(cell.method)
    assert found is not None
    return cell.experiment + (f", {found['kind']}" if found["kind"] else ""), int(found["active"])


def _by_asynchrony(rows: Sequence[SpeedRow]) -> Lines:
    lines: dict[str, dict[int, SpeedRow]] = defaultdict(dict)
    for row in rows:
        name, active = line_and_place(row)
        lines[f"{name} {_size(row)}"][active] = row
    return lines


def _size(cell: Cell) -> str:
    workers = f", {cell.threads} workers" if cell.threads > 1 else ""
    precision = "" if cell.precision == "float32" else f", {cell.precision}"
    return f"at batch size {cell.batch_size}{workers}{precision}"


def _section(plugin: str, lines: Lines) -> Section:
    title, places = f"{plugin}, asynchrony", places_of(lines.values())
    curves = {name: {place: line[place].speed for place in sorted(line)} for name, line in lines.items()}

    rows = [row for line in lines.values() for row in line.values()]
    speed = f"{rows[0].examples}/s"

    def finish(axes: Axes) -> None:
        ASYNCHRONY.scale(axes, places)
        axes.yaxis.set_major_formatter(PLAIN)
        axes.set_ylabel(speed)

    plot = draw_panels(plot_title("speed over asynchrony", rows), curves, finish)
    table = Table(
        (speed, *map(ASYNCHRONY.column.format, places), "largest over 1"),
        [
            [name, *cells_at(line, places, lambda row: f"{row.sentences_per_second:,.1f}"), _gain(line)]
            for name, line in lines.items()
        ],
    )
    return Section(title, {title: plot}, [table])


def _gain(line: Mapping[int, SpeedRow]) -> str:
    ends = [line[place] for place in (max(line), 1) if place in line]
    return bracketed(str(ratio(*ends)), ends) if len(ends) == 2 else ""
