"""`stack-parser table`: train the parsers of a table, and write it."""

from __future__ import annotations

import argparse
from pathlib import Path

from parser.system.console import say
from parser.system.files import refuse_to_overwrite
from parser.tables.report import write_table
from parser.training.data import files_needed
from parser.training.runs import RUNS, claimed_folder, run_missing, train_missing
from parser.training.table import read_table


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
