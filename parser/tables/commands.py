"""The command `table`. Apart, for the other commands do not need what draws plots."""

from __future__ import annotations

from pathlib import Path

from parser.config_file import read_settings
from parser.console import say
from parser.tables.report import write_table
from parser.tables.runs import rows_of, run_missing
from parser.tables.settings import TableConfig


def make_table(path: Path, folder: Path) -> None:
    """Run what is missing; the table is written again after each run. Raises ValueError, StoppedError."""
    table = read_settings(path, TableConfig)
    _check_baseline(table, path)
    folder.mkdir(parents=True, exist_ok=True)
    for job in run_missing(table, folder):
        done = rows_of(table, folder)
        row = done[job]
        scores = ", ".join(f"{split} LAS {row[split]['las']:.2f}" for split in ("dev", "test") if row[split])
        say(f"{job.name}, seed {job.seed}: {scores} in {row['seconds'] / 60:.1f} min")
        write_table(table, done, folder)
    print(f"table: {write_table(table, rows_of(table, folder), folder)}")


def _check_baseline(table: TableConfig, path: Path) -> None:
    if table.baseline is not None and table.baseline not in table.rows:
        raise ValueError(
            f"{path}: baseline: there is no row {table.baseline!r}; the rows are {', '.join(table.rows)}"
        )
