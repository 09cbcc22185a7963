"""Rows that are kept in docs/measurements, and single cells of speed runs."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from parser.speed.measuring.rows import CellRow, FailedRow, RowFile, SpeedRow, read_content
from parser.speed.measuring.statistics import Estimate
from parser.speed.reporting.speed_ups import ratio

MEASUREMENTS = Path(__file__).parent.parent.parent / "docs/measurements"
Row = dict[str, Any]


@cache
def rows(path: str) -> list[Row]:
    """All rows of a file below docs/measurements, which may be compressed. Raises FileNotFoundError."""
    content = read_content(MEASUREMENTS / path)
    if not content:
        raise FileNotFoundError(2, "there are no rows", path)
    return [json.loads(line) for line in content.splitlines()]


def printed(file: str, words: str) -> list[str]:
    """What commands printed. Raises ValueError if there is no such command.

    file: of scripts/keep_output.py. words: the name of rows or their whole command; otherwise all commands
    that have these words are taken.
    """
    named = [row for row in rows(file) if words in (row.get("name"), " ".join(row["command"]))]
    kept = named or [row for row in rows(file) if words in " ".join(row["command"])]
    if not kept:
        raise ValueError(f"{file} has no command with {words!r}")
    return [line for row in kept for line in row["printed"]]


def runs_of_table(name: str) -> dict[str, list[Row]]:
    """The training runs of each row of a table."""
    found: dict[str, list[Row]] = {}
    for run in rows(f"accuracy/{name}.jsonl"):
        found.setdefault(run["name"], []).append(run)
    return found


class SpeedRun(NamedTuple):
    """The cells of a run of `stack-parser speed` that were measured to their end."""

    rows: list[SpeedRow]

    def cell(self, experiment: str, cell: str, mode: str = "train", precision: str = "float32") -> SpeedRow:
        """cell: METHOD@BATCH_SIZE. Raises ValueError if it was not measured."""
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
        """Of the speeds of two cells of an experiment."""
        return ratio(self.cell(experiment, first, mode), self.cell(experiment, second, mode))


@cache
def speed_run(name: str) -> SpeedRun:
    """name: its folder below docs/measurements/speed."""
    file = RowFile[CellRow](MEASUREMENTS / "speed" / name / "rows.jsonl", SpeedRow, FailedRow)
    return SpeedRun([row for row in file.rows if isinstance(row, SpeedRow)])
