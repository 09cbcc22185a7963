"""The utilisation of the machine (MFU) over batch size (Hwang & Sung 2015, Figure 4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from matplotlib.axes import Axes

from parser.speed.cells import device_title
from parser.speed.document import Heading, Part, Picture, Table
from parser.speed.drawing import Line, draw_panels, scale_by_size, svg
from parser.speed.findings import comparisons
from parser.speed.rows import OK, Row
from parser.speed.statistics import Estimate
from parser.speed.titles import method_title, plot_title

Lines = dict[str, list[Row]]
"""Label of a line -> rows of one experiment by one method, in the order of their batch sizes."""


def utilisation_parts(rows: Sequence[Row]) -> list[Part]:
    """A plot and a table for each plugin that has several experiments with several batch sizes.

    Each experiment is shown by the method with the most batch sizes; of several the one with the highest MFU.
    """
    parts: list[Part] = []
    for plugin, lines in _by_plugin(rows).items():
        if len(lines) > 1:
            title = f"{plugin}, utilisation"
            parts += [Heading(2, title), Picture(title, _drawn(lines)), _table(lines)]
    return parts


def _by_plugin(rows: Sequence[Row]) -> dict[str, Lines]:
    found: dict[str, Lines] = defaultdict(dict)
    for comparison in comparisons([row for row in rows if row["status"] == OK]):
        methods = comparison.by_method()
        method = max(methods, key=lambda name: (len(methods[name]), sum(row["mfu"] for row in methods[name])))
        if len(methods[method]) > 1:
            where = device_title(comparison.device, comparison.threads, comparison.precision)
            title = f"{comparison.plugin}, {comparison.mode}, {where}"
            label = f"{comparison.experiment}: {method_title(comparison.plugin, method)}"
            found[title][label] = methods[method]
    return found


def _drawn(lines: Lines) -> str:
    rows = [row for own in lines.values() for row in own]
    drawn = [
        Line(
            label,
            number,
            [row["batch_size"] for row in own],
            [Estimate(row["mfu"], row["mfu"], row["mfu"]) for row in own],
        )
        for number, (label, own) in enumerate(lines.items())
    ]

    def finish(axes: Axes) -> None:
        scale_by_size(axes, sorted({row["batch_size"] for row in rows}), drawn)
        axes.set_ylabel("MFU: share of the speed of large products")

    return svg(draw_panels(plot_title("utilisation of the machine", rows), drawn, finish))


def _table(lines: Lines) -> Table:
    sizes = sorted({row["batch_size"] for own in lines.values() for row in own})
    cells = []
    for label, own in lines.items():
        shares = {row["batch_size"]: row["mfu"] for row in own}
        cells.append([label, *(f"{shares[size]:.3f}" if size in shares else "" for size in sizes)])
    return Table(("MFU, at batch size", *map(str, sizes)), cells)
