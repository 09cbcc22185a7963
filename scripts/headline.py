"""Write the table and draw the plot of speed-ups at the top of README, from rows that are kept.

python scripts/headline.py docs/measurements/headline.yaml

It writes to README.md and docs/headline.svg. With --check it exits with 1 if README.md has another table.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure
from pydantic import Field, TypeAdapter

from parser.bounded_yaml import load, read_text
from parser.files import write_atomically
from parser.plugins import NO_BATCHING
from parser.settings import Settings
from parser.speed.drawing import COLOURS, svg
from parser.speed.findings import bracketed, ratio
from parser.speed.row_file import RowFile
from parser.speed.rows import OK, Row
from parser.speed.statistics import Estimate

WIDTH = 118
MEASUREMENTS, README, PLOT = Path("docs/measurements"), Path("README.md"), Path("docs/headline.svg")
BEGIN, END = "<!-- The table of `make headline`. -->\n", "<!-- End of the table. -->\n"


class PaperSettings(Settings):
    name: str
    over_none: tuple[float, float] | None = Field(None, strict=False)
    """The least and the greatest speed-up over no batching that the paper has, if any."""
    how: str = ""
    """The table or figure, and the machine."""


class LineSettings(Settings):
    rows: str
    """File below docs/measurements."""
    experiment: str
    batch_size: int | None = None
    """None for the fastest."""
    best: list[str] = Field(min_length=1)
    """Methods, of which the fastest is shown."""
    none: str = NO_BATCHING
    """The method that they are compared with."""
    simple: list[str] = Field([])
    """Simple ways to batch, by hand or with the library; the fastest is compared with, too."""
    paper: PaperSettings


class Headline(NamedTuple):
    """A line of the table, with the rows of the best method, of no batching, and of the best simple way."""

    task: str
    best: Row
    none: Row
    simple: Row | None
    over_none: Estimate
    """Speed-up of the best method over no batching."""
    paper: PaperSettings


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("config", type=Path)
    arguments.add_argument("--check", action="store_true", help="only say whether README.md has this table")
    options = arguments.parse_args()
    lines = headlines(options.config)
    text = README.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise ValueError(f"{README}: the lines {BEGIN.strip()} and {END.strip()} are missing")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}\n{table(lines)}\n{END}{after}"
    if options.check:
        if text != wanted:
            print(f"{README}: the table of speed-ups is out of date: run `make headline`", file=sys.stderr)
        return int(text != wanted)
    write_atomically(README, wanted.encode())
    write_atomically(PLOT, svg(draw(lines)).encode())
    return 0


def headlines(config: Path) -> list[Headline]:
    """Raises ValueError for a line without rows."""
    content = TypeAdapter(dict[str, LineSettings]).validate_python(load(read_text(config)))
    return [_headline(task, line) for task, line in content.items()]


def _headline(task: str, line: LineSettings) -> Headline:
    measured = [
        row
        for row in _rows(line.rows)
        if row["status"] == OK and row["experiment"] == line.experiment and row["mode"] == "train"
    ]
    best = _fastest([row for row in measured if line.batch_size in (None, row["batch_size"])], line.best)
    if best is None:
        raise ValueError(f"{task}: {line.rows} has no row of {', '.join(line.best)} in {line.experiment}")
    at_same_size = [row for row in measured if row["batch_size"] == best["batch_size"]]
    none = _fastest(at_same_size, [line.none]) or _fastest(measured, [line.none])
    if none is None:
        raise ValueError(f"{task}: {line.rows} has no row of {line.none} in {line.experiment}")
    simple = _fastest(at_same_size, line.simple)
    return Headline(task, best, none, simple, ratio(best, none), line.paper)


@cache
def _rows(file: str) -> list[Row]:
    return RowFile(MEASUREMENTS / file).rows


def _fastest(rows: list[Row], methods: list[str]) -> Row | None:
    own = [row for row in rows if row["method"] in methods]
    return max(own, key=lambda row: row["sentences_per_second"], default=None)


def table(lines: list[Headline]) -> str:
    header = "| task | best method, batch size | over no batching | in the paper | over the best simple way |"
    body = "\n".join([header, "|---|---|---|---|---|", *map(_table_line, lines)])
    machines = sorted({_machine(line.best) for line in lines})
    papers = dict.fromkeys(f"{line.paper.name} ({line.paper.how})" for line in lines if line.paper.how)
    sources = f"The papers: {'; '.join(papers)}. This program: {'; '.join(machines)}."
    return f"{body}\n\n{textwrap.fill(sources, WIDTH)}\n"


def _table_line(line: Headline) -> str:
    best = line.best
    over_simple = ""
    if line.simple:
        value = bracketed(f"{ratio(best, line.simple).value:.2f}", [best, line.simple])
        over_simple = f"{value} (`{line.simple['method']}`)"
    cells = [
        line.task,
        f"`{best['method']}`, {best['batch_size']:,}",
        bracketed(f"{line.over_none.value:.1f}", [best, line.none]),
        _range(line.paper.over_none),
        over_simple,
    ]
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def _range(bounds: tuple[float, float] | None) -> str:
    if bounds is None:
        return ""
    low, high = bounds
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _machine(row: Row) -> str:
    cores = f"{row['threads']} cores" if row["threads"] > 1 else "one core"
    return f"{row['machine']['cpu'].replace('(R)', '').replace(' Processor', '')}, {cores}"


def draw(lines: list[Headline]) -> Figure:
    """Horizontal bars of the speed-ups over no batching, with the papers' figures as marks."""
    figure = Figure(figsize=(7.2, 0.8 + 0.36 * len(lines)), layout="constrained")
    axes = figure.subplots()
    places = range(len(lines))
    values = [line.over_none.value for line in lines]
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
    axes.set_xlabel("speed-up of training by the best method over no batching", fontsize=9)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return figure


if __name__ == "__main__":
    sys.exit(main())
