"""The part of a report about learning curves: when the target was reached, and the best score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from matplotlib.axes import Axes

from parser.plugins import NO_BATCHING
from parser.speed.document import Heading, Part, Picture, Table
from parser.speed.drawing import REFERENCE, Line, draw_panels, svg
from parser.speed.learning import Reached, by_experiment, reached
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
        done = _by_method([row for row in own if row["status"] == OK])
        parts.append(Heading(2, f"{name}, learning"))
        if done:
            target = f"{done[0][0]['target']:g}"
            text = f"Epochs and seconds until the score is {target}; {_number_of_runs(done)}."
            parts += [text, Picture(f"{name}-learning", _drawn(name, done)), _table(done)]
        failed = dict.fromkeys(f"{row['method']}: {row['status']}." for row in own if row["status"] != OK)
        parts += failed
    return parts


def _number_of_runs(methods: Sequence[Sequence[Row]]) -> str:
    runs = max(map(len, methods))
    if runs == 1:
        return "one run of each method"
    return f"the mean, the lowest and the highest of {runs} runs of each method, with different seeds"


def _by_method(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of all seeds of a method, for each."""
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row["method"], row["batch_size"]), []).append(row)
    return list(found.values())


def mean_of(values: Sequence[float]) -> Estimate:
    """With the lowest and the highest as bounds."""
    return Estimate(sum(values) / len(values), min(values), max(values))


def spread(values: Sequence[float], form: str) -> str:
    """The mean, the lowest and the highest; a single value by itself."""
    mean, low, high = (form.format(value) for value in mean_of(values))
    return mean if len(values) == 1 else f"{mean} [{low}, {high}]"


def over_seeds(rows: Sequence[Row], value: Callable[[Reached], float], form: str) -> str:
    """A figure of the runs that reached the target, and how many did if not all."""
    values = [value(found) for row in rows if (found := reached(row))]
    if len(values) == len(rows):
        return spread(values, form)
    if not values:
        return f"not in {max(len(row['scores']) for row in rows)}"
    return f"{spread(values, form)}, {len(values)} of {len(rows)} runs"


def _table(methods: Sequence[Sequence[Row]]) -> Table:
    unbatched = next((rows for rows in methods if rows[0]["method"] == NO_BATCHING), [])
    notes = list(dict.fromkeys(note for rows in methods for row in rows for note in row.get("notes", ())))
    return Table((*COLUMNS, *notes), [_cells(rows, unbatched, notes) for rows in methods])


def _cells(rows: Sequence[Row], unbatched: Sequence[Row], notes: Sequence[str]) -> list[str]:
    ends = [found for row in rows if (found := reached(row))]
    unbatched_ends = [found for row in unbatched if (found := reached(row))]
    share = ""
    if unbatched and len(ends) == len(rows) and len(unbatched_ends) == len(unbatched):
        seconds, unbatched_seconds = (mean_of([end.seconds for end in own]) for own in (ends, unbatched_ends))
        share = f"{seconds.value / unbatched_seconds.value:.2f}"
    bests = [max(row["scores"]) for row in rows]
    return [
        rows[0]["method"],
        str(rows[0]["batch_size"]),
        over_seeds(rows, lambda found: found.epochs, "{:.0f}" if len(rows) == 1 else "{:.1f}"),
        spread([end.seconds for end in ends], "{:.1f}") if ends else "",
        share,
        spread([sum(row["seconds"]) / len(row["seconds"]) for row in rows], "{:.2f}"),
        spread(bests, "{:.4f}"),
        spread([1 + row["scores"].index(best) for row, best in zip(rows, bests, strict=True)], "{:.0f}"),
        *(_note(rows, note) for note in notes),
    ]


def _note(rows: Sequence[Row], note: str) -> str:
    values = [row["notes"][note] for row in rows if note in row.get("notes", ())]
    return spread(values, "{:.2f}") if values else ""


def _by_epoch(curves: Sequence[Sequence[float]]) -> Iterator[tuple[float, ...]]:
    """The values of all runs, for each epoch that all of them have."""
    return zip(*curves, strict=False)


def _drawn(name: str, methods: Sequence[Sequence[Row]]) -> str:
    lines = [
        Line(
            method_title(rows[0]["plugin"], rows[0]["method"]),
            number,
            [mean_of(ends).value for ends in _by_epoch([list(accumulate(row["seconds"])) for row in rows])],
            [mean_of(scores) for scores in _by_epoch([row["scores"] for row in rows])],
        )
        for number, rows in enumerate(methods)
    ]
    first = methods[0][0]

    def finish(axes: Axes) -> None:
        axes.axhline(first["target"], label=f"target: {first['target']:g}", **REFERENCE)
        axes.set_xlabel("seconds of training")
        axes.set_ylabel("score on held-out examples")
        axes.grid(True, color="0.9")

    every = [row for rows in methods for row in rows]
    return svg(draw_panels(plot_title(f"{name}, learning curves", every), lines, finish))
