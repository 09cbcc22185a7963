"""Speed and epochs to the target by both parameters of asynchrony (Gaunt et al. 2017, section 6).

The parameters are the batches in flight (max_active_keys), and the gradients that a node accumulates for an
update (min_update_frequency).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from matplotlib.figure import Figure

from parser.evaluation.statistics import Estimate
from parser.pages.document import Section, Table, cells_at
from parser.pages.plot_style import (
    HEIGHT,
    PLAIN,
    TITLE_SIZE,
    WIDTH,
    draw_lines,
    legend_below,
    places_of,
)
from parser.speed.measuring.learning import Curve
from parser.speed.measuring.rows import SpeedRow
from parser.speed.measuring.run import RunRows
from parser.speed.reporting.asynchrony import ASYNCHRONY, METHOD, AsynchronyAxis, line_and_place
from parser.speed.reporting.learning import Seeds, epochs_to_target, mean_epochs
from parser.speed.reporting.titles import plot_title

UPDATE_AFTER = "update_after"
"""The plugins' setting for min_update_frequency."""
FREQUENCY = AsynchronyAxis("gradients for an update", "update after {}")
EPOCHS = "epochs to the target"
TEXT = (
    "Speed, and epochs until the target score where the same experiment was trained, too: the mean, the "
    "lowest and the highest over seeds."
)


class Found(NamedTuple):
    """The measurements of an experiment with a number of batches in flight."""

    row: SpeedRow
    seeds: Seeds
    """Learning curves; empty if the experiment was not trained."""


Grid = Mapping[int, Mapping[int, Found]]
"""Measurements by batches in flight and gradients for each update."""


def sections(run: RunRows) -> Iterator[Section]:
    """Yield a section for each group of experiments that differ only in the gradients for each update."""
    seeds: dict[tuple[str, str, int], list[Curve]] = defaultdict(list)
    for curve in run.learning:
        if isinstance(curve, Curve):
            seeds[curve.experiment, curve.method, curve.batch_size].append(curve)
    grids: dict[str, dict[int, dict[int, Found]]] = defaultdict(lambda: defaultdict(dict))
    for row in run.measured:
        if METHOD.fullmatch(row.method):
            _, active = line_and_place(row)
            found = Found(row, seeds[row.experiment, row.method, row.batch_size])
            grids[_all_but_frequency(row)][active][row.settings.get(UPDATE_AFTER, 1)] = found
    for grid in grids.values():
        if any(len(line) > 1 for line in grid.values()):
            yield _section({active: dict(sorted(grid[active].items())) for active in sorted(grid)})


def _all_but_frequency(row: SpeedRow) -> str:
    settings = {name: value for name, value in row.settings.items() if name != UPDATE_AFTER}
    kind = METHOD.sub(r"\g<kind>", row.method)
    return json.dumps(
        [row.plugin, kind, row.batch_size, row.threads, row.precision, settings], sort_keys=True
    )


def _section(grid: Grid) -> Section:
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
    return Section(title, {title: picture}, [Table(("", *columns), cells)], TEXT)


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
