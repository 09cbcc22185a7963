"""The part of a report about learning curves: when the target was reached, and the best score."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from matplotlib.axes import Axes

from parser.plugins import NO_BATCHING
from parser.speed.document import Heading, Part, Picture, Table
from parser.speed.drawing import REFERENCE, Line, draw_panels, svg
from parser.speed.learning import by_experiment, reached
from parser.speed.rows import OK, Row
from parser.speed.statistics import Estimate
from parser.speed.titles import method_title, plot_title

COLUMNS = (
    "method",
    "batch",
    "epochs",
    "seconds",
    f"of those of {NO_BATCHING}",
    "seconds for each epoch",
    "best score",
    "at epoch",
)


def learning_parts(rows: Sequence[Row]) -> list[Part]:
    parts: list[Part] = []
    for name, own in by_experiment(rows).items():
        done = [row for row in own if row["status"] == OK]
        parts.append(Heading(2, f"{name}, learning"))
        if done:
            target = f"{done[0]['target']:g}"
            text = f"Epochs and seconds until the score is {target}; one run of each method."
            parts += [text, Picture(f"{name}-learning", _drawn(name, done)), _table(done)]
        parts += [f"{row['method']}: {row['status']}." for row in own if row["status"] != OK]
    return parts


def _table(rows: Sequence[Row]) -> Table:
    unbatched = next(
        (found for row in rows if row["method"] == NO_BATCHING and (found := reached(row))), None
    )
    notes = list(dict.fromkeys(note for row in rows for note in row.get("notes", ())))
    cells = []
    for row in rows:
        found = reached(row)
        share = f"{found.seconds / unbatched.seconds:.2f}" if found and unbatched else ""
        cells.append(
            [
                row["method"],
                str(row["batch_size"]),
                str(found.epochs) if found else f"not in {len(row['scores'])}",
                f"{found.seconds:.1f}" if found else "",
                share,
                f"{sum(row['seconds']) / len(row['seconds']):.2f}",
                f"{(best := max(row['scores'])):.4f}",
                str(1 + row["scores"].index(best)),
                *(f"{row['notes'][note]:.2f}" if note in row.get("notes", ()) else "" for note in notes),
            ]
        )
    return Table((*COLUMNS, *notes), cells)


def _drawn(name: str, rows: Sequence[Row]) -> str:
    lines = [
        Line(
            method_title(row["plugin"], row["method"]),
            number,
            list(accumulate(row["seconds"])),
            [Estimate(score, score, score) for score in row["scores"]],
        )
        for number, row in enumerate(rows)
    ]

    def finish(axes: Axes) -> None:
        axes.axhline(rows[0]["target"], label=f"target: {rows[0]['target']:g}", **REFERENCE)
        axes.set_xlabel("seconds of training")
        axes.set_ylabel("score on held-out examples")
        axes.grid(True, color="0.9")

    return svg(draw_panels(plot_title(f"{name}, learning curves", rows), lines, finish))
