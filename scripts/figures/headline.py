"""The table of speed-ups at the top of README, and its plot."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure
from pydantic import Field, TypeAdapter

from figures.kept import MEASUREMENTS, speed_run
from parser.benchmarks.plugin import NO_BATCHING, Mode
from parser.config.file import load
from parser.speed.measuring.rows import SpeedRow
from parser.speed.reporting.plot_style import COLOURS
from parser.speed.reporting.speed_ups import STEP, bracketed, ratio, seconds_of
from parser.system.settings import Settings

WIDTH = 118
CONFIG = MEASUREMENTS / "speed/headline.yaml"


class PaperSettings(Settings):
    name: str
    over_none: tuple[float, float] | None = Field(None, strict=False)
    """The least and the greatest speed-up over no batching that the paper has, if any."""
    how: str = ""
    """The table or figure, and the machine."""


class LineSettings(Settings):
    run: str
    """The folder of a speed run below docs/measurements/speed."""
    experiment: str
    mode: Mode = "train"
    batch_size: int | None = None
    """None for the fastest."""
    part: str = STEP
    """Of a step, as in `speed_ups.PARTS`."""
    best: list[str] = Field(min_length=1)
    """Methods, of which the fastest is shown."""
    none: str = NO_BATCHING
    """The method that they are compared with."""
    none_batch_size: int | None = None
    """Of that method. None: that of the best, or any if it was not measured so."""
    simple: list[str] = Field([])
    """Simple ways to batch, by hand or with the library; the fastest is compared with, too."""
    paper: PaperSettings


class Headline(NamedTuple):
    """A line of the table, with the rows of the best method, of no batching, and of the best simple way."""

    task: str
    best: SpeedRow
    none: SpeedRow
    simple: SpeedRow | None
    part: str
    paper: PaperSettings

    @property
    def over_none(self) -> float:
        """Speed-up of the best method over no batching."""
        return gain(self.best, self.none, self.part)


def headlines(config: Path) -> list[Headline]:
    """Raises ValueError for a line without rows."""
    content = TypeAdapter(dict[str, LineSettings]).validate_python(load(config.read_text(encoding="utf-8")))
    return [_headline(task, line) for task, line in content.items()]


def _headline(task: str, line: LineSettings) -> Headline:
    wanted = line.experiment, line.mode
    measured = [row for row in speed_run(line.run).rows if (row.experiment, row.mode) == wanted]
    of_size = [row for row in measured if line.batch_size in (None, row.batch_size)]
    best = _fastest(of_size, line.best, line.part)
    if best is None:
        raise ValueError(f"{task}: {line.run} has no row of {', '.join(line.best)} in {line.experiment}")
    at_same_size = [row for row in measured if row.batch_size == best.batch_size]
    none = _none(line, measured, at_same_size)
    if none is None:
        raise ValueError(f"{task}: {line.run} has no row of {line.none} in {line.experiment}")
    simple = _fastest(at_same_size, line.simple, line.part)
    return Headline(task, best, none, simple, line.part, line.paper)


def _none(line: LineSettings, measured: list[SpeedRow], at_same_size: list[SpeedRow]) -> SpeedRow | None:
    if line.none_batch_size:
        rows = [row for row in measured if row.batch_size == line.none_batch_size]
        return _fastest(rows, [line.none], line.part)
    return _fastest(at_same_size, [line.none], line.part) or _fastest(measured, [line.none], line.part)


def _fastest(rows: list[SpeedRow], methods: list[str], part: str) -> SpeedRow | None:
    own = [row for row in rows if row.method in methods]
    return min(own, key=lambda row: seconds_of(row, part), default=None)


def gain(first: SpeedRow, second: SpeedRow, part: str) -> float:
    """The speed of the first row over that of the second. The share of a part is that of one turn."""
    whole = ratio(first, second).value
    return whole if part == STEP else seconds_of(second, part) / seconds_of(first, part)


def headline_table(lines: list[Headline]) -> str:
    header = "| task | best method, batch size | over no batching | in the paper | over the best simple way |"
    body = "\n".join([header, "|---|---|---|---|---|", *map(_table_line, lines)])
    machines = sorted({_machine(line.best) for line in lines})
    papers = dict.fromkeys(f"{line.paper.name} ({line.paper.how})" for line in lines if line.paper.how)
    sources = f"The papers: {'; '.join(papers)}. This program: {'; '.join(machines)}."
    return f"{body}\n\n{textwrap.fill(sources, WIDTH)}"


def _table_line(line: Headline) -> str:
    best = line.best
    over_simple = ""
    if line.simple:
        value = bracketed(f"{gain(best, line.simple, line.part):.2f}", [best, line.simple])
        over_simple = f"{value} (`{line.simple.method}`)"
    cells = [
        line.task,
        f"`{best.method}`, {best.batch_size:,}",
        bracketed(f"{line.over_none:.1f}", [best, line.none]),
        _range(line.paper.over_none),
        over_simple,
    ]
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def _range(bounds: tuple[float, float] | None) -> str:
    if bounds is None:
        return ""
    low, high = bounds
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _machine(row: SpeedRow) -> str:
    cores = f"{row.threads} cores" if row.threads > 1 else "one core"
    return f"{row.machine.cpu.replace('(R)', '').replace(' Processor', '')}, {cores}"


def draw(lines: list[Headline]) -> Figure:
    """Horizontal bars of the speed-ups over no batching, with the papers' figures as marks."""
    figure = Figure(figsize=(7.2, 0.8 + 0.36 * len(lines)), layout="constrained")
    axes = figure.subplots()
    places = range(len(lines))
    values = [line.over_none for line in lines]
    axes.barh(places, values, height=0.6, color=COLOURS[0], label="this program (CPU)")
    marks = [(line.paper.over_none, place) for place, line in enumerate(lines) if line.paper.over_none]
    for number, (bounds, place) in enumerate(marks):
        label = "the paper, on its machine" if number == 0 else None
        axes.plot(bounds, (place, place), "D-", color=COLOURS[1], markersize=5, linewidth=3, label=label)
    labels = [f"{line.task}: {value:.1f}" for line, value in zip(lines, values, strict=True)]
    axes.set_yticks(places, labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(0.9, 1.6 * max([*values, *(high for (_, high), _ in marks)]))
    axes.set_xticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    axes.set_xlabel("speed-up over no batching, by the best method", fontsize=9)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return figure


FIGURES: dict[str, Callable[[], str]] = {"headline": lambda: headline_table(headlines(CONFIG))}
