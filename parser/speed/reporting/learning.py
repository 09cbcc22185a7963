"""Learning curves, and the epochs to the target by batches in flight (Gaunt et al. 2017, section 6)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parser.evaluation.statistics import Estimate, mean_of
from parser.pages.document import Section, Table, cells_at
from parser.pages.plot_style import REFERENCE, draw_panels, places_of
from parser.speed.measuring.learning import Curve
from parser.speed.measuring.rows import FailedRow
from parser.speed.measuring.run import RunRows
from parser.speed.reporting.asynchrony import ASYNCHRONY, METHOD, line_and_place
from parser.speed.reporting.titles import method_title, plot_title
from parser.speed.tasks.plugin import NO_BATCHING

COLUMNS = (
    *("method", "batch", "epochs", "seconds", f"of those of {NO_BATCHING}"),
    *("seconds for each epoch", "best score", "at epoch"),
)
CONVERGENCE = (
    "Epochs until the target score, and seconds for each epoch of the same runs: the mean, the "
    "lowest and the highest over seeds."
)
Seeds = Sequence[Curve]
"""The learning curves of a method, one for each seed."""


def sections(run: RunRows) -> Iterator[Section]:
    """Yield the learning curves of each experiment, and the convergence of each plugin with several numbers
    of batches in flight.
    """
    curves = [curve for curve in run.learning if isinstance(curve, Curve)]
    for name in dict.fromkeys(curve.experiment for curve in run.learning):
        methods: dict[tuple[str, int], list[Curve]] = defaultdict(list)
        for curve in curves:
            if curve.experiment == name:
                methods[curve.method, curve.batch_size].append(curve)
        failed = [row for row in run.learning if isinstance(row, FailedRow) and row.experiment == name]
        failures = dict.fromkeys(f"{row.method}: {row.status}." for row in failed)
        yield _learning(name, list(methods.values()), list(failures))
    by_plugin: dict[str, dict[str, dict[int, list[Curve]]]] = defaultdict(dict)
    for curve in curves:
        if METHOD.fullmatch(curve.method):
            name, active = line_and_place(curve)
            by_plugin[curve.plugin].setdefault(name, {}).setdefault(active, []).append(curve)
    for plugin, lines in by_plugin.items():
        if several := {name: line for name, line in lines.items() if len(line) > 1}:
            yield _convergence(plugin, several)


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
        _seconds_per_epoch(curves),
        _spread(bests, 4),
        _spread(epochs, 0),
        *(_spread(values, 2) for values in values_of_notes),
    ]


def _seconds_per_epoch(curves: Seeds) -> str:
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


def _convergence(plugin: str, lines: Mapping[str, Mapping[int, Seeds]]) -> Section:
    """Return the section of a plugin. lines: learning curves by experiment and batches in flight."""
    places = places_of(lines.values())
    measures: dict[str, Callable[[Seeds], str]] = {
        "epochs": partial(epochs_to_target, digits=1),
        "seconds for each epoch": _seconds_per_epoch,
    }
    columns = [f"{name}, {ASYNCHRONY.column.format(place)}" for name in measures for place in places]
    rows = [
        [name, *(cell for measure in measures.values() for cell in cells_at(line, places, measure))]
        for name, line in lines.items()
    ]
    epochs = {
        name: {active: mean for active, curves in sorted(line.items()) if (mean := mean_epochs(curves))}
        for name, line in lines.items()
    }

    def finish(axes: Axes) -> None:
        ASYNCHRONY.scale(axes, places)
        axes.set_ylabel("epochs to the target score")

    every = [curve for line in lines.values() for own in line.values() for curve in own]
    title = plot_title("epochs to the target over asynchrony", every)
    plots = {}
    if any(epochs.values()):
        plots[f"{plugin}-convergence"] = draw_panels(title, epochs, finish)
    return Section(f"{plugin}, convergence", plots, [Table(("experiment", *columns), rows)], CONVERGENCE)
