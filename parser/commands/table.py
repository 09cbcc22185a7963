"""`stack-parser table`: train the parsers of a table, and write it."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from parser.config.file import flat, read_settings
from parser.system.console import say
from parser.system.files import file_lock, refuse_folder_of_others, refuse_to_overwrite
from parser.tables.report import write_table
from parser.tables.runs import ROWS, RUNS, Job, Row, jobs_of, read_rows, rows_of, run_missing
from parser.tables.settings import PlotSettings, TableConfig
from parser.training.data import files_needed

LOCK = "lock"


def make_table(options: argparse.Namespace) -> None:
    """Train the missing runs and write the table, also after each run. Raises ValueError, StoppedError."""
    folder = options.folder or Path("runs") / "tables" / options.config.stem
    table, jobs = read_table(options.config)
    for job in jobs:
        refuse_to_overwrite(folder / RUNS / job.folder_name, files_needed(job.config))
    with claimed_folder(folder, "--run"):
        runs = run_missing(jobs, folder, table.together)
        report = train_missing(jobs, folder, runs, lambda done: write_table(table, done, folder))
    say(f"table: {report}")


@contextmanager
def claimed_folder(folder: Path, option: str) -> Iterator[None]:
    """Lock the folder of a table. option: the option that names the folder, for messages.

    Raises ValueError if another process holds the lock, or if the folder contains something else.
    """
    refuse_folder_of_others(folder, (folder / ROWS).is_file(), LOCK, option)
    folder.mkdir(parents=True, exist_ok=True)
    if_locked = f"{folder}: another process makes a table there; choose another folder with {option}"
    with file_lock(folder / LOCK, if_locked):
        (folder / ROWS).touch()
        yield


def train_missing(
    jobs: Sequence[Job], folder: Path, runs: Iterator[Job], write: Callable[[dict[Job, Row]], Path]
) -> Path:
    """Train the missing runs, and write the table before the first and after each; returns the table's path.

    runs: see `run_missing`; raises what that raises. write: writes the table of the finished rows.
    """
    report = write(rows_of(jobs, read_rows(folder / ROWS)))
    for job in runs:
        done = rows_of(jobs, read_rows(folder / ROWS))
        row = done[job]
        las = (f", {split} LAS {row[split]['las']:.2f}" for split in ("dev", "test") if row[split])
        say(f"{job.name}, seed {job.seed}: {row['seconds'] / 60:.1f} min{''.join(las)}")
        report = write(done)
    return report


def read_table(path: Path) -> tuple[TableConfig, list[Job]]:
    """Read a table and all its runs. Raises FileNotFoundError, and ValueError for an invalid table."""
    table = read_settings(path, TableConfig)
    jobs = jobs_of(table, path.stem)
    if not jobs:
        raise ValueError(f"{path}: there are neither rows nor a search")
    if table.search and any(job.config.treebank.dev is None for job in jobs):
        raise ValueError(f"{path}: a search has its best rows on dev first, and treebank.dev is null")
    if table.baseline is not None and table.baseline not in table.all_rows:
        known = ", ".join(table.all_rows)
        raise ValueError(f"{path}: baseline: there is no row {table.baseline!r}; the rows are {known}")
    if table.plot:
        _check_plot(table.plot, jobs, path)
    return table, jobs


def _check_plot(plot: PlotSettings, jobs: Sequence[Job], path: Path) -> None:
    """Raises ValueError for unknown keys, for an axis without numbers and for rows without test scores."""
    for job in jobs:
        if not job.config.treebank.test:
            raise ValueError(f"{path}: plot: test LAS is drawn, and {job.name!r} has no treebank.test")
    for name, key in (("x", plot.x), ("lines", plot.lines)):
        for job in jobs:
            values = flat(job.config.model_dump())
            if key not in values:
                near = difflib.get_close_matches(key, values, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ValueError(f"{path}: plot.{name}: the config of {job.name!r} has no {key}{hint}")
            if name == "x" and not (isinstance(values[key], (int, float)) and values[key] > 0):
                raise ValueError(
                    f"{path}: plot.x: {key} of {job.name!r} is {values[key]!r}, not a positive number"
                )
    rows: dict[tuple[str, str], str] = {}
    for job in jobs:
        values = flat(job.config.model_dump())
        point = str(values[plot.x]), str(values[plot.lines])
        if (other := rows.setdefault(point, job.name)) != job.name:
            raise ValueError(
                f"{path}: plot: {other!r} and {job.name!r} are at one place, and would be taken for seeds"
            )
