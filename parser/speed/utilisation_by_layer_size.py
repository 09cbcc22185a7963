"""The utilisation of the machine (MFU) over the size of a network's layers (Hwang & Sung 2015, Figure 4)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from parser.plugins import NO_BATCHING, layer_sizes
from parser.speed.cells import COMPARED, device_title
from parser.speed.discovery import find_or_none
from parser.speed.document import Heading, Part, Picture, Table
from parser.speed.drawing import Line, draw_panels, scale_by_size, svg
from parser.speed.rows import OK, Row
from parser.speed.statistics import Estimate
from parser.speed.titles import method_title, plot_title


class Family(NamedTuple):
    """Networks that differ only in the sizes of their layers, on one device."""

    title: str
    lines: Mapping[tuple[int, str], Mapping[int, Row]]
    """Batch size and method -> size of the layers -> row. Each has at least two sizes."""

    @property
    def rows(self) -> list[Row]:
        return [row for by_size in self.lines.values() for row in by_size.values()]

    @property
    def sizes(self) -> list[int]:
        return sorted({size for by_size in self.lines.values() for size in by_size})


def utilisation_by_layer_size_parts(rows: Sequence[Row]) -> list[Part]:
    """A plot and a table for each family. It is named after its first experiment."""
    parts: list[Part] = []
    for family in _families(rows):
        title = f"{family.title}, utilisation by layer size"
        parts += [Heading(2, title), Picture(title, _drawn(family)), _table(family)]
    return parts


def _families(rows: Sequence[Row]) -> list[Family]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["status"] == OK and (names := _layer_sizes(row)):
            # A size of 0 means that there is no such layer.
            others = {
                name: bool(value) if name in names else value for name, value in row["settings"].items()
            }
            shared = [row[key] for key in COMPARED if key != "experiment"]
            found[json.dumps([*shared, others], sort_keys=True)].append(row)
    families = []
    for own in found.values():
        lines: dict[tuple[int, str], dict[int, Row]] = defaultdict(dict)
        for row in own:
            # Of several experiments with layers of one size, the first counts.
            lines[row["batch_size"], row["method"]].setdefault(_size(row), row)
        kept = {key: lines[key] for key in sorted(lines, key=_order) if len(lines[key]) > 1}
        if kept:
            where = device_title(own[0]["device"], own[0]["threads"], own[0]["precision"])
            title = f"{own[0]['experiment']}, {own[0]['mode']}, {where}"
            families.append(Family(title, kept))
    return families


def _order(line: tuple[int, str]) -> tuple[int, bool, str]:
    batch_size, method = line
    return batch_size, method != NO_BATCHING, method


def _layer_sizes(row: Row) -> Sequence[str]:
    plugin = find_or_none(row["plugin"])
    return layer_sizes(plugin) if plugin else ()


def _size(row: Row) -> int:
    return row["settings"][_layer_sizes(row)[0]]


def _label(row: Row) -> str:
    return f"{method_title(row['plugin'], row['method'])}, at {row['batch_size']}"


def _drawn(family: Family) -> str:
    drawn = []
    for number, by_size in enumerate(family.lines.values()):
        sizes = sorted(by_size)
        shares = [by_size[size]["mfu"] for size in sizes]
        estimates = [Estimate(share, share, share) for share in shares]
        drawn.append(Line(_label(by_size[sizes[0]]), number, sizes, estimates))

    def finish(axes: Axes) -> None:
        scale_by_size(axes, family.sizes, drawn)
        axes.set_xlabel("units of a layer")
        axes.set_ylabel("MFU: share of the speed of large products")

    title = plot_title("utilisation of the machine by the size of the layers", family.rows)
    return svg(draw_panels(title, drawn, finish))


def _table(family: Family) -> Table:
    cells = []
    for by_size in family.lines.values():
        shares = [f"{by_size[size]['mfu']:.3f}" if size in by_size else "" for size in family.sizes]
        cells.append([_label(next(iter(by_size.values()))), *shares])
    return Table(("MFU, at units of a layer", *map(str, family.sizes)), cells)
