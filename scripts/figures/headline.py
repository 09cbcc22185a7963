"""The tables of speed-ups over no batching, which headline_plot.py draws."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, TypeAdapter

from figures.kept import MEASUREMENTS, processor, speed_run, table
from parser.config.yaml_loading import load
from parser.speed.measuring.rows import SpeedRow
from parser.speed.measuring.statistics import Estimate, exactly
from parser.speed.reporting.speed_ups import STEP, bracketed, ratio, seconds_of
from parser.speed.tasks.plugin import Mode
from parser.system.settings import Settings

WIDTH = 118
CONFIG = MEASUREMENTS / "speed/headline.yaml"
RUNS = "headline"
"""The folder of speed runs, one for each config."""
ROWS = MEASUREMENTS / "speed" / RUNS
COLUMNS = (
    "task",
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
    def method_of_paper(self) -> str:
        """The paper's method, if its figure is for a method other than the best one here; else empty."""
        return self.paper.method if self.paper.over_none and self.paper.method != self.best.method else ""


class Group(NamedTuple):
    title: str
    baseline: str
    machine: str
    commit: str
    lines: list[Headline]


def read_groups(config: Path) -> dict[str, GroupSettings]:
    """The groups of the config, by their titles."""
    return TypeAdapter(dict[str, GroupSettings]).validate_python(load(config.read_text(encoding="utf-8")))


def headlines(config: Path) -> list[Group]:
    """The groups with their measured rows.

    Raises ValueError if a line has no rows, or a group those of several machines or commits.
    """
    return [_group(title, group) for title, group in read_groups(config).items()]


def _group(title: str, group: GroupSettings) -> Group:
    lines = [_headline(task, line, group.method) for task, line in group.lines.items()]
    rows = [row for line in lines for row in (line.best, line.baseline, *line.simple)]
    places = {f"{_machine(row)}, at commit {row.commit}" for row in rows}
    if len(places) > 1:
        found = " and of ".join(sorted(places))
        raise ValueError(f"{title} has rows of {found}: measure all at one commit, on one machine")
    return Group(title, group.baseline, _machine(rows[0]), str(rows[0].commit)[:8], lines)


def _machine(row: SpeedRow) -> str:
    """The processor, and the number of cores that were used."""
    cores = f"{row.threads} cores" if row.threads > 1 else "one core"
    return f"{processor(row.machine.cpu, row.machine.vectors)}, {cores}"


def _headline(task: str, line: LineSettings, baseline: str) -> Headline:
    wanted = line.experiment, line.mode
    rows = speed_run(f"{RUNS}/{line.config}").rows
    measured = [row for row in rows if (row.experiment, row.mode) == wanted]
    of_size = [row for row in measured if line.batch_size in (None, row.batch_size)]
    best = next(iter(_by_speed(of_size, line.best, line.part)), None)
    where = f"in {line.experiment} of {line.config}"
    if best is None:
        raise ValueError(f"{task}: there is no row of {', '.join(line.best)} {where}")
    unbatched = [row for row in measured if (row.method, row.batch_size) == (baseline, best.batch_size)]
    if not unbatched:
        raise ValueError(f"{task}: there is no row of {baseline} at {best.batch_size} {where}")
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
        rule = f"{group.title}: over {group.baseline}. Measured on {group.machine}, at commit {group.commit}."
        parts += [textwrap.fill(rule, WIDTH), table(COLUMNS, map(_cells, group.lines))]
    lines = [line for group in groups for line in group.lines]
    papers = dict.fromkeys(f"{line.paper.name} ({line.paper.how})" for line in lines if line.paper.how)
    if papers:
        parts.append(textwrap.fill(f"The papers: {'; '.join(papers)}.", WIDTH))
    return "\n\n".join(parts)


def _cells(line: Headline) -> list[str]:
    best = line.best
    gains = [line.gain(best, row) for row in line.simple]
    texts = [in_words(gain, 2) for gain in gains[:1]] + [f"{gain.value:.2f}" for gain in gains[1:]]
    of_paper = f" `{line.method_of_paper}`" if line.method_of_paper else ""
    named = [
        f"{bracketed(text, [best, row])} `{row.method}`" for text, row in zip(texts, line.simple, strict=True)
    ]
    return [
        line.task,
        f"`{best.method}`, {best.batch_size:,}",
        bracketed(in_words(line.over_baseline, 1), [best, line.baseline]),
        _range(line.paper.over_none) + of_paper,
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
