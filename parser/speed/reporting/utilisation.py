"""The utilisation of the machine (MFU) by batch size, and by the size of a network's layers.

See Hwang & Sung 2015, Figure 4.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from matplotlib.axes import Axes

from parser.evaluation.statistics import exactly
from parser.pages.document import Section, Table, cells_at
from parser.pages.plot_style import draw_panels, places_of, scale_by_size
from parser.speed.measuring.cells import COMPARED, Cell
from parser.speed.measuring.rows import SpeedRow
from parser.speed.measuring.run import RunRows
from parser.speed.reporting.speed_ups import MFU, by_method, comparisons
from parser.speed.reporting.titles import method_title, plot_title
from parser.speed.tasks.discovery import find_or_none
from parser.speed.tasks.plugin import NO_BATCHING, layer_sizes

Lines = Mapping[str, Mapping[int, SpeedRow]]
"""Label of a line -> batch size, or size of the layers -> row."""


def sections(run: RunRows) -> Iterator[Section]:
    """Yield a section by batch size for each plugin that has several experiments with several batch sizes.

    A section by layer size follows for networks that differ only in it, named after the first experiment.
    """
    by_batch_size: dict[str, dict[str, Mapping[int, SpeedRow]]] = defaultdict(dict)
    for comparison in comparisons(run.measured):
        methods, cell = by_method(comparison), comparison[0]
        # The method of most batch sizes, or else of highest MFU.
        method = max(methods, key=lambda name: (len(methods[name]), sum(row.mfu for row in methods[name])))
        if len(methods[method]) > 1:
            label = f"{cell.experiment}: {method_title(cell.plugin, method)}"
            line = {row.batch_size: row for row in methods[method]}
            by_batch_size[f"{cell.plugin}, {cell.mode}, {cell.place}"][label] = line
    for title, experiments in by_batch_size.items():
        if len(experiments) > 1:
            yield _section(f"{title}, utilisation", "utilisation of the machine", "batch size", experiments)
    for title, lines in _by_layer_size(run.measured):
        subject = "utilisation of the machine by the size of the layers"
        yield _section(f"{title}, utilisation by layer size", subject, "units of a layer", lines)


def _by_layer_size(rows: Sequence[SpeedRow]) -> Iterator[tuple[str, Lines]]:
    families: dict[str, list[SpeedRow]] = defaultdict(list)
    for row in rows:
        if names := _layer_sizes(row):
            # A size of 0 means that there is no such layer.
            others = {name: bool(value) if name in names else value for name, value in row.settings.items()}
            shared = [getattr(row, key) for key in COMPARED if key != "experiment"]
            families[json.dumps([*shared, others], sort_keys=True)].append(row)
    for own in families.values():
        lines: dict[tuple[int, str], dict[int, SpeedRow]] = defaultdict(dict)
        for row in own:
            # If several experiments have layers of the same size, the first is used.
            size = row.settings[_layer_sizes(row)[0]]
            lines[row.batch_size, row.method].setdefault(size, row)
        first = own[0]
        kept = {
            f"{method_title(first.plugin, method)}, at {batch_size}": lines[batch_size, method]
            for batch_size, method in sorted(
                lines, key=lambda line: (line[0], line[1] != NO_BATCHING, line[1])
            )
            if len(lines[batch_size, method]) > 1
        }
        if kept:
            yield f"{first.experiment}, {first.mode}, {first.place}", kept


def _layer_sizes(cell: Cell) -> Sequence[str]:
    plugin = find_or_none(cell.plugin)
    return layer_sizes(plugin) if plugin else ()


def _section(title: str, subject: str, axis: str, lines: Lines) -> Section:
    curves = {
        label: {place: exactly(line[place].mfu) for place in sorted(line)} for label, line in lines.items()
    }

    def finish(axes: Axes) -> None:
        scale_by_size(axes, curves)
        axes.set_xlabel(axis)
        axes.set_ylabel("MFU: share of the speed of large products")

    rows = [row for line in lines.values() for row in line.values()]
    plot = draw_panels(plot_title(subject, rows), curves, finish)
    places = places_of(lines.values())
    table = Table(
        (f"MFU, at {axis}", *map(str, places)),
        [[label, *cells_at(line, places, lambda row: f"{row.mfu:.3f}")] for label, line in lines.items()],
        MFU,
    )
    return Section(title, {title: plot}, [table])
