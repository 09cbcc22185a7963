"""`stack-parser parse-corpus`: parse all files in a folder on the machines of a Ray cluster."""

from __future__ import annotations

import argparse
from pathlib import Path

from parser.commands.options import (
    models_of,
    parse_options,
    part_settings,
    prepared_device,
    refuse_parse_options,
    refuse_to_write_tags,
    tell_dropped,
    tell_filled,
    warning_of,
)
from parser.models.column_shares import Counts, InputColumnCheck
from parser.models.loading import load_models
from parser.parsing.corpus.run import Summary, parse_corpus, report_path
from parser.parsing.part_parser import PartSettings
from parser.system.console import LinesError, counted, warn
from parser.system.files import real_path, refuse_to_overwrite
from parser.system.progress_bar import PROGRESS_BAR, ProgressBar
from parser.system.ray_cluster import refuse_silent

FAILURES_SHOWN = 20
"""Maximum number of files whose faults are printed."""


def parse_folder(options: argparse.Namespace) -> None:
    refuse_to_overwrite(options.target, [options.source, *models_of(options).paths])
    if options.address is not None:
        refuse_silent(options.address)
    if not options.source.is_dir():
        raise ValueError(f"{options.source}: is no folder")
    settings, check = _settings(options)
    with ProgressBar(desc="parsing", unit="file", **PROGRESS_BAR) as bar:

        def progress(summary: Summary, files: int) -> None:
            bar.total = files
            bar.set_postfix(sentences=f"{summary.totals.sentences:,}", refresh=False)
            bar.update(summary.files + len(summary.failures) - bar.n)

        report = parse_corpus(
            options.source, options.target, settings, options.address, options.workers, progress
        )
    tell_dropped(report["dropped"], str(options.source))
    tell_filled(report["filled"], options)
    columns = {name: Counts(**counts) for name, counts in report["columns"].items()}
    if columns:
        check.add(columns, warning_of(str(options.source)))
    _tell(report, options.target)


def _settings(options: argparse.Namespace) -> tuple[PartSettings, InputColumnCheck]:
    """Return the settings of workers, and a check that warns if the input lacks columns that the model reads.

    Raises ValueError, before any work is done, if the model does not support the options.
    """
    wanted = parse_options(options)
    device = prepared_device(options)
    if device != "cpu":
        raise ValueError("parse-corpus is for CPUs: use --device cpu, or parse on a GPU")
    models = models_of(options)
    models = models._replace(paths=tuple(map(real_path, models.paths)))
    model = load_models(models)
    refuse_to_write_tags(options, model)
    refuse_parse_options(wanted, model)
    return part_settings(options, models, wanted), model.watch(bool(options.form))


def _tell(report: dict, target: Path) -> None:
    """Print a summary of the report. Raises ValueError if there are failures."""
    before = f", {report['done_before']:,} were there already" if report["done_before"] else ""
    others = f", {report['other_files']:,} with other suffixes left out" if report["other_files"] else ""
    warn(
        f"{counted(report['files'], 'file')}{before}{others}; {counted(report['sentences'], 'sentence')}, "
        f"{report['words']:,} words in {report['seconds']:.1f} s, "
        f"of which {report['seconds_to_start']:.1f} s to start: "
        f"{report['sentences_per_second']:,.0f} sentences/s by {counted(report['workers'], 'worker')}"
    )
    if failures := report["failures"]:
        told = [
            line if name in line else f"{name}: {line}"
            for name, lines in list(failures.items())[:FAILURES_SHOWN]
            for line in lines
        ]
        more = [f"and {len(failures) - FAILURES_SHOWN:,} more"] if len(failures) > FAILURES_SHOWN else []
        summary = f"{counted(len(failures), 'file')} could not be parsed; see {report_path(target)}"
        raise LinesError(*told, *more, summary)
