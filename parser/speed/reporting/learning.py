"""Learning curves: the scores of methods over the seconds of training."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parser.evaluation.statistics import Estimate, mean_of
from parser.pages.document import Section, Table
from parser.pages.plot_style import REFERENCE, draw_panels
from parser.speed.measuring.learning import Curve
from parser.speed.measuring.run import RunRows
from parser.speed.reporting.titles import method_title, plot_title
from parser.speed.tasks.plugin import NO_BATCHING

COLUMNS = (
    *("method", "batch", "epochs", "seconds", f"of those of {NO_BATCHING}"),
    *("seconds for each epoch", "best score", "at epoch"),
)
Seeds = Sequence[Curve]
"""The learning curves of a method, one for each seed."""


def sections(run: RunRows) -> Iterator[Section]:
    """Yield the learning curves of each experiment."""
    for name in dict.fromkeys(row.experiment for row in run.learning):
        methods: dict[tuple[str, int], list[Curve]] = defaultdict(list)
        failures: dict[str, None] = {}  # each once, in order
        for row in run.learning:
            if row.experiment == name and isinstance(row, Curve):
                methods[row.method, row.batch_size].append(row)
            elif row.experiment == name:
                failures[f"{row.method}: {row.status}."] = None
        yield _learning(name, list(methods.values()), list(failures))


def _learning(name: str, methods: Sequence[Seeds], failures: Sequence[str]) -> Section:
    title = f"{name}, learning"
    if not methods:
        return Section(title, {}, [], failures=failures)
    runs = max(map(len, methods))
    number = "one run of each method"
    if runs > 1:
        number = f"the mean, the lowest and the highest of {runs} runs of each method, with different seeds"
    text = f"Epochs and seconds until the score is {methods[0][0].target:g}; {number}."
    unbatched = next((own for own in methods if own[0].method == NO_BATCHING), [])
    notes = list(dict.fromkeys(note for own in methods for curve in own for note in curve.notes))
    table = Table((*COLUMNS, *notes), [_cells(own, unbatched, notes) for own in methods])
    return Section(title, {f"{name}-learning": _learning_plot(name, methods)}, [table], text, failures)


def _learning_plot(name: str, methods: Sequence[Seeds]) -> Figure:
    """Plot the scores over the epochs that all seeds of a method have in common."""
    curves = {}
    for own in methods:
        ends = zip(*(accumulate(curve.seconds) for curve in own), strict=False)
        scores = zip(*(curve.scores for curve in own), strict=False)
        label = method_title(own[0].plugin, own[0].method)
        curves[label] = {mean_of(end).value: mean_of(each) for end, each in zip(ends, scores, strict=True)}
    target = methods[0][0].target

    def finish(axes: Axes) -> None:
        axes.axhline(target, label=f"target: {target:g}", **REFERENCE)
        axes.set_xlabel("seconds of training")
        axes.set_ylabel("score on held-out examples")
        axes.grid(True, color="0.9")

    every = [curve for own in methods for curve in own]
    return draw_panels(plot_title(f"{name}, learning curves", every), curves, finish)


def _cells(curves: Seeds, unbatched: Seeds, notes: Sequence[str]) -> list[str]:
    seconds, unbatched_seconds = (
        [reached.seconds for curve in own if (reached := curve.reached)] for own in (curves, unbatched)
    )
    share = ""
    if unbatched and len(seconds) == len(curves) and len(unbatched_seconds) == len(unbatched):
        share = f"{mean_of(seconds).value / mean_of(unbatched_seconds).value:.2f}"
    bests = [max(curve.scores) for curve in curves]
    epochs = [1 + curve.scores.index(best) for curve, best in zip(curves, bests, strict=True)]
    values_of_notes = [[curve.notes[note] for curve in curves if note in curve.notes] for note in notes]
    return [
        curves[0].method,
        str(curves[0].batch_size),
        epochs_to_target(curves, 0 if len(curves) == 1 else 1),
        _spread(seconds, 1) if len(seconds) == len(curves) else "",
        share,
        seconds_per_epoch(curves),
        _spread(bests, 4),
        _spread(epochs, 0),
        *(_spread(values, 2) for values in values_of_notes),
    ]


def seconds_per_epoch(curves: Seeds) -> str:
    return _spread([sum(curve.seconds) / len(curve.seconds) for curve in curves], 2)


def _spread(values: Sequence[float], digits: int) -> str:
    """Return the mean, the lowest and the highest value as text; a single value is shown alone."""
    if not values:
        return ""
    mean, low, high = (f"{value:.{digits}f}" for value in mean_of(values))
    return mean if len(values) == 1 else f"{mean} [{low}, {high}]"


def epochs_to_target(curves: Seeds, digits: int) -> str:
    """Return the epochs of the runs that reached the target, and their number if not all did."""
    epochs = [reached.epochs for curve in curves if (reached := curve.reached)]
    if not epochs:
        return f"not in {max(len(curve.scores) for curve in curves)}"
    share = "" if len(epochs) == len(curves) else f", {len(epochs)} of {len(curves)} runs"
    return _spread(epochs, digits) + share


def mean_epochs(curves: Seeds) -> Estimate | None:
    """Return the mean number of epochs to the target, with the lowest and the highest, if all runs reached it
    and there is at least one.
    """
    epochs = [reached.epochs for curve in curves if (reached := curve.reached)]
    return mean_of(epochs) if epochs and len(epochs) == len(curves) else None
