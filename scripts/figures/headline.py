"""The tables of speed-ups over no batching, which headline_plot.py draws."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, TypeAdapter

from figures.kept import MEASUREMENTS, speed_run, table
from parser.benchmarks.plugin import Mode
from parser.config.file import load
from parser.speed.measuring.rows import SpeedRow
from parser.speed.measuring.statistics import Estimate, exactly
from parser.speed.reporting.speed_ups import STEP, bracketed, ratio, seconds_of
from parser.system.settings import Settings

WIDTH = 118
CONFIG = MEASUREMENTS / "speed/headline.yaml"
ROWS = MEASUREMENTS / "speed/headline"
COLUMNS = (
    "task",
    "machine",
    "best method, batch size",
    "over no batching",
    "in the paper",
    "over the best simple way",
    "over others",
)


class PaperSettings(Settings):
    name: str
    over_none: tuple[float, float] | None = Field(None, strict=False)
    """The least and the greatest speed-up over no batching that the paper has, if any."""
    method: str = ""
    """Ours that is the paper's own, where it may be another than the best."""
    how: str = ""
    """The table or figure, the machine, and the baseline if that is another one."""


class LineSettings(Settings):
    config: str
    """The name of one in configs/speed/, whose cells of the line scripts/measure_headline.py measures."""
    runs: list[str] = Field(min_length=1)
    """Folders of speed runs below docs/measurements/speed, each on its own machine."""
    experiment: str
    mode: Mode = "train"
    batch_size: int | None = None
    """None for the fastest."""
    part: str = STEP
    """Of a step, as in `speed_ups.PARTS`."""
    best: list[str] = Field(min_length=1)
    """Methods, of which the fastest is shown."""
    simple: list[str] = Field([])
    """Simple ways to batch, by hand or with the library, which are compared with, too."""
    paper: PaperSettings


class GroupSettings(Settings):
    """Lines with one baseline."""

    baseline: str
    """What the method of the baseline does, in words."""
    method: str
    lines: dict[str, LineSettings]


class Headline(NamedTuple):
    """A line: the rows of the best method, the baseline, and the simple ways (the fastest first)."""

    task: str
    best: SpeedRow
    baseline: SpeedRow
    simple: list[SpeedRow]
    part: str
    paper: PaperSettings

    def gain(self, first: SpeedRow, second: SpeedRow) -> Estimate:
        """The speed of the first row over that of the second.

        The ratio of a part has no interval: a part's share of a step is known from only one turn.
        """
        if self.part == STEP:
            return ratio(first, second)
        return exactly(seconds_of(second, self.part) / seconds_of(first, self.part))

    @property
    def over_baseline(self) -> Estimate:
        """Speed-up of the best method."""
        return self.gain(self.best, self.baseline)

    @property
    def machine(self) -> str:
        """The name of the processor, and the number of cores used if there were several."""
        cores = f", {self.best.threads} cores" if self.best.threads > 1 else ""
        return self.best.machine.cpu.replace("(R)", "").replace(" Processor", "") + cores

    @property
    def method_of_paper(self) -> str:
        """The paper's method, if its figure is for a method other than the best one here; else empty."""
        return self.paper.method if self.paper.over_none and self.paper.method != self.best.method else ""


class Group(NamedTuple):
    title: str
    baseline: str
    lines: list[Headline]
    """A task that was measured on several machines has several consecutive lines."""


def read_groups(config: Path) -> dict[str, GroupSettings]:
    """The groups of the config, by their titles."""
    return TypeAdapter(dict[str, GroupSettings]).validate_python(load(config.read_text(encoding="utf-8")))


def headlines(config: Path) -> list[Group]:
    """The groups with their measured rows. Raises ValueError for a line without rows."""
    return [
        Group(
            title,
            group.baseline,
            [
                _headline(task, line, run, group.method)
                for task, line in group.lines.items()
                for run in line.runs
            ],
        )
        for title, group in read_groups(config).items()
    ]


def _headline(task: str, line: LineSettings, run: str, baseline: str) -> Headline:
    wanted = line.experiment, line.mode
    measured = [row for row in speed_run(run).rows if (row.experiment, row.mode) == wanted]
    of_size = [row for row in measured if line.batch_size in (None, row.batch_size)]
    best = next(iter(_by_speed(of_size, line.best, line.part)), None)
    if best is None:
        raise ValueError(f"{task}: {run} has no row of {', '.join(line.best)} in {line.experiment}")
    unbatched = [row for row in measured if (row.method, row.batch_size) == (baseline, best.batch_size)]
    if not unbatched:
        raise ValueError(f"{task}: {run} has no row of {baseline} at {best.batch_size} in {line.experiment}")
    at_same_size = [row for row in measured if row.batch_size == best.batch_size]
    simple = _by_speed(at_same_size, line.simple, line.part)
    return Headline(task, best, unbatched[0], simple, line.part, line.paper)


def _by_speed(rows: list[SpeedRow], methods: list[str], part: str) -> list[SpeedRow]:
    """The rows of these methods, the fastest first."""
    own = [row for row in rows if row.method in methods]
    return sorted(own, key=lambda row: seconds_of(row, part))


def headline_tables(groups: list[Group]) -> str:
    """A table for each group, below its baseline, and the sources of the papers' figures."""
    parts = []
    for group in groups:
        rule = f"{group.title}: over {group.baseline}."
        parts += [textwrap.fill(rule, WIDTH), table(COLUMNS, _table_lines(group))]
    lines = [line for group in groups for line in group.lines]
    papers = dict.fromkeys(f"{line.paper.name} ({line.paper.how})" for line in lines if line.paper.how)
    if papers:
        parts.append(textwrap.fill(f"The papers: {'; '.join(papers)}.", WIDTH))
    return "\n\n".join(parts)


def _table_lines(group: Group) -> list[list[str]]:
    """The cells of a group's lines. Only a task's first line shows its name and its paper's figure."""
    tasks = [line.task for line in group.lines]
    return [_cells(line, is_first=tasks.index(line.task) == place) for place, line in enumerate(group.lines)]


def _cells(line: Headline, is_first: bool) -> list[str]:
    best = line.best
    gains = [line.gain(best, row) for row in line.simple]
    texts = [in_words(gain, 2) for gain in gains[:1]] + [f"{gain.value:.2f}" for gain in gains[1:]]
    of_paper = f" `{line.method_of_paper}`" if line.method_of_paper else ""
    named = [
        f"{bracketed(text, [best, row])} `{row.method}`" for text, row in zip(texts, line.simple, strict=True)
    ]
    return [
        line.task if is_first else "",
        line.machine,
        f"`{best.method}`, {best.batch_size:,}",
        bracketed(in_words(line.over_baseline, 1), [best, line.baseline]),
        _range(line.paper.over_none) + of_paper if is_first else "",
        "".join(named[:1]),
        ", ".join(named[1:]),
    ]


def in_words(estimate: Estimate, digits: int) -> str:
    """The estimate with its interval, if it has one."""
    if estimate.low == estimate.high:
        return f"{estimate.value:.{digits}f}"
    return f"{estimate:.{digits}f}"


def _range(bounds: tuple[float, float] | None) -> str:
    if bounds is None:
        return ""
    low, high = bounds
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


FIGURES: dict[str, Callable[[], str]] = {"headline": lambda: headline_tables(headlines(CONFIG))}
