"""A speed run: measures every cell of a config once, into the run's folder."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

import yaml

from parser.bounded_yaml import load, read_text
from parser.config_file import read_settings
from parser.console import say
from parser.speed.cells import Cell, cells_of, interleaved_groups, passing, read_filter
from parser.speed.discovery import find
from parser.speed.former_names import config_with_new_names
from parser.speed.machine_load import MachineLoad
from parser.speed.progress import CellProgress
from parser.speed.row_file import RowFile, has_rows
from parser.speed.rows import OK, Row
from parser.speed.settings import SpeedConfig
from parser.speed.turns import References, measure_interleaved

ROWS, CONFIG = "rows.jsonl", "config.yaml"


def measure(config: SpeedConfig, folder: Path, only: str, minutes: float = math.inf) -> list[Row]:
    """Measure the cells that pass a filter and have no row in the folder yet. Returns all their rows.

    only: a text for `read_filter`; minutes: after these, no further group of cells is begun. Cells that
    failed are measured again. Raises ValueError for a config that cannot be measured, or not in this folder.
    """
    end = time.monotonic() + 60 * minutes
    requested = passing(cells_of(config, find), read_filter(only)) if config.experiments else []
    _refuse_other_measuring(config, folder)
    rows = RowFile(folder / ROWS)
    folder.mkdir(parents=True, exist_ok=True)
    if not has_rows(folder / ROWS):
        (folder / ROWS).touch()  # by which the folder is known as that of a run
    (folder / CONFIG).write_text(yaml.safe_dump(config.model_dump(), sort_keys=False), encoding="utf-8")
    missing = [cell for cell in requested if _is_missing(rows.find(cell))]
    missing.sort(key=lambda cell: rows.find(cell) is not None)  # those that failed come last
    if len(missing) < len(requested):
        say(f"{len(requested) - len(missing)} of {len(requested)} cells were measured before, in {folder}")
    left = _measure_missing(missing, config, rows, only, end)
    if left:
        say(f"stopped after {minutes:g} minutes; {left} cells are left, continue with the same command")
    return rows.of(requested)


def read_run_config(folder: Path) -> SpeedConfig:
    """The config of a run, which may be of an older version. Raises ConfigError, FileNotFoundError."""
    try:
        content = load(read_text(folder / CONFIG))
        return SpeedConfig.model_validate(config_with_new_names(content))
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError):
        return read_settings(folder / CONFIG, SpeedConfig)  # raises an error that names the line


def _refuse_other_measuring(config: SpeedConfig, folder: Path) -> None:
    """The rows of one folder must have been measured in the same way."""
    if not has_rows(folder / ROWS) or not (folder / CONFIG).is_file():
        return
    before = read_run_config(folder)
    for key in ("seconds", "relative_error", "turn", "warmup"):
        old, new = getattr(before, key), getattr(config, key)
        if old != new:
            raise ValueError(
                f"{folder} was measured with {key}: {old}, not {new}; continue with that, or name another "
                "folder with --run"
            )


def rows_of(folder: Path, config: SpeedConfig) -> list[Row]:
    """The rows of a config's cells. Raises FileNotFoundError, or ValueError if there are none."""
    if not has_rows(folder / ROWS):
        raise FileNotFoundError(2, "holds no speed run", str(folder))
    rows = RowFile(folder / ROWS).of(cells_of(config, find))
    if not rows:
        raise ValueError(f"{folder}: none of the cells of its {CONFIG} has been measured")
    return rows


def _is_missing(row: Row | None) -> bool:
    return row is None or row["status"] != OK


def _measure_missing(cells: Sequence[Cell], config: SpeedConfig, rows: RowFile, only: str, end: float) -> int:
    """Returns how many cells are left at the end, which is a time of `time.monotonic`."""
    references, left = References(config.timeout), len(cells)
    with CellProgress(len(cells)) as progress:
        load = MachineLoad(say)
        if cells:
            load.check()
        for group in interleaved_groups(cells, config.together):
            if time.monotonic() >= end:
                break
            left -= len(group)
            for cell, row in measure_interleaved(group, config, references, progress, load):
                rows.add(cell, {**row, "only": only})
                say(summary(cell, row))
    return left


def summary(cell: Cell, row: Row) -> str:
    """The result of a cell in one line."""
    if "interval" not in row:
        return f"{cell.name:<60} {row['status']}"
    low, high = row["interval"]
    return (
        f"{cell.name:<60} {row['sentences_per_second']:9,.1f} sentences/s [{low:,.1f}, {high:,.1f}]  "
        f"MFU {row['mfu']:.3f}"
    )
