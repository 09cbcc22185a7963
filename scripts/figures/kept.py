"""Reads the rows kept in docs/measurements, and formats them as Markdown tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple, TypeVar

from parser.evaluation.statistics import Estimate
from parser.speed.measuring.rows import OK, CellRow, FailedRow, RowFile, SpeedRow, read_content
from parser.speed.reporting.speed_ups import bracketed, ratio
from parser.tables.report import difference

MEASUREMENTS = Path(__file__).parent.parent.parent / "docs/measurements"
TRAINING_RUNS, PRINTED = "accuracy/rows.jsonl", "printed.jsonl"
"""The rows of training runs, and the output of single commands, by scripts/keep_output.py."""
Row = dict[str, Any]
Key = TypeVar("Key")
Line = TypeVar("Line")
Column = TypeVar("Column")
SPLITS = "dev", "test"
TREEBANKS = "English EWT", "French Sequoia", "Ancient Greek PTNK", "Uyghur UDT"
SMALL = "Uyghur UDT", "Ancient Greek PTNK"
"""Treebanks that train quickly enough for several seeds."""


@cache
def rows(path: str) -> list[Row]:
    """All rows of a file below docs/measurements, which can be compressed. Raises FileNotFoundError."""
    content = read_content(MEASUREMENTS / path)
    if not content:
        raise FileNotFoundError(2, "there are no rows", path)
    return [json.loads(line) for line in content.splitlines()]


def grouped(items: Iterable[tuple[Key, Line]]) -> dict[Key, list[Line]]:
    """The values of each key, both in the order of the items."""
    groups: dict[Key, list[Line]] = {}
    for key, value in items:
        groups.setdefault(key, []).append(value)
    return groups


def latest(path: str) -> dict[str, Row]:
    """The last row of each program in a file, if its measurement succeeded, by the program's name."""
    last = {row["name"]: row for row in rows(path)}
    return {name: row for name, row in last.items() if row["status"] == OK}


def printed_rows(words: str) -> list[Row]:
    """The rows of commands. Raises ValueError if there is no such command.

    words: the name of rows or their whole command; otherwise all commands that contain these words are taken.
    """
    named = [row for row in rows(PRINTED) if words in (row.get("name"), " ".join(row["command"]))]
    chosen = named or [row for row in rows(PRINTED) if words in " ".join(row["command"])]
    if not chosen:
        raise ValueError(f"{PRINTED} has no command with {words!r}")
    return chosen


def printed(words: str) -> list[str]:
    """The lines that commands printed, as in `printed_rows`."""
    return [line for row in printed_rows(words) for line in row["printed"]]


def printed_json(words: str) -> list[Row]:
    """The printed lines that are JSON objects."""
    return [json.loads(line) for line in printed(words) if line.startswith("{")]


def matches(pattern: str, lines: Iterable[str]) -> list[tuple[str, ...]]:
    """The groups of the pattern in the lines that it matches as a whole."""
    return [match.groups() for line in lines if (match := re.fullmatch(pattern, line))]


def means_of_printed(words: str, pattern: str) -> dict[str, list[float]]:
    """The means of the printed numbers, by name. pattern: of whole lines; its first group is the name."""
    numbers = grouped((name, list(map(float, own))) for name, *own in matches(pattern, printed(words)))
    return {name: [mean(column) for column in zip(*lines, strict=True)] for name, lines in numbers.items()}


def processor(machine: Mapping[str, Any]) -> str:
    """The name of a processor and its vector instructions."""
    name = machine["cpu"].replace("(R)", "").replace(" Processor", "")
    return f"{name}, {machine['vectors'].replace('AVX512', 'AVX-512')}"


def training_runs(table: str | None) -> list[Row]:
    """The training runs of a table, or of no table if it is None. Raises ValueError if there are none."""
    chosen = [run for run in rows(TRAINING_RUNS) if run["table"] == table]
    if not chosen:
        raise ValueError(f"{TRAINING_RUNS} has no row of the table {table}")
    return chosen


def tables() -> list[str]:
    """The names of all tables of training runs."""
    return sorted({run["table"] for run in rows(TRAINING_RUNS) if run["table"]})


def runs_of_table(name: str | None) -> dict[str, list[Row]]:
    """The training runs of each row of a table, or of each config without one."""
    return grouped((run["name"], run) for run in training_runs(name))


def only_runs(name: str) -> dict[str, Row]:
    """The runs of a table with one seed, by their names."""
    return {name: runs[0] for name, runs in runs_of_table(name).items()}


def shown(runs: Sequence[Row], what: str, base: Sequence[Row] = ()) -> str:
    """A cell about the runs of a row.

    what: `SPLIT MEASURE` for the mean of a score; followed by `spread`, with the lowest and the highest; by
    `each`, those of one or two runs, and else the spread; by `over`, the mean difference to the runs of
    `base` with equal seeds, with its interval if there are several. Or `minutes` of training; `mean minutes`
    always have a decimal.
    """
    if what.endswith("minutes"):
        taken = mean(run["seconds"] for run in runs) / 60
        return f"{taken:.1f}" if taken < 10 or what == "mean minutes" else f"{taken:.0f}"
    split, measure, *form = what.split()
    scores = [run[split][measure] for run in runs]
    if form == ["over"]:
        ours, theirs = ({run["seed"]: run[split][measure] for run in each} for each in (runs, base))
        return re.sub(r", (one seed|\d+ seeds)$", "", difference(ours, theirs))
    if form == ["each"] and len(runs) < 3:
        return " and ".join(f"{score:.2f}" for score in scores)
    spread = f" ({min(scores):.2f}, {max(scores):.2f})" if form else ""
    return f"{mean(scores):.2f}{spread}"


def cells(runs: Sequence[Row], *what: str) -> list[str]:
    """Cells as of `shown`."""
    return [shown(runs, each) for each in what]


@dataclass(frozen=True)
class RunTable:
    """A table of training runs, with a line for each name, by default for each row of the table.

    A name is that of a row, or `TABLE: ROW` of another table, or `printed: WORDS` for the LAS on dev and test
    that commands printed.
    """

    table: str | None
    columns: Sequence[tuple[object, str] | tuple[object, str, str]]
    """Headings, what is `shown`, and whose: `{}` in a name is the line's name."""
    names: Sequence[str | tuple[str, str]] = ()
    """Each name alone, or with the title of its line."""
    base: str = ""
    """The name of the row to which differences are shown."""
    heading: str = ""
    title: str = "{}"

    def __call__(self) -> str:
        names = self.names or list(runs_of_table(self.table))
        titled = [(self.title.format(name), name) if isinstance(name, str) else name for name in names]
        return table(
            (self.heading, *(column[0] for column in self.columns)),
            ((title, *(self._cell(name, *column[1:]) for column in self.columns)) for title, name in titled),
        )

    def _cell(self, name: str, what: str, of: str = "{}") -> str:
        row, base = of.format(name), self.base.format(name)
        if not what.endswith(" over"):
            return shown(self._runs(row), what)
        return shown(self._runs(row), what, self._runs(base)) if row != base else ""

    def _runs(self, name: str) -> list[Row]:
        of, _, row = name.rpartition(": ")
        if of == "printed":
            las = matches(r"LAS +([\d.]+) .*", printed(row))
            return [{split: {"las": float(score)} for split, (score,) in zip(SPLITS, las, strict=True)}]
        return runs_of_table(of or self.table)[row]


class SpeedRun(NamedTuple):
    """The completely measured cells of a run of `stack-parser speed`. A cell is named METHOD@BATCH_SIZE."""

    rows: list[SpeedRow]

    def cell(self, experiment: str, cell: str, mode: str = "train") -> SpeedRow:
        """The row of a cell in float32. Raises ValueError if it was not measured."""
        method, _, size = cell.rpartition("@")
        wanted = experiment, method, int(size), mode, "float32"
        for row in self.rows:
            if (row.experiment, row.method, row.batch_size, row.mode, row.precision) == wanted:
                return row
        raise ValueError(f"{experiment}: {cell} was not measured in {mode}, float32")

    def has(self, experiment: str, cell: str, mode: str = "train") -> bool:
        method, _, size = cell.rpartition("@")
        wanted = (experiment, method, int(size), mode)
        return any((row.experiment, row.method, row.batch_size, row.mode) == wanted for row in self.rows)

    def ratio(self, experiment: str, first: str, second: str, mode: str = "train") -> Estimate:
        """The speed of the first cell over that of the second, in one experiment."""
        return ratio(self.cell(experiment, first, mode), self.cell(experiment, second, mode))

    def over(self, experiment: str, first: str, second: str, digits: int = 2) -> str:
        """The ratio with its interval; empty if one of the cells was not measured."""
        if not (self.has(experiment, first) and self.has(experiment, second)):
            return ""
        return f"{self.ratio(experiment, first, second):.{digits}f}"

    def speed(self, experiment: str, cell: str, what: str = "sentences_per_second") -> str:
        """The speed of training; empty if it was not measured."""
        return short_speed(getattr(self.cell(experiment, cell), what)) if self.has(experiment, cell) else ""


@cache
def speed_run(name: str) -> SpeedRun:
    """Read a speed run. name: its folder below docs/measurements/speed."""
    file = RowFile[CellRow](MEASUREMENTS / "speed" / name / "rows.jsonl", SpeedRow, FailedRow)
    return SpeedRun([row for row in file.rows if isinstance(row, SpeedRow)])


def short_speed(value: float) -> str:
    """A speed with one decimal below 100, and with none from 100 on."""
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def ratios(
    run: SpeedRun, lines: Iterable[tuple[str, str, str, str]], digits: int = 2, marked: bool = False
) -> str:
    """A table of ratios of speeds in training.

    lines: the title, the experiment, and METHOD@BATCH_SIZE of both cells. marked: ratios of cells that were
    not measured in turns are in brackets.
    """

    def line(what: str, experiment: str, first: str, second: str) -> tuple[str, ...]:
        text = f"{run.ratio(experiment, first, second):.{digits}f}"
        if marked:
            text = bracketed(text, [run.cell(experiment, cell) for cell in (first, second)])
        return what, f"`{first}`", f"`{second}`", text

    return table(("", "speed of", "over that of", "ratio"), (line(*each) for each in lines))


def table(header: Sequence[object], lines: Iterable[Sequence[object]]) -> str:
    """A Markdown table. Raises ValueError for a line whose length differs from the header's."""
    body = [header, *lines]
    for line in body:
        if len(line) != len(header):
            raise ValueError(f"{len(line)} cells in a table of {len(header)} columns: {line}")
    texts = ["|" + "|".join(f" {cell} " if cell != "" else " " for cell in line) + "|" for line in body]
    return "\n".join([texts[0], "|" + "---|" * len(header), *texts[1:]])


def grid(
    corner: str,
    columns: Mapping[Any, Column],
    lines: Mapping[str, Line],
    cell: Callable[[Line, Column], object],
    *more: Sequence[object],
) -> str:
    """A table with a cell for each line and column, by their titles. more: whole lines after these."""
    made = ((title, *(cell(line, column) for column in columns.values())) for title, line in lines.items())
    return table((corner, *columns), [*made, *more])


def code(lines: Iterable[str]) -> str:
    """Lines as a Markdown code block."""
    return "\n".join(f"    {line}".rstrip() for line in lines)
