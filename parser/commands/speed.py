"""`stack-parser speed`, `plots` and `plugins`: measure and compare batching methods."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parser.config.file import ConfigFile
from parser.speed.measuring import external, learning, run
from parser.speed.measuring.cells import SpeedConfig, on_this_machine
from parser.speed.measuring.external import external_is_left, measure_external
from parser.speed.measuring.learning import learn, learning_cells, learning_is_left
from parser.speed.measuring.rows import SKIPPED, WRONG, CellRow, FailedRow, has_rows
from parser.speed.measuring.run import (
    RunRows,
    kept_rows,
    measure_cells,
    read_run_config,
    requested_cells,
    rows_of,
)
from parser.speed.reporting.speed_ups import ratio_lines, read_ratio
from parser.speed.tasks.conformance import check_plugin
from parser.speed.tasks.discovery import about_plugins, entry_of, find, plugin_text, unknown
from parser.speed.tasks.plugin import FEW_EXAMPLES
from parser.system.console import LinesError, say
from parser.system.files import file_lock, real_path, refuse_folder_of_others
from parser.system.pytorch import tune_process

if TYPE_CHECKING:
    from parser.pages.plot_style import Look

ROW_FILES = run.ROWS, external.ROWS, learning.ROWS
"""The folder of a run contains at least one of these files."""
LOCK = "lock"


def measure(options: argparse.Namespace) -> None:
    tune_process()
    folder = options.folder or Path("runs") / "speed" / options.config.stem
    speed(options.config, options.overrides, folder, options.only, options.ratio, options.minutes)


def speed(
    path: Path,
    overrides: Sequence[str],
    folder: Path,
    only: str,
    ratios: Sequence[str],
    minutes: float | None,
) -> None:
    """Measure the cells of a config, write the report and print the requested ratios.

    minutes: the time after which no further group of cells is started. If it is given, `external` and
    `learning` are not measured. Raises ValueError, in the end, if results differ from those without batching.
    """
    config = on_this_machine(read_config(path, overrides))
    for text in ratios:  # find errors before hours of measuring
        read_ratio(text)
    learning_cells(config)
    requested_cells(config, only)
    refuse_folder_of_others(folder, any(has_rows(folder / name) for name in ROW_FILES), LOCK)
    folder.mkdir(parents=True, exist_ok=True)
    with file_lock(folder / LOCK, f"{folder}: another process measures there"):
        rows = measure_cells(config, folder, only, math.inf if minutes is None else minutes)
        if only or not config.external:
            _refuse_all_failed(rows)
        if not only and minutes is None:
            measure_external(config, folder)
            learn(config, folder)
        elif not only:
            left = {
                "external": external_is_left(config, folder),
                "learning": learning_is_left(config, folder),
            }
            for section in (section for section, is_left in left.items() if is_left):
                say(f"`{section}` is left: when no cells are left, give the command without --minutes")
        _write(folder, config, folder)
    for text in ratios:
        say(*ratio_lines(rows, text))
    wrong = [row for row in rows if isinstance(row, FailedRow) and row.status.startswith(WRONG)]
    if wrong:
        raise LinesError(
            "not the results without batching, and left out of plots and ratios:",
            *(f"{row.name}: {row.status}" for row in wrong),
        )


def _refuse_all_failed(rows: Sequence[CellRow]) -> None:
    """Raises ValueError with the reasons if no cell could be measured."""
    failed = [row for row in rows if isinstance(row, FailedRow)]
    if not rows or len(failed) < len(rows):
        return
    nothing = "nothing was measured, and no report is written."
    reasons = list(dict.fromkeys(row.status for row in failed))
    if not all(reason.startswith(SKIPPED) for reason in reasons):
        raise LinesError(f"{nothing} All cells failed; rows.jsonl has the tracebacks:", *reasons)
    raise LinesError(
        f"{nothing} All cells are skipped:",
        *reasons,
        "data are looked for in the folder that PARSER_DATA names, or else in data/ of the working folder; "
        "docs/data.md says how to get them, and how to measure without",
    )


def draw(options: argparse.Namespace) -> None:
    from parser.pages.plot_style import Look

    look = Look(options.format, options.width, options.font_size, options.scale)
    out = options.output or options.folder
    if look == Look() and not options.only and not options.plot and not options.style:
        plots(options.folder, out)
    else:
        pictures(options.folder, out, options.only, options.plot, look, options.style)


def plots(folder: Path, out: Path) -> None:
    """Write the report and the plots of a run again from its rows, into the folder `out`.

    Raises ValueError if that folder contains anything other than reports.
    """
    if real_path(out) != real_path(folder):
        from parser.pages.document import HTML, PLOTS  # Matplotlib: slow to import

        refuse_folder_of_others(out, (out / HTML).is_file(), PLOTS, "-o")
    _write(folder, _without_missing(read_run_config(folder)), out)


def pictures(folder: Path, out: Path, only: str, plot: str, look: Look, style: str | None) -> None:
    """Write only the plots of a run's cells, for a paper.

    folder: the folder of the run; out: the folder for the plots. only: a text for `read_filter`; plot: see
    `write_pictures`; style: a style of Matplotlib, or its file. Raises ValueError and OSError.
    """
    from matplotlib import rc_context
    from matplotlib import style as styles

    from parser.speed.reporting.report import write_pictures

    run = RunRows(kept_rows(folder, only), [], [])
    with rc_context():
        if style:
            try:
                styles.use(style)
            except OSError as error:
                raise ValueError(f"--style: {error}") from None
        say(*map(str, write_pictures(run, out, look, plot)))


def read_config(path: Path, overrides: Sequence[str] = ()) -> SpeedConfig:
    """Read a config, with valid and complete settings of the plugins.

    A run keeps this config, so it stays readable when defaults change. Raises ConfigError, which names the
    lines with errors.
    """
    file = ConfigFile(path, overrides)
    config = _without_missing(file.validated(SpeedConfig))
    completed: dict[str, dict[str, Any]] = {}
    for section, requested in (("experiments", config.experiments), ("learning", config.learning)):
        completed[section] = {}
        for name, own in requested.items():
            settings = file.validated(find(own.plugin).Settings, (section, name, "settings"))
            update = {"settings": settings.model_dump(mode="json")}
            completed[section][name] = own.model_copy(update=update)
    return config.model_copy(update=completed)


def _without_missing(config: SpeedConfig) -> SpeedConfig:
    """Return the config without sections whose plugins are not installed. Raises ValueError if no experiment
    is left.
    """
    found: dict[str, dict[str, Any]] = {}
    for section, requested in (("experiments", config.experiments), ("learning", config.learning)):
        found[section] = {name: own for name, own in requested.items() if entry_of(own.plugin)}
        for name in requested.keys() - found[section].keys():
            say(f"{section}.{name} is skipped: {unknown(requested[name].plugin)}")
    if config.experiments and not found["experiments"] and not config.external:
        raise ValueError("; ".join(unknown(own.plugin) for own in config.experiments.values()))
    return config.model_copy(update=found)


def _write(folder: Path, config: SpeedConfig, out: Path) -> None:
    from parser.speed.reporting.report import write_report  # TensorBoard, Matplotlib: slow to import

    say(f"report: {write_report(rows_of(folder, config), out, real_path(folder).name)}")


def about(options: argparse.Namespace) -> None:
    """Print all plugins, the settings of one plugin, or the results of its check. Raises ValueError."""
    tune_process()
    if options.check and not options.name:
        raise ValueError("--check needs a plugin: stack-parser plugins NAME --check")
    if options.examples is not None and not options.check:
        raise ValueError("--examples needs --check: stack-parser plugins NAME --check --examples N")
    if options.check:
        say(check_plugin(options.name, options.examples or FEW_EXAMPLES))
    else:
        say(*(plugin_text(options.name) if options.name else about_plugins()))
