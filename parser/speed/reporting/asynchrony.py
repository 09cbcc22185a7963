"""Speed and epochs to the target by both parameters of asynchrony (Gaunt et al. 2017, section 6).

The parameters are the batches in flight (max_active_keys), and the gradients that a node accumulates for an
update (min_update_frequency).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parser.evaluation.statistics import Estimate
from parser.pages.document import Section, Table, cells_at
from parser.pages.plot_style import (
    HEIGHT,
    PLAIN,
    TITLE_SIZE,
    WIDTH,
    draw_lines,
    draw_panels,
    legend_below,
    places_of,
)
from parser.speed.measuring.cells import Cell
from parser.speed.measuring.learning import Curve
from parser.speed.measuring.rows import SpeedRow
from parser.speed.measuring.run import RunRows
from parser.speed.reporting.learning import Seeds, epochs_to_target, mean_epochs, seconds_per_epoch
from parser.speed.reporting.speed_ups import bracketed, ratio
from parser.speed.reporting.titles import plot_title

METHOD = re.compile(r"(?:(?P<kind>.+)-)?active-(?P<active>\d+)")
"""Pattern of methods with a number of batches in flight."""
UPDATE_AFTER = "update_after"
"""The plugins' setting for min_update_frequency."""
EPOCHS = "epochs to the target"
BY_BOTH = (
    "Speed, and epochs until the target score where the same experiment was trained, too: the mean, the "
    "lowest and the highest over seeds."
)
CONVERGENCE = (
    "Epochs until the target score, and seconds for each epoch of the same runs: the mean, the "
    "lowest and the highest over seeds."
)
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
FREQUENCY = AsynchronyAxis("gradients for an update", "update after {}")


def sections(run: RunRows) -> Iterator[Section]:
    """Yield a section for each plugin with asynchronous messages."""
    by_plugin: dict[str, dict[str, dict[int, SpeedRow]]] = defaultdict(lambda: defaultdict(dict))
    for row in run.measured:
        if METHOD.fullmatch(row.method):
            name, active = line_and_place(row)
            workers = f", {row.threads} workers" if row.threads > 1 else ""
            precision = "" if row.precision == "float32" else f", {row.precision}"
            line = f"{name} at batch size {row.batch_size}{workers}{precision}"
            by_plugin[row.plugin][line][active] = row
    for plugin, lines in by_plugin.items():
        yield _section(plugin, lines)


def line_and_place(cell: Cell) -> tuple[str, int]:
    """Return the experiment, with the kind of messages if there are several, and the batches in flight."""
    found = METHOD.fullmatch(cell.method)
    assert found is not None
    return cell.experiment + (f", {found['kind']}" if found["kind"] else ""), int(found["active"])


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


class Found(NamedTuple):
    """The measurements of an experiment with a number of batches in flight."""

    row: SpeedRow
    seeds: Seeds
    """Learning curves; empty if the experiment was not trained."""


Grid = Mapping[int, Mapping[int, Found]]
"""Measurements by batches in flight and gradients for each update."""


def frequency_sections(run: RunRows) -> Iterator[Section]:
    """Yield a section for each group of experiments that differ only in the gradients for each update."""
    seeds: dict[tuple[str, str, int], list[Curve]] = defaultdict(list)
    for curve in run.learning:
        if isinstance(curve, Curve):
            seeds[curve.experiment, curve.method, curve.batch_size].append(curve)
    grids: dict[str, dict[int, dict[int, Found]]] = defaultdict(lambda: defaultdict(dict))
    for row in run.measured:
        if METHOD.fullmatch(row.method):
            _, active = line_and_place(row)
            others = {name: value for name, value in row.settings.items() if name != UPDATE_AFTER}
            kind = METHOD.sub(r"\g<kind>", row.method)
            same = [row.plugin, kind, row.batch_size, row.threads, row.precision, others]
            key = json.dumps(same, sort_keys=True)
            found = Found(row, seeds[row.experiment, row.method, row.batch_size])
            grids[key][active][row.settings.get(UPDATE_AFTER, 1)] = found
    for grid in grids.values():
        if any(len(line) > 1 for line in grid.values()):
            yield _frequency_section({active: dict(sorted(grid[active].items())) for active in sorted(grid)})


def _frequency_section(grid: Grid) -> Section:
    rows = [found.row for line in grid.values() for found in line.values()]
    name, places, speed = line_and_place(rows[0])[0], places_of(grid.values()), f"{rows[0].examples}/s"
    columns = [f"{what}, {FREQUENCY.column.format(place)}" for what in (speed, EPOCHS) for place in places]
    cells = [
        [
            ASYNCHRONY.column.format(active),
            *cells_at(line, places, lambda found: f"{found.row.sentences_per_second:,.1f}"),
            *cells_at(line, places, lambda found: epochs_to_target(found.seeds, 1) if found.seeds else ""),
        ]
        for active, line in grid.items()
    ]
    title = f"{name}, update frequency"
    picture = _drawn(plot_title(f"{name}, both parameters of asynchrony", rows), speed, grid)
    return Section(title, {title: picture}, [Table(("", *columns), cells)], BY_BOTH)


def _drawn(title: str, speed: str, grid: Grid) -> Figure:
    """Draw a panel of speeds, and one of epochs if these are known, with a line for each number of batches in
    flight.
    """
    curves: dict[str, dict[str, dict[int, Estimate]]] = {speed: {}, EPOCHS: {}}
    for active, line in grid.items():
        label = ASYNCHRONY.column.format(active)
        curves[speed][label] = {place: found.row.speed for place, found in line.items()}
        epochs = {place: mean_epochs(found.seeds) for place, found in line.items()}
        curves[EPOCHS][label] = {place: mean for place, mean in epochs.items() if mean}
    shown = {label: lines for label, lines in curves.items() if any(lines.values())}
    figure = Figure(figsize=(0.75 * WIDTH * len(shown), HEIGHT), layout="constrained")
    figure.suptitle(title, fontsize=TITLE_SIZE)
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, (label, lines) in zip(panels, shown.items(), strict=True):
        draw_lines(axes, lines, list(lines))
        FREQUENCY.scale(axes, places_of(grid.values()))
        axes.yaxis.set_major_formatter(PLAIN)
        axes.set_ylabel(label)
    legend_below(figure)
    return figure


def convergence_sections(run: RunRows) -> Iterator[Section]:
    """Yield the epochs to the target of each plugin with several numbers of batches in flight."""
    by_plugin: dict[str, dict[str, dict[int, list[Curve]]]] = defaultdict(dict)
    for curve in run.learning:
        if isinstance(curve, Curve) and METHOD.fullmatch(curve.method):
            name, active = line_and_place(curve)
            by_plugin[curve.plugin].setdefault(name, {}).setdefault(active, []).append(curve)
    for plugin, lines in by_plugin.items():
        if several := {name: line for name, line in lines.items() if len(line) > 1}:
            yield _convergence(plugin, several)


def _convergence(plugin: str, lines: Mapping[str, Mapping[int, Seeds]]) -> Section:
    """Return the section of a plugin. lines: learning curves by experiment and batches in flight."""
    places = places_of(lines.values())
    measures: dict[str, Callable[[Seeds], str]] = {
        "epochs": partial(epochs_to_target, digits=1),
        "seconds for each epoch": seconds_per_epoch,
    }
    columns = [f"{name}, {ASYNCHRONY.column.format(place)}" for name in measures for place in places]
    rows = [
        [name, *(cell for measure in measures.values() for cell in cells_at(line, places, measure))]
        for name, line in lines.items()
    ]
    epochs = {
        name: {active: mean for active, curves in sorted(line.items()) if (mean := mean_epochs(curves))}
        for name, line in lines.items()
    }

    def finish(axes: Axes) -> None:
        ASYNCHRONY.scale(axes, places)
        axes.set_ylabel("epochs to the target score")

    every = [curve for line in lines.values() for own in line.values() for curve in own]
    title = plot_title("epochs to the target over asynchrony", every)
    plots = {}
    if any(epochs.values()):
        plots[f"{plugin}-convergence"] = draw_panels(title, epochs, finish)
    return Section(f"{plugin}, convergence", plots, [Table(("experiment", *columns), rows)], CONVERGENCE)
