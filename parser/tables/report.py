"""The report of a table: its rows and plots, as Markdown and as a single HTML file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator
from scipy.special import stdtrit

from parser.config.file import flat
from parser.evaluation.measures import MEASURES, TEXT_MEASURES
from parser.evaluation.statistics import exactly, mean_of
from parser.pages.document import MARKDOWN, Heading, Part, Picture, Table, write_document
from parser.pages.plot_style import PLAIN, REFERENCE, draw_panels, places_of
from parser.training.runs import Job, Row
from parser.training.table import PlotSettings, TableConfig


def difference(ours: Mapping[int, float], theirs: Mapping[int, float]) -> str:
    """The mean difference of scores with equal seeds, with its 95 % interval, as text.

    The interval assumes normally distributed differences. ours, theirs: scores by seed.
    """
    found = [score - theirs[seed] for seed, score in ours.items() if seed in theirs]
    if not found:
        return "no common seed"
    if len(found) == 1:
        return f"{found[0]:+.2f}, one seed"
    quantile = float(stdtrit(len(found) - 1, 0.975))  # of Student's t
    half = quantile * stdev(found) / len(found) ** 0.5
    middle = mean(found)
    return f"{middle:+.2f} [{middle - half:+.2f}, {middle + half:+.2f}], {len(found)} seeds"


MINUTE = 60.0
COMMIT_DIGITS = 7
Rows = dict[str, list[Row]]
"""Maps the name of a row to its runs, one for each seed."""


def write_table(table: TableConfig, done: dict[Job, Row], folder: Path) -> Path:
    """Write report.md, plots/ and report.html for the runs that are done. Returns the path of report.md."""
    rows: Rows = {name: [] for name in table.all_rows}
    for job, row in done.items():  # not the row's config: older rows lack later settings
        rows[job.name].append({**row, "seed": job.seed, "config": job.config.model_dump(mode="json")})
    rows = {name: own for name, own in rows.items() if own}
    if table.search:
        rows = dict(sorted(rows.items(), key=lambda row: -mean(run["dev"]["las"] for run in row[1])))
    parts: list[Part] = [Heading(1, table.title), *_introduction(table, rows), _table(table, rows)]
    if rows:
        if table.plot:
            parts.append(Picture("test-las", _over_setting(table, table.plot, rows)))
        with_dev = {name: own for name, own in rows.items() if all(run["dev"] for run in own)}
        if len(_machines(own[0] for own in with_dev.values())) == 1:  # otherwise times are not comparable
            parts.append(Picture("time", _over_time(table, with_dev)))
    write_document(table.title, parts, folder)
    return folder / MARKDOWN


def _introduction(table: TableConfig, rows: Rows) -> list[Part]:
    runs = [run for own in rows.values() for run in own]
    bases = " or ".join(dict.fromkeys(f"`{row.base or table.base}`" for row in table.all_rows.values()))
    values = {  # as written in a config
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in table.set.items()
    }
    common = "".join(f"`{key}: {value}` and " for key, value in values.items())
    together = ""  # unknown for older runs
    if runs and all("together" in run for run in runs):
        most = max(run["together"] for run in runs)
        together = f", up to {most} at the same time," if most > 1 else ", one after the other,"
    text = (
        f"Every row is {bases} with {common}some settings changed; {len(runs)} runs{together} "
        f"on {', '.join(_machines(runs)) or 'no machine yet'}. "
        "Scores are those of the epoch that was best on dev (`training.best_by`), or of the last one without "
        "dev. "
        "For several seeds the mean is given, with the lowest and the highest in brackets. Differences are "
        "between runs with equal seeds: their mean, its 95 % interval and the number of seeds. One seed does "
        "not show whether a difference is due to chance. Minutes include the evaluation on dev. Seconds to a "
        "dev LAS are medians; they include the preparation of the treebanks, from the cache if it has them."
    )
    missing = [
        name for name, row in table.all_rows.items() if len(rows.get(name, [])) < (row.seeds or table.seeds)
    ]
    return [text, *([f"Incomplete: {', '.join(missing)}."] if missing else [])]


def _machines(runs: Iterable[Row]) -> list[str]:
    """The names of the processors or GPUs of the runs."""
    return sorted({run["machine"]["cpu"] if run["device"] == "cpu" else run["device"] for run in runs})


def _table(table: TableConfig, rows: Rows) -> Table:
    columns: dict[str, Callable[[list[Row]], str]] = {
        f"{split} {MEASURES[measure]}": partial(_score, split=split, measure=measure)
        for split in ("dev", "test")
        for measure in table.measures
    }
    columns |= {
        f"text {TEXT_MEASURES[measure]}": partial(_score, split="text", measure=measure)
        for measure in table.text_measures
    }
    if len({table.all_rows[name].base for name in rows}) > 1:
        bases = {id(own): table.all_rows[name].base or table.base for name, own in rows.items()}
        columns = {"config": lambda own: bases[id(own)], **columns}
    if table.baseline in rows:
        base = rows[table.baseline]
        columns[f"test LAS minus {table.baseline}"] = lambda own: _difference(own, base)
    if any(map(_crossing_recall, rows.values())):
        columns["crossing arcs found"] = _crossing_recall
    columns |= {
        "best epoch": lambda own: _range([run["best_epoch"] for run in own], "{:.0f}"),
        "epochs": lambda own: _range([run["epochs"] for run in own], "{:.0f}"),
        "minutes": lambda own: _range([run["seconds"] / MINUTE for run in own], "{:.1f}"),
    }
    for target in table.targets:
        columns[f"seconds to dev LAS {target:g}"] = partial(_time_to, target=target)
    columns["commit"] = lambda own: ", ".join(
        dict.fromkeys((run["commit"] or "unknown")[:COMMIT_DIGITS] for run in own)
    )
    lines = [[name, *(cell(own) for cell in columns.values())] for name, own in rows.items()]
    return Table(["", *columns], lines)


def _score(runs: Sequence[Row], split: str, measure: str, form: str = "{:.2f}") -> str:
    return _range([run[split][measure] for run in runs if run.get(split)], form)


def _range(values: Sequence[float], form: str, middle_of: Callable[[Sequence[float]], float] = mean) -> str:
    """The mean, or another average; if the values differ, also the lowest and the highest value."""
    if not values:
        return ""
    middle, low, high = (form.format(statistic(values)) for statistic in (middle_of, min, max))
    return middle if low == high else f"{middle} ({low}, {high})"


def _crossing_recall(runs: Sequence[Row]) -> str:
    """The share of the non-projective arcs in test whose head is correct, as text."""
    every = max((run["test"]["crossing_arcs"] for run in runs if run["test"]), default=0)
    return f"{_score(runs, 'test', 'crossing_recall', '{:.0f}')} % of {every}" if every else ""


def _difference(runs: Sequence[Row], base: Sequence[Row]) -> str:
    """The difference of test LAS, as text; empty for the base itself."""
    ours, theirs = ({run["seed"]: run["test"]["las"] for run in own if run["test"]} for own in (runs, base))
    return difference(ours, theirs) if runs is not base and ours and theirs else ""


def _time_to(runs: Sequence[Row], target: float) -> str:
    """Seconds until a dev LAS, the median of the seeds; `never` if a run did not reach it."""
    times = []
    for run in runs:
        if not run["dev"]:
            return ""
        reached = [MINUTE * time for time, las in _progress(run) if las >= target]
        if not reached:
            return "never"
        times.append(reached[0])
    return _range(times, "{:.0f}", median)


def _progress(run: Row) -> list[tuple[float, float]]:
    """Minutes and dev LAS at the end of each epoch. Older rows lack the preparation time."""
    seconds = (epoch["seconds"] + epoch.get("preparation_seconds", 0.0) for epoch in run["curve"])
    minutes = accumulate(second / MINUTE for second in seconds)
    return [(time, epoch["dev_las"]) for time, epoch in zip(minutes, run["curve"], strict=True)]


def _over_setting(table: TableConfig, plot: PlotSettings, rows: Rows) -> Figure:
    """A plot of test LAS over a setting: the mean, the lowest and the highest value over the seeds."""
    scores: dict[str, dict[float, list[float]]] = {}
    for run in (run for own in rows.values() for run in own if run["test"]):
        values = flat(run["config"])
        x, line = values[plot.x], str(values[plot.lines])
        scores.setdefault(line, {}).setdefault(x, []).append(run["test"]["las"])
    curves = {
        f"{_in_words(plot.lines)}: {line}": {x: mean_of(own) for x, own in sorted(points.items())}
        for line, points in scores.items()
    }

    def finish(axes: Axes) -> None:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(places_of(scores.values())))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(PLAIN)
        axes.set_xlabel(_in_words(plot.x))
        axes.set_ylabel("test LAS, mean and range of the seeds")
        axes.grid(True, color="0.9")

    return draw_panels(f"{table.title}\ntest LAS", curves, finish)


def _in_words(key: str) -> str:
    return key.rsplit(".", 1)[-1].replace("_", " ")


def _over_time(table: TableConfig, rows: Rows) -> Figure:
    """A plot of dev LAS over training time with a line for each run; later seeds of a row are paler."""
    # The settings of a trial are in the table; they are too long for a legend.
    labels = {name: name if name in table.rows else name.partition(":")[0] for name in rows}
    curves = {
        labels[name]: {time: exactly(las) for time, las in _progress(own[0])} for name, own in rows.items()
    }
    others = {labels[name]: own[1:] for name, own in rows.items()}
    seeds = max(map(len, rows.values()))

    def finish(axes: Axes) -> None:
        for drawn, label in zip(*axes.get_legend_handles_labels(), strict=True):
            for run in others[label]:
                axes.plot(*zip(*_progress(run), strict=True), **_paler(drawn))
        for number, target in enumerate(table.targets):
            label = f"target: {', '.join(f'{each:g}' for each in table.targets)}"
            axes.axhline(target, label=None if number else label, **REFERENCE)
        axes.set_xscale("log")  # the first epochs are close together, and so are rows that end early
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(PLAIN)
        axes.set_xlabel("minutes of training")
        axes.set_ylabel("dev LAS")
        axes.grid(True, color="0.9")

    runs = "one seed" if seeds == 1 else f"all runs of up to {seeds} seeds, the first with markers"
    return draw_panels(f"{table.title}\ndev LAS over training time, {runs}", curves, finish)


def _paler(drawn: Any) -> dict[str, Any]:
    """The style of a line drawn by `Axes.errorbar`, paler and without markers."""
    line = drawn[0]
    return {"color": line.get_color(), "linestyle": line.get_linestyle(), "linewidth": 1, "alpha": 0.5}
