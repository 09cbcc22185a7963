"""The tables of speed-ups over no batching, and their plot in README."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator
from pydantic import Field, TypeAdapter

from figures.kept import MEASUREMENTS, processor, speed_run, table
from parser.config.yaml_loading import load
from parser.evaluation.statistics import Estimate, exactly
from parser.pages.plot_style import COLOURS, LABEL_SIZE
from parser.speed.measuring.rows import SpeedRow
from parser.speed.reporting.speed_ups import STEP, bracketed, ratio, seconds_of
from parser.speed.tasks.plugin import Mode
from parser.system.settings import Settings

TEXT_WIDTH = 118
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

Look = dict[str, Any]
"""Keyword arguments of Matplotlib."""
WIDTH = 8.6
"""Width of the plot, in inches."""
SMALL = LABEL_SIZE - 1
HEIGHT = 0.34
"""Height of a line, in inches."""
TITLE_WIDTH = 75
"""Characters per line of a title."""
TICKS = 1, 2, 5, 10, 20, 50, 100
BAR: Look = {"facecolor": COLOURS[5], "edgecolor": "0.3", "linewidth": 0.6}
PAPER: Look = {
    "color": COLOURS[1],
    "marker": "D",
    "markersize": 5,
    "linewidth": 3,
    "markeredgecolor": "black",
}
BEST_SIMPLE: Look = {"color": "black", "marker": "o", "markersize": 5, "linestyle": "none"}
OTHER_SIMPLE: Look = {**BEST_SIMPLE, "markerfacecolor": "white"}
NOTE: Look = {"textcoords": "offset points", "va": "center", "fontsize": SMALL}
METHOD_OF_PAPER: Look = {"bbox": {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"}}
INTERVAL: Look = {"color": "black", "capsize": 3, "linewidth": 1.2}


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
    groups = []
    for title, group in read_groups(config).items():
        lines = [_headline(task, line, group.method) for task, line in group.lines.items()]
        rows = [row for line in lines for row in (line.best, line.baseline, *line.simple)]
        origins = {f"{_machine(row)}, at commit {row.commit}" for row in rows}
        if len(origins) > 1:
            several = " and of ".join(sorted(origins))
            raise ValueError(f"{title} has rows of {several}: measure all at one commit, on one machine")
        groups.append(Group(title, group.baseline, _machine(rows[0]), str(rows[0].commit)[:8], lines))
    return groups


def _machine(row: SpeedRow) -> str:
    """The processor, and the number of cores that were used."""
    return f"{processor(asdict(row.machine))}, {f'{row.threads} cores' if row.threads > 1 else 'one core'}"


def _headline(task: str, line: LineSettings, baseline: str) -> Headline:
    rows = speed_run(f"{RUNS}/{line.config}").rows
    measured = [row for row in rows if (row.experiment, row.mode) == (line.experiment, line.mode)]

    def by_speed(methods: list[str], size: int | None) -> list[SpeedRow]:
        """The rows of these methods, the fastest first."""
        of_methods = [row for row in measured if row.method in methods and size in (None, row.batch_size)]
        return sorted(of_methods, key=lambda row: seconds_of(row, line.part))

    where = f"in {line.experiment} of {line.config}"
    best = next(iter(by_speed(line.best, line.batch_size)), None)
    if best is None:
        raise ValueError(f"{task}: there is no row of {', '.join(line.best)} {where}")
    unbatched = by_speed([baseline], best.batch_size)
    if not unbatched:
        raise ValueError(f"{task}: there is no row of {baseline} at {best.batch_size} {where}")
    simple = by_speed(line.simple, best.batch_size)
    return Headline(task, best, unbatched[0], simple, line.part, line.paper)


def headline_tables(groups: list[Group]) -> str:
    """A table for each group, below its baseline, and the sources of the papers' figures."""
    parts = []
    for group in groups:
        rule = f"{group.title}: over {group.baseline}. Measured on {group.machine}, at commit {group.commit}."
        parts += [fill(rule, TEXT_WIDTH), table(COLUMNS, map(_cells, group.lines))]
    lines = [line for group in groups for line in group.lines]
    papers = dict.fromkeys(f"{line.paper.name} ({line.paper.how})" for line in lines if line.paper.how)
    if papers:
        parts.append(fill(f"The papers: {'; '.join(papers)}.", TEXT_WIDTH))
    return "\n\n".join(parts)


def _cells(line: Headline) -> list[str]:
    best = line.best
    simple: list[str] = []
    for row in line.simple:
        gain = line.gain(best, row)
        text = f"{gain.value:.2f}" if simple else in_words(gain, 2)
        simple.append(f"{bracketed(text, [best, row])} `{row.method}`")
    of_paper = ""
    if line.paper.over_none:
        low, high = line.paper.over_none
        of_paper = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return [
        line.task,
        f"`{best.method}`, {best.batch_size:,}",
        bracketed(in_words(line.over_baseline, 1), [best, line.baseline]),
        of_paper + (f" `{line.method_of_paper}`" if line.method_of_paper else ""),
        "".join(simple[:1]),
        ", ".join(simple[1:]),
    ]


def in_words(estimate: Estimate, digits: int) -> str:
    """The estimate with its interval, if it has one."""
    if estimate.low == estimate.high:
        return f"{estimate.value:.{digits}f}"
    return f"{estimate:.{digits}f}"


def draw(groups: list[Group]) -> Figure:
    """A panel for each group: horizontal bars that start at 1, with marks for simple ways and papers."""
    lines = sum(len(group.lines) for group in groups)
    figure = Figure(figsize=(WIDTH, 1.9 + HEIGHT * lines), layout="constrained")
    panels = figure.subplots(
        len(groups), 1, sharex=True, squeeze=False, height_ratios=[len(group.lines) for group in groups]
    )[:, 0]
    for axes, group in zip(panels, groups, strict=True):
        title = fill(f"{group.title}, on {group.machine}: 1 is {group.baseline}", TITLE_WIDTH)
        axes.set_title(title, fontsize=LABEL_SIZE + 1, loc="left")
        _draw_lines(axes, group.lines)
    panels[-1].set_xscale("log")
    panels[-1].set_xticks(TICKS, map(str, TICKS), fontsize=LABEL_SIZE)
    panels[-1].xaxis.set_minor_locator(NullLocator())
    panels[-1].set_xlabel("speed-up by the best method", fontsize=LABEL_SIZE)
    figure.legend(handles=_legend(), loc="outside lower center", ncols=2, fontsize=LABEL_SIZE)
    return figure


def _draw_lines(axes: Axes, lines: list[Headline]) -> None:
    for position, line in enumerate(lines):
        gain = line.over_baseline
        axes.barh(position, gain.value - 1, left=1, height=0.62, **BAR)
        if any(gain.errors):
            axes.errorbar(gain.value, position, xerr=[[error] for error in gain.errors], **INTERVAL)
        for number, row in enumerate(line.simple):
            value = line.gain(row, line.baseline).value
            axes.plot(value, position, **(OTHER_SIMPLE if number else BEST_SIMPLE))
        if line.paper.over_none:
            axes.plot(line.paper.over_none, (position, position), **PAPER)
            if method := line.method_of_paper:
                end = line.paper.over_none[1], position
                axes.annotate(method, end, (6, 0), **NOTE, **METHOD_OF_PAPER)
        text = bracketed(in_words(gain, 1), [line.best, line.baseline])
        axes.text(1.01, position, text, fontsize=SMALL, va="center", transform=axes.get_yaxis_transform())
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(lines)), [_label(line) for line in lines], fontsize=SMALL)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.grid(True, axis="x", color="0.9")
    axes.set_axisbelow(True)


def _label(line: Headline) -> str:
    simple = f"; simple: {line.simple[0].method}" if line.simple else ""
    return f"{line.task}\n{line.best.method}, batches of {line.best.batch_size:,}{simple}"


def _legend() -> list[Patch | Line2D]:
    interval = "95 % interval, over the turns of one run on one machine"
    paper = "the paper, on its machine, over its own baseline;\nits method if it is not that of the bar"
    return [
        Patch(label="this program", **BAR),
        Line2D([], [], label=interval, color="black", marker="|"),
        Line2D([], [], label="the best simple way: by hand, or PyTorch's layers", **BEST_SIMPLE),
        Line2D([], [], label="other simple ways", **OTHER_SIMPLE),
        Line2D([], [], label=paper, **PAPER),
    ]


FIGURES: dict[str, Callable[[], str]] = {"headline": lambda: headline_tables(headlines(CONFIG))}
