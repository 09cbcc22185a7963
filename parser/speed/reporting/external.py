"""Reports the speeds of other programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from parser.evaluation.statistics import median_of, ratio_of
from parser.pages.document import Section, Table
from parser.pages.plot_style import COLOURS, LABEL_SIZE, PLAIN, TITLE_SIZE, WIDTH
from parser.speed.measuring.rows import OK, ExternalRow
from parser.speed.measuring.run import RunRows

COLUMNS = ("program", "examples/s", "95 % interval", "over the first", "turns", "command")
BAR_HEIGHT = 0.35
"""Height of a bar in inches."""


def sections(run: RunRows) -> Iterator[Section]:
    """Yield a section for the programs of each task. Ratios are relative to the first program measured."""
    for task in dict.fromkeys(row.task for row in run.external):
        rows = [row for row in run.external if row.task == task]
        done = [row for row in rows if row.status == OK]
        failures = [f"{row.name}: {row.status}." for row in rows if row.status != OK]
        title = f"Programs in turns: {task}" if task else "Programs in turns"
        name = f"programs-{task}" if task else "programs"
        plots = {name: _plot(done, title)} if done else {}
        yield Section(title, plots, [_table(done)], failures=failures)


def _plot(rows: Sequence[ExternalRow], title: str) -> Figure:
    figure = Figure(figsize=(WIDTH, 1 + BAR_HEIGHT * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    speeds = [median_of(row.speeds) for row in rows]
    for place, speed in enumerate(speeds):
        errors = [[error] for error in speed.errors]
        axes.barh(place, speed.value, xerr=errors, color=COLOURS[place % len(COLOURS)], capsize=2)
        axes.annotate(f" {speed.value:,.0f}", (speed.high, place), va="center", fontsize=LABEL_SIZE)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(PLAIN)
    axes.set_xlabel("examples/s, median of the turns with its 95 % interval")
    axes.set_title(title, fontsize=TITLE_SIZE)
    return figure


def _table(rows: Sequence[ExternalRow]) -> Table:
    return Table(COLUMNS, [_cells(row, rows[0]) for row in rows])


def _cells(row: ExternalRow, first: ExternalRow) -> list[str]:
    speed = median_of(row.speeds)
    return [
        row.name,
        f"{speed.value:,.0f}",
        f"{speed.low:,.0f} to {speed.high:,.0f}",
        str(ratio_of(row.speeds, first.speeds, interleaved=True)),
        str(len(row.speeds)),
        f"`{row.command}`",
    ]
