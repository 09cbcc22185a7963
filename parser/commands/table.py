"""`stack-parser table` and `train-all`: train the parsers of a table, or one for each treebank."""

from __future__ import annotations

import argparse
from pathlib import Path

from parser.commands.errors import message_of
from parser.system.console import say
from parser.system.files import real_path, refuse_to_overwrite
from parser.system.ray_cluster import refuse_silent
from parser.tables.kept_models import keep_model, write_index
from parser.tables.report import write_table
from parser.tables.treebank_report import read_published, report_line, write_treebank_report
from parser.training.cluster_runs import run_on_cluster
from parser.training.config import read_config
from parser.training.data import files_needed, other_files_needed
from parser.training.runs import Job, Row, claimed_folder, run_missing, train_missing
from parser.training.table import read_table
from parser.training.treebanks import plan_treebanks, refuse_other_treebanks, tell_choices
from parser.treebank.ud_folders import find_treebanks


def make_table(options: argparse.Namespace) -> None:
    """Train the missing runs and write the table, also after each run. Raises ValueError, StoppedError."""
    folder = options.folder or Path("runs") / "tables" / options.config.stem
    table, jobs = read_table(options.config)
    for job in jobs:
        refuse_to_overwrite(job.run_in(folder), files_needed(job.config))
    with claimed_folder(folder, "--run"):
        runs = run_missing(jobs, folder, table.together)
        report = train_missing(jobs, folder, runs, lambda done: write_table(table, done, folder))
    say(f"table: {report}")


def train_all(options: argparse.Namespace) -> None:
    """Train the missing runs; write the models and the table after each. Raises ValueError, StoppedError."""
    folder: Path = options.output
    if options.address is not None:
        refuse_silent(options.address)  # before reading all treebanks, which takes minutes
    folders = find_treebanks(options.source, options.only)
    config = read_config(options.config)
    refuse_to_overwrite(
        folder, [*(treebank.folder for treebank in folders.treebanks), *other_files_needed(config)]
    )
    published = read_published(options.published) if options.published else None
    with claimed_folder(folder, "-o"):
        title = f"Treebanks in {real_path(options.source).name} with {options.config.name}"
        plan = plan_treebanks(folders, options.config, title, folder, lambda error: message_of(error)[0])
        refuse_other_treebanks(plan.jobs, folder)
        tell_choices(plan, folder)
        if not plan.jobs:
            raise ValueError(f"{options.source}: no treebank can be trained")

        def write(done: dict[Job, Row]) -> Path:
            for job, row in done.items():
                keep_model(job, plan.found[job.name], row, folder)
            write_index(done, plan.found, folder)
            lines = [
                report_line(job, row, plan.found[job.name], folder, published) for job, row in done.items()
            ]
            return write_treebank_report(plan.title, lines, plan.found, plan.skipped, folder)

        if options.address:
            runs = run_on_cluster(plan.jobs, folder, options.address)
        else:
            runs = run_missing(plan.jobs, folder, options.processes)
        report = train_missing(plan.jobs, folder, runs, write)
    say(f"models and table: {report}")
