"""Reads the rows kept in docs/measurements, and formats them as Markdown tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from parser.speed.measuring.rows import OK, CellRow, FailedRow, RowFile, SpeedRow, read_content
from parser.speed.measuring.statistics import Estimate
from parser.speed.reporting.speed_ups import ratio
from parser.tables.report import difference

MEASUREMENTS = Path(__file__).parent.parent.parent / "docs/measurements"
TRAINING_RUNS, OUTPUT = "accuracy/rows.jsonl", "accuracy/printed.jsonl"
"""The rows of training runs, and the output of commands on trained parsers."""
Row = dict[str, Any]
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


def latest(path: str) -> list[Row]:
    """The last row of each program in a file, if its measurement succeeded."""
    found = {row["name"]: row for row in rows(path)}
    return [row for row in found.values() if row["status"] == OK]


def printed(file: str, words: str) -> list[str]:
    """The lines that commands printed, by `kept_output`."""
    return [line for row in kept_output(file, words) for line in row["printed"]]


def kept_output(file: str, words: str) -> list[Row]:
    """The rows of commands. Raises ValueError if there is no such command.

    file: written by scripts/keep_output.py. words: the name of rows or their whole command; otherwise all
    commands that contain these words are taken.
    """
    named = [row for row in rows(file) if words in (row.get("name"), " ".join(row["command"]))]
    kept = named or [row for row in rows(file) if words in " ".join(row["command"])]
    if not kept:
        raise ValueError(f"{file} has no command with {words!r}")
    return kept


def processor(cpu: str, vectors: str) -> str:
    """The name of a processor and its vector instructions."""
    return f"{cpu.replace('(R)', '').replace(' Processor', '')}, {vectors.replace('AVX512', 'AVX-512')}"


def training_runs(table: str | None) -> list[Row]:
    """The training runs of a table, or of no table if it is None. Raises ValueError if there are none."""
    found = [run for run in rows(TRAINING_RUNS) if run["table"] == table]
    if not found:
        raise ValueError(f"{TRAINING_RUNS} has no row of the table {table}")
    return found


def tables() -> list[str]:
    """The names of all tables of training runs."""
    return sorted({run["table"] for run in rows(TRAINING_RUNS) if run["table"]})


def runs_of_table(name: str) -> dict[str, list[Row]]:
    """The training runs of each row of a table."""
    found: dict[str, list[Row]] = {}
    for run in training_runs(name):
        found.setdefault(run["name"], []).append(run)
    return found


def only_runs(name: str) -> dict[str, Row]:
    """The runs of a table with one seed, by their names."""
    return {name: runs[0] for name, runs in runs_of_table(name).items()}


class SpeedRun(NamedTuple):
    """The completely measured cells of a run of `stack-parser speed`."""

    rows: list[SpeedRow]

    def cell(self, experiment: str, cell: str, mode: str = "train", precision: str = "float32") -> SpeedRow:
        """The row of a cell. cell: METHOD@BATCH_SIZE. Raises ValueError if it was not measured."""
        method, _, size = cell.rpartition("@")
        wanted = experiment, method, int(size), mode, precision
        for row in self.rows:
            if (row.experiment, row.method, row.batch_size, row.mode, row.precision) == wanted:
                return row
        raise ValueError(f"{experiment}: {cell} was not measured in {mode}, {precision}")

    def has(self, experiment: str, cell: str, mode: str = "train") -> bool:
        method, _, size = cell.rpartition("@")
        wanted = (experiment, method, int(size), mode)
        return any((row.experiment, row.method, row.batch_size, row.mode) == wanted for row in self.rows)

    def ratio(self, experiment: str, first: str, second: str, mode: str = "train") -> Estimate:
        """The speed of the first cell over that of the second, in one experiment."""
        return ratio(self.cell(experiment, first, mode), self.cell(experiment, second, mode))


@cache
def speed_run(name: str) -> SpeedRun:
    """Read a speed run. name: its folder below docs/measurements/speed."""
    file = RowFile[CellRow](MEASUREMENTS / "speed" / name / "rows.jsonl", SpeedRow, FailedRow)
    return SpeedRun([row for row in file.rows if isinstance(row, SpeedRow)])


def table(header: Sequence[object], lines: Iterable[Sequence[object]]) -> str:
    """A Markdown table. Raises ValueError for a line whose length differs from the header's."""
    body = [_line(header), "|" + "---|" * len(header)]
    for cells in lines:
        if len(cells) != len(header):
            raise ValueError(f"{len(cells)} cells in a table of {len(header)} columns: {cells}")
        body.append(_line(cells))
    return "\n".join(body)


def _line(cells: Sequence[object]) -> str:
    return "|" + "|".join(f" {cell} " if cell != "" else " " for cell in cells) + "|"


def code(lines: Iterable[str]) -> str:
    """Lines as a Markdown code block."""
    return "\n".join(f"    {line}".rstrip() for line in lines)


def scores(run: Row, *which: str) -> list[str]:
    """The scores of a run with two decimals. which: such as `test las`."""
    parts = (each.split() for each in which)
    return [f"{run[split][measure]:.2f}" for split, measure in parts]


def mean_las(runs: Sequence[Row], split: str) -> str:
    return f"{mean(run[split]['las'] for run in runs):.2f}"


def spread_las(runs: Sequence[Row], split: str) -> str:
    """The mean LAS of runs, with the lowest and the highest."""
    found = [run[split]["las"] for run in runs]
    return f"{mean(found):.2f} ({min(found):.2f}, {max(found):.2f})"


def las_difference(ours: Sequence[Row], theirs: Sequence[Row], split: str) -> str:
    """The mean difference in LAS between runs with equal seeds, with its interval if there are several."""
    own, other = ({run["seed"]: run[split]["las"] for run in runs} for runs in (ours, theirs))
    return re.sub(r", (one seed|\d+ seeds)$", "", difference(own, other))


def minutes(run: Row) -> str:
    taken = run["seconds"] / 60
    return f"{taken:.1f}" if taken < 10 else f"{taken:.0f}"


def mean_minutes(runs: Sequence[Row]) -> str:
    return f"{mean(run['seconds'] for run in runs) / 60:.1f}"


def plain_speed(value: float) -> str:
    """A speed with one decimal below 100, and with none from 100 on."""
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def ratios(run: SpeedRun, lines: Iterable[tuple[str, str, str, str]], digits: int = 2) -> str:
    """A table of ratios of speeds in training.

    lines: the title, the experiment, and METHOD@BATCH_SIZE of both cells.
    """
    return table(
        ("", "speed of", "over that of", "ratio"),
        (
            (what, f"`{first}`", f"`{second}`", f"{run.ratio(experiment, first, second):.{digits}f}")
            for what, experiment, first, second in lines
        ),
    )
