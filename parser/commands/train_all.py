"""`stack-parser train-all`: train a parser for each treebank in a folder, like a table of these treebanks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from parser.commands.errors import message_of
from parser.commands.table import claimed_folder, train_missing
from parser.system.console import counted, say
from parser.system.files import real_path, refuse_to_overwrite, write_atomically
from parser.system.ray_cluster import refuse_silent
from parser.tables.cluster_runs import run_on_cluster
from parser.tables.found_treebanks import FoundTreebank, found_row
from parser.tables.kept_models import keep_model, write_index
from parser.tables.published_scores import PublishedScores, read_published
from parser.tables.report_lines import report_line
from parser.tables.runs import ROWS, Job, Row, jobs_of, read_rows, rows_of, run_missing
from parser.tables.settings import TableConfig
from parser.tables.treebank_report import write_treebank_report
from parser.training.config import Config, changed_settings, read_config
from parser.training.data import other_files_needed, provenances
from parser.treebank.ud_folders import TreebankFolders, find_treebanks

PREPARED = "treebanks"
"""The folder of prepared files that the treebanks lack."""
CHOICES = "choices.json"


class _Plan(NamedTuple):
    title: str
    jobs: list[Job]
    """Jobs, the longest first."""
    found: dict[str, FoundTreebank]
    """Treebanks by name."""
    skipped: dict[str, str]
    """Reasons why treebanks are not trained, by name."""


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
        plan = _plan(folders, config, options)
        _refuse_other_treebanks(plan.jobs, folder)
        _tell(plan, folder)
        if not plan.jobs:
            raise ValueError(f"{options.source}: no treebank can be trained")
        if options.address:
            runs = run_on_cluster(plan.jobs, folder, options.address)
        else:
            runs = run_missing(plan.jobs, folder, options.processes)
        report = train_missing(plan.jobs, folder, runs, lambda done: _write(plan, done, published, folder))
    say(f"models and table: {report}")


def _plan(folders: TreebankFolders, config: Config, options: argparse.Namespace) -> _Plan:
    title = f"Treebanks in {real_path(options.source).name} with {options.config.name}"
    jobs: list[Job] = []
    found, skipped = {}, dict(folders.left_out)
    for treebank in folders.treebanks:
        try:
            own = found_row(treebank, config, options.output / PREPARED)
            table = TableConfig(title=title, base=str(options.config), rows={treebank.name: own.row})
            jobs += jobs_of(table, options.config.stem)
        except (ValueError, OSError) as error:
            skipped[treebank.name] = message_of(error)[0]
        else:
            found[treebank.name] = own
    for job in jobs:
        own = found[job.name]
        rule = config.small_treebank
        if rule and own.size.words < rule.words and (other := changed_settings(config, job.config)):
            told = f"small, with {counted(own.size.words, 'word')}: {other}"
            found[job.name] = own._replace(choices=(*own.choices, told))
    # Sorted by their approximate duration.
    jobs.sort(key=lambda job: -job.config.training.epochs * found[job.name].size.words)
    return _Plan(title, jobs, found, skipped)


def _refuse_other_treebanks(jobs: Sequence[Job], folder: Path) -> None:
    """Raises ValueError if a finished run was trained with files that have changed since."""
    for job, row in rows_of(jobs, read_rows(folder / ROWS)).items():
        for path, version in provenances(job.config).items():
            before = row["treebanks"].get(path)
            if before and version and before["sha256"] != version["sha256"]:
                raise ValueError(
                    f"{folder}: {job.name} was trained before {path} changed; give another folder with -o"
                )


def _tell(plan: _Plan, folder: Path) -> None:
    """Print and save which treebanks are trained, with which settings, and which are not."""
    for name, why in plan.skipped.items():
        say(f"{name}: left out: {why}")
    for name, own in plan.found.items():
        say(*(f"{name}: {choice}" for choice in own.choices))
    content = {
        "choices": {name: own.choices for name, own in plan.found.items()},
        "left_out": plan.skipped,
    }
    write_atomically(folder / CHOICES, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def _write(plan: _Plan, done: dict[Job, Row], published: PublishedScores | None, folder: Path) -> Path:
    for job, row in done.items():
        keep_model(job, plan.found[job.name], row, folder)
    write_index(done, plan.found, folder)
    lines = [report_line(job, row, plan.found[job.name], folder, published) for job, row in done.items()]
    return write_treebank_report(plan.title, lines, plan.found, plan.skipped, folder)
