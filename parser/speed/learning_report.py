"""What a report says of learning: how soon a target was reached, and how good it became."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from matplotlib.figure import Figure

from parser.plugins import NO_BATCHING
from parser.speed.document import Heading, Part, Picture, Table
from parser.speed.figures import HEIGHT, WIDTH, look_of, svg
from parser.speed.learning import by_experiment, reached
from parser.speed.rows import OK, Row

COLUMNS = (
    "method",
    "batch",
    "epochs",
    "seconds",
    f"of {NO_BATCHING}'s",
    "seconds an epoch",
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
            told = f"Epochs and seconds until the score is {target}; one run of each, one after the other."
            parts += [told, Picture(f"{name}-learning", _drawn(name, done)), _table(done)]
        parts += [f"{row['method']}: {row['status']}." for row in own if row["status"] != OK]
    return parts


def _table(rows: Sequence[Row]) -> Table:
    plain = next((found for row in rows if row["method"] == NO_BATCHING and (found := reached(row))), None)
    notes = list(dict.fromkeys(note for row in rows for note in row.get("notes", ())))
    cells = []
    for row in rows:
        found = reached(row)
        share = f"{found.seconds / plain.seconds:.2f}" if found and plain else ""
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
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    for number, row in enumerate(rows):
        axes.plot(
            list(accumulate(row["seconds"])),
            row["scores"],
            label=row["method"],
            markersize=4,
            **look_of(number),
        )
    axes.axhline(rows[0]["target"], color="0.5", linewidth=1)
    axes.set_title(f"{name}, learning", fontsize=10)
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("score on held-out examples")
    axes.grid(True, color="0.9")
    axes.legend(fontsize=8)
    return svg(figure)
