"""What is predicted for GPUs as a page: a table, and a plot of the speeds by batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from parser.speed.measuring.statistics import Estimate, exactly
from parser.speed.reporting.document import Heading, Picture, Table, write_document
from parser.speed.reporting.drawing import PLAIN, draw_panels, svg
from prediction.devices import GPUS

TITLE = "Predicted, not measured"
INTRODUCTION = (
    "Training steps of Ding & Koehn's network on UD English EWT. `launching` and `preparing` are what the "
    "host does, in milliseconds of a step, `on the device` is what the kernels need and what binds most of "
    "them. Sentences per second: with both parts of the host's work one after the other, and side by side "
    "(`prepared ahead`). Of other GPUs and precisions only replay in the largest batches is shown."
)
COLUMNS = (
    *("GPU, precision", "batch", "method", "operators", "launching", "preparing", "on the device"),
    *("sentences/s", "prepared ahead", "binds"),
)
SHOWN = GPUS[0].name, "float32"
"""The device and the precision of which everything is shown."""
Row = Mapping[str, Any]


def write_prediction(rows: Sequence[Row], folder: Path) -> None:
    """Write report.md, plots/ and report.html. rows: as scripts/studies/gpu/predict_gpu.py writes them."""
    largest = max(row["batch_size"] for row in rows)
    table = Table(COLUMNS, [_cells(row) for row in rows if _is_shown(row, largest)])
    plot = Picture("prediction", _plot(rows))
    write_document(TITLE, [Heading(1, TITLE), INTRODUCTION, plot, table], folder)


def _is_shown(row: Row, largest: int) -> bool:
    return _is_first(row) or (row["method"], row["batch_size"]) == ("replay", largest)


def _is_first(row: Row) -> bool:
    return (row["device"], row["precision"]) == SHOWN


def _cells(row: Row) -> list[str]:
    parts = row["milliseconds"]
    return [
        f"{row['device']}, {row['precision']}",
        str(row["batch_size"]),
        row["method"],
        f"{row['calls']:,.0f}",
        f"{parts['launching']:.1f}",
        f"{parts['preparing']:.1f}",
        f"{parts['device']:.1f}, {row['device_binds']}",
        f"{row['sentences_per_second']:,.0f}",
        f"{row['sentences_per_second_side_by_side']:,.0f}",
        row["binds"],
    ]


def _plot(rows: Sequence[Row]) -> str:
    own = [row for row in rows if _is_first(row)]
    sizes = sorted({row["batch_size"] for row in own})
    curves: dict[str, dict[int, Estimate]] = {}
    for row in own:
        curves.setdefault(row["method"], {})[row["batch_size"]] = exactly(row["sentences_per_second"])

    def finish(axes: Axes) -> None:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xlabel("batch size")
        axes.yaxis.set_major_formatter(PLAIN)
        axes.set_ylabel("sentences per second")

    device, precision = SHOWN
    return svg(
        draw_panels(f"Predicted: training on an {device}, {precision}, UD English EWT", curves, finish)
    )
