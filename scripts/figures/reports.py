"""How the report of each kept measurement is drawn from its rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from prediction.report import write_prediction

from figures.kept import MEASUREMENTS, rows
from parser.speed.measuring.run import CONFIG, read_run_config, rows_of
from parser.speed.reporting.report import write_report
from parser.tables.commands import read_table
from parser.tables.report import write_table
from parser.tables.runs import rows_of as rows_of_table

TABLES = MEASUREMENTS.parent.parent / "configs/tables"
PREDICTION = "speed/predicted-gpu"
Draw = Callable[[Path], None]
"""Writes a report into a folder."""


def reports() -> dict[str, Draw]:
    """How to draw each report, by its name, which is also that of its folder."""
    runs = sorted(path.parent for path in MEASUREMENTS.rglob(CONFIG))
    found = {run.relative_to(MEASUREMENTS).as_posix(): partial(draw_run, run) for run in runs}
    for path in sorted(MEASUREMENTS.glob("accuracy/*.jsonl")):
        config = TABLES / f"{path.stem}.yaml"
        if config.is_file():
            found[f"accuracy/{path.stem}"] = partial(draw_table, config, path)
    return {**found, PREDICTION: draw_prediction}


def draw_run(run: Path, folder: Path) -> None:
    """The report of a run of `stack-parser speed`."""
    config = read_run_config(run)
    write_report(rows_of(run, config), folder)


def draw_table(config: Path, path: Path, folder: Path) -> None:
    """The report of a table of training runs."""
    table, jobs = read_table(config)
    write_table(table, rows_of_table(jobs, path), folder)


def draw_prediction(folder: Path) -> None:
    write_prediction(rows(f"{PREDICTION}/rows.jsonl"), folder)
