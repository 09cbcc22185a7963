"""A table of runs and its plots, as Markdown and as one HTML file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from parser.config_file import flat
from parser.speed.document import PLOTS, Heading, Part, Picture, Table, as_html, as_markdown
from parser.speed.figures import HEIGHT, PLAIN, WIDTH, draw_line, look_of, svg
from parser.speed.statistics import Estimate
from parser.tables.differences import difference
from parser.tables.runs import Job, Row
from parser.tables.settings import PlotSettings, TableConfig

MARKDOWN, HTML = "report.md", "report.html"
MINUTE = 60.0
COMMIT_DIGITS = 7
Rows = dict[str, list[Row]]
"""Each row's runs, one for each seed, by the row's name."""


def write_table(table: TableConfig, done: dict[Job, Row], folder: Path) -> Path:
    """Write report.md, plots/ and report.html for what is done so far; returns the first's path."""
    rows: Rows = {name: [] for name in table.rows}
    for job, row in done.items():  # older rows lack settings that came since
        rows[job.name].append({**row, "seed": job.seed, "config": job.config.model_dump(mode="json")})
    rows = {name: own for name, own in rows.items() if own}
    parts: list[Part] = [Heading(1, table.title), *_introduction(table, rows), _table(table, rows)]
    if table.plot:
        parts.append(Picture("test-las", _over_setting(table.plot, rows)))
    parts.append(Picture("time", _over_time(table, rows)))
    (folder / PLOTS).mkdir(parents=True, exist_ok=True)
    for part in parts:
        if isinstance(part, Picture):
            (folder / PLOTS / f"{part.name}.svg").write_text(part.svg, encoding="utf-8")
    (folder / HTML).write_text(as_html(table.title, parts), encoding="utf-8")
    (folder / MARKDOWN).write_text(as_markdown(parts), encoding="utf-8")
    return folder / MARKDOWN


def _introduction(table: TableConfig, rows: Rows) -> list[Part]:
    runs = [run for own in rows.values() for run in own]
    machines = sorted({run["machine"]["cpu"] if run["device"] == "cpu" else run["device"] for run in runs})
    common = "".join(f"`{key}: {value}` and " for key, value in table.set.items())
    text = (
        f"Every row is `{table.base}` with {common}some settings changed; {len(runs)} runs{_together(runs)} "
        f"on {', '.join(machines) or 'no machine yet'}. Scores are those of the epoch with the best dev LAS; "
        "of several seeds the mean, and in brackets the lowest and the highest. Differences are of equal "
        "seeds: their mean, its 95 % interval and their number; one seed says nothing about chance. Minutes "
        "are of training and of looking at dev."
    )
    missing = [
        name for name in table.rows if len(rows.get(name, [])) < (table.rows[name].seeds or table.seeds)
    ]
    return [text, *([f"Not yet whole: {', '.join(missing)}."] if missing else [])]


def _together(runs: Sequence[Row]) -> str:
    """How many there were at a time, if all know it."""
    if not runs or not all("together" in run for run in runs):
        return ""
    most = max(run["together"] for run in runs)
    return f", up to {most} at the same time," if most > 1 else ", one after the other,"


def _table(table: TableConfig, rows: Rows) -> Table:
    columns: dict[str, Callable[[list[Row]], str]] = {
        "dev UAS": lambda own: _score(own, "dev", "uas"),
        "dev LAS": lambda own: _score(own, "dev", "las"),
        "test UAS": lambda own: _score(own, "test", "uas"),
        "test LAS": lambda own: _score(own, "test", "las"),
    }
    if table.baseline in rows:
        base = rows[table.baseline]
        columns[f"test LAS beside {table.baseline}"] = lambda own: _difference(own, base)
    if any(map(_crossing_found, rows.values())):
        columns["crossing arcs found"] = _crossing_found
    columns |= {
        "best epoch": lambda own: _range([run["best_epoch"] for run in own], "{:.0f}"),
        "epochs": lambda own: _range([run["epochs"] for run in own], "{:.0f}"),
        "minutes": lambda own: _range([run["seconds"] / MINUTE for run in own], "{:.1f}"),
    }
    if table.target is not None:
        target = table.target
        columns[f"to dev LAS {target:g}"] = lambda own: _time_to(own, target)
    columns["commit"] = lambda own: ", ".join(dict.fromkeys(_commit(run) for run in own))
    lines = [[name, *(cell(own) for cell in columns.values())] for name, own in rows.items()]
    return Table(["", *columns], lines)


def _score(runs: Sequence[Row], split: str, measure: str, form: str = "{:.2f}") -> str:
    return _range([run[split][measure] for run in runs if run[split]], form)


def _range(values: Sequence[float], form: str) -> str:
    """Their mean, and if they differ the lowest and the highest."""
    if not values:
        return ""
    mean = form.format(sum(values) / len(values))
    low, high = (form.format(bound(values)) for bound in (min, max))
    return mean if low == high else f"{mean} ({low}, {high})"


def _crossing_found(runs: Sequence[Row]) -> str:
    """Of the non-projective arcs of test those that have the right head."""
    every = max((run["test"]["crossing_arcs"] for run in runs if run["test"]), default=0)
    return f"{_score(runs, 'test', 'crossing_recall', '{:.0f}')} % of {every}" if every else ""


def _commit(run: Row) -> str:
    return (run["commit"] or "unknown")[:COMMIT_DIGITS]


def _difference(runs: Sequence[Row], base: Sequence[Row]) -> str:
    """In test LAS."""
    ours, theirs = ({run["seed"]: run["test"]["las"] for run in own if run["test"]} for own in (runs, base))
    return difference(ours, theirs) if runs is not base and ours and theirs else ""


def _time_to(runs: Sequence[Row], target: float) -> str:
    """Minutes; `never` if a run did not come there."""
    times = []
    for run in runs:
        reached = [time for time, las in _progress(run) if las >= target]
        if not reached:
            return "never"
        times.append(reached[0])
    return _range(times, "{:.1f}")


def _progress(run: Row) -> list[tuple[float, float]]:
    """Minutes and dev LAS at the end of each epoch."""
    minutes = accumulate(epoch["seconds"] / MINUTE for epoch in run["curve"])
    return [(time, epoch["dev_las"]) for time, epoch in zip(minutes, run["curve"], strict=True)]


def _over_setting(plot: PlotSettings, rows: Rows) -> str:
    figure, axes = _figure()
    lines: dict[str, dict[float, list[float]]] = {}
    for run in (run for own in rows.values() for run in own if run["test"]):
        values = flat(run["config"])
        x, line = values[plot.x], str(values[plot.lines])
        lines.setdefault(line, {}).setdefault(x, []).append(run["test"]["las"])
    for number, (line, points) in enumerate(lines.items()):
        places = sorted(points)
        scores = [points[x] for x in places]
        name = f"{plot.lines.rsplit('.', 1)[-1]} {line}".replace("_", " ")
        means = [Estimate(sum(own) / len(own), min(own), max(own)) for own in scores]
        draw_line(axes, number, name, places, means)
    every = sorted({x for points in lines.values() for x in points})
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(every))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(PLAIN)
    axes.set_xlabel(plot.x.rsplit(".", 1)[-1].replace("_", " "))
    axes.set_ylabel("test LAS")
    axes.legend(fontsize=8)
    return svg(figure)


def _over_time(table: TableConfig, rows: Rows) -> str:
    """Of each row the lowest seed that is done."""
    figure, axes = _figure()
    for number, (name, own) in enumerate(rows.items()):
        minutes, las = zip(*_progress(own[0]), strict=True)
        axes.plot(minutes, las, label=name, markersize=3, **look_of(number))
    best = [max(las for _, las in _progress(own[0])) for own in rows.values()] or [100.0]
    axes.set_ylim(min(best) - 15, max(best) + 0.5)  # the first epochs are of no interest
    if table.target is not None:
        axes.axhline(table.target, color="0.5", linewidth=1)
    axes.set_xlabel("minutes")
    axes.set_ylabel("dev LAS, one seed")
    axes.legend(fontsize=7)
    return svg(figure)


def _figure() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(True, color="0.9")
    return figure, axes
