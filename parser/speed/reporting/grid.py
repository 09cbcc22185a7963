"""The speed-up over no batching as a grid of batch size and a setting of the plugin.

See Suarez & Zhu 2017, Figure 3, with batch sizes and numbers of experts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from parser.pages.document import Section, Table, cells_at
from parser.pages.plot_style import HEIGHT, LABEL_SIZE, TITLE_SIZE, WIDTH, places_of
from parser.speed.measuring.cells import COMPARED
from parser.speed.measuring.run import RunRows
from parser.speed.reporting.speed_ups import CELLS_FORWARD, STEP, Comparison, comparisons, gains_of_parts
from parser.speed.reporting.titles import method_title, plot_title
from parser.speed.tasks.discovery import find_or_none
from parser.speed.tasks.plugin import grid_over

Grid = Mapping[int, Mapping[int, float]]
"""Speed-up over `none` at the same batch size, by value of the setting and batch size."""
PARTS = {CELLS_FORWARD: "modules, forward", STEP: STEP}
COLOURS = "viridis"
"""Colour map in which high values are bright, also in grey."""


class Family(NamedTuple):
    """Comparisons that differ in one setting only."""

    setting: str
    by_value: dict[int, Comparison]


def sections(run: RunRows) -> Iterator[Section]:
    """Yield the grids of each family and method of plugins that name a setting."""
    for family in _families(run):
        comparison = next(iter(family.by_value.values()))
        cell = comparison[0]
        tables, plots = [], {}
        for method, grids in _grids(family).items():
            tables += [_table(f"`{method}`, {PARTS[part]}", family.setting, grids[part]) for part in grids]
            subject = f"{method_title(cell.plugin, method)}, speed-up over no batching"
            title = plot_title(subject, [row for rows in family.by_value.values() for row in rows])
            plots[f"{cell.experiment}-{cell.mode}-{method}-by-{family.setting}"] = _plot(title, family, grids)
        if tables:
            title = f"{cell.experiment}, {cell.mode}, {cell.place}, by {family.setting}"
            yield Section(title, plots, tables)


def _families(run: RunRows) -> Iterator[Family]:
    families: dict[str, Family] = {}
    for comparison in comparisons(run.cells):
        cell = comparison[0]
        plugin = find_or_none(cell.plugin)
        if plugin and (setting := grid_over(plugin)) is not None:
            shared = [getattr(cell, key) for key in COMPARED if key != "experiment"]
            others = {name: value for name, value in cell.settings.items() if name != setting}
            key = json.dumps([*shared, others], sort_keys=True)
            family = families.setdefault(key, Family(setting, {}))
            # If several experiments have the same value, the first is used.
            family.by_value.setdefault(cell.settings[setting], comparison)
    return (family for family in families.values() if len(family.by_value) > 1)


def _grids(family: Family) -> dict[str, dict[str, Grid]]:
    """Return grids by method and part of a step. Methods with one batch size are left out."""
    grids_by_method: dict[str, dict[str, dict[int, Mapping[int, float]]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for value, comparison in sorted(family.by_value.items()):
        for part, by_method in gains_of_parts(comparison).items():
            for method, gains in by_method.items():
                if part in PARTS and gains:
                    grids_by_method[method][part][value] = gains
    return {
        method: dict(grids)
        for method, grids in grids_by_method.items()
        if len(places_of(grids[STEP].values())) > 1
    }


def _table(title: str, setting: str, grid: Grid) -> Table:
    """Return a table with a line for each batch size, the largest first like in the figure."""
    by_size: dict[int, dict[int, float]] = defaultdict(dict)
    for value, gains in grid.items():
        for size, gain in gains.items():
            by_size[size][value] = gain
    lines = [[f"{size:,}", *cells_at(by_size[size], grid, _digits)] for size in sorted(by_size, reverse=True)]
    header = f"{title}: batch size, by {setting}"
    return Table((header, *(f"{value:,}" for value in grid)), lines)


def _plot(title: str, family: Family, grids: Mapping[str, Grid]) -> Figure:
    """Draw a heat map for each part of a step, with a common colour scale."""
    figure = Figure(figsize=(1.5 * WIDTH, HEIGHT), layout="constrained")
    figure.suptitle(title, fontsize=TITLE_SIZE)
    gains = [gain for grid in grids.values() for column in grid.values() for gain in column.values()]
    scale = LogNorm(min(gains), max(gains))
    panels = figure.subplots(1, len(grids), squeeze=False)[0]
    for axes, (part, grid) in zip(panels, grids.items(), strict=True):
        _draw(axes, grid, scale)
        axes.set_title(PARTS[part], fontsize=TITLE_SIZE)
        axes.set_xlabel(family.setting)
        axes.set_ylabel("batch size")
    return figure


def _draw(axes: Axes, grid: Grid, scale: LogNorm) -> None:
    """Draw values from left to right and batch sizes upwards, with a number in each measured place."""
    sizes, values = places_of(grid.values()), list(grid)
    cells = [[grid[value].get(size, float("nan")) for value in values] for size in sizes]
    axes.pcolormesh(cells, cmap=COLOURS, norm=scale, edgecolors="white", linewidth=0.3)
    for row, line in enumerate(cells):
        for column, gain in enumerate(line):
            if gain == gain:
                colour = "white" if scale(gain) < 0.6 else "black"
                middle = (column + 0.5, row + 0.5)
                axes.text(*middle, _digits(gain), ha="center", va="center", color=colour, fontsize=LABEL_SIZE)
    axes.set_xticks([place + 0.5 for place in range(len(values))], [f"{value:,}" for value in values])
    axes.set_yticks([place + 0.5 for place in range(len(sizes))], [f"{size:,}" for size in sizes])


def _digits(gain: float) -> str:
    return f"{gain:.2f}" if gain < 10 else f"{gain:.1f}" if gain < 100 else f"{gain:,.0f}"
