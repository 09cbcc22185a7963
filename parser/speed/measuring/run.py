"""A speed run: measures every cell of a config once, into the run's folder."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from parser.config.file import read_settings
from parser.speed.measuring.cells import Cell, SpeedConfig, cells_of, interleaved_groups, passing, read_filter
from parser.speed.measuring.external import external_rows
from parser.speed.measuring.learning import Curve, learned
from parser.speed.measuring.rows import CellRow, ExternalRow, FailedRow, RowFile, SpeedRow, has_rows
from parser.speed.measuring.turns import CellProgress, MachineLoad, References, measure_interleaved
from parser.speed.tasks.discovery import find
from parser.system.console import say
from parser.system.files import write_atomically

ROWS, CONFIG = "rows.jsonl", "config.yaml"


@dataclass(frozen=True)
class RunRows:
    """All measurements in the folder of a run."""

    cells: Sequence[CellRow]
    learning: Sequence[Curve | FailedRow]
    external: Sequence[ExternalRow]

    @property
    def measured(self) -> list[SpeedRow]:
        """The rows of cells that did not fail."""
        return [row for row in self.cells if isinstance(row, SpeedRow)]


def measure_cells(config: SpeedConfig, folder: Path, only: str, minutes: float = math.inf) -> list[CellRow]:
    """Measure the cells that pass a filter and have no row in the folder. Returns the rows of all that pass.

    only: a text for `read_filter`; minutes: the time after which no further group of cells is started. Cells
    that failed are measured again. Raises ValueError for a config that cannot be measured, or not in this
    folder.
    """
    end = time.monotonic() + 60 * minutes
    requested = requested_cells(config, only)
    rows = _row_file(folder)
    if any(isinstance(row, SpeedRow) for row in rows.rows) and (folder / CONFIG).is_file():
        before = read_run_config(folder)
        for key in ("seconds", "relative_error", "turn", "warmup"):
            old, new = getattr(before, key), getattr(config, key)
            if old != new:
                raise ValueError(
                    f"{folder} was measured with {key}: {old}, not {new}; continue with that, or name "
                    "another folder with --run"
                )
    folder.mkdir(parents=True, exist_ok=True)
    if not has_rows(folder / ROWS):
        (folder / ROWS).touch()  # marks the folder as that of a run
    write_atomically(folder / CONFIG, yaml.safe_dump(config.model_dump(), sort_keys=False).encode())
    missing = [cell for cell in requested if not isinstance(rows.find(cell), SpeedRow)]
    missing.sort(key=lambda cell: rows.find(cell) is not None)  # failed cells come last
    if len(missing) < len(requested):
        say(f"{len(requested) - len(missing)} of {len(requested)} cells were measured before, in {folder}")
    references, left = References(config.timeout), len(missing)
    with closing(CellProgress(left)) as progress:
        load = MachineLoad(say)
        if missing:
            load.check()
        for group in interleaved_groups(missing, config.together):
            if time.monotonic() >= end:
                break
            left -= len(group)
            for row in measure_interleaved(group, config, references, progress, load):
                rows.add(replace(row, only=only))
                say(summary(row))
    if left:
        say(f"stopped after {minutes:g} minutes; {left} cells are left, continue with the same command")
    return rows.of(requested)


def requested_cells(config: SpeedConfig, only: str) -> list[Cell]:
    """Return the cells of a config that pass a filter, a text for `read_filter`. Raises ValueError."""
    return passing(cells_of(config, find), read_filter(only)) if config.experiments else []


def read_run_config(folder: Path) -> SpeedConfig:
    """Return the config of a run. Raises ConfigError, and FileNotFoundError if the folder has no run."""
    if not (folder / CONFIG).is_file() and not has_rows(folder / ROWS):
        raise FileNotFoundError(2, "holds no speed run", str(folder))
    return read_settings(folder / CONFIG, SpeedConfig)


def rows_of(folder: Path, config: SpeedConfig) -> RunRows:
    """Return a config's rows in a run's folder. Raises FileNotFoundError, or ValueError if there are none."""
    cells: list[CellRow] = []
    if config.experiments:
        if not has_rows(folder / ROWS):
            raise FileNotFoundError(2, "holds no speed run", str(folder))
        cells = _row_file(folder).of(cells_of(config, find))
        if not cells:
            raise ValueError(f"{folder}: none of the cells of its {CONFIG} has been measured")
    rows = RunRows(cells, learned(config, folder), external_rows(config, folder))
    if not rows.cells and not rows.external:
        raise ValueError(f"{folder}: nothing has been measured yet")
    return rows


def kept_rows(folder: Path, only: str = "") -> list[CellRow]:
    """Return the rows in a run's folder, whether or not their plugins are installed.

    Experiments and methods are in the order of the run's config; without a config, in that of measurement.
    only: a text for `read_filter`. Raises FileNotFoundError, and ValueError if there are no rows.
    """
    if not has_rows(folder / ROWS):
        raise FileNotFoundError(2, "holds no speed run", str(folder))
    rows = _row_file(folder).rows
    if (folder / CONFIG).is_file():
        experiments = read_run_config(folder).experiments.items()
        pairs = [(name, method) for name, own in experiments for method in own.methods or ()]
        places = {pair: place for place, pair in enumerate(pairs)}
        rows.sort(key=lambda row: places.get((row.experiment, row.method), len(places)))
    rows = passing(rows, read_filter(only))
    if not rows:
        raise ValueError(f"{folder}: nothing has been measured yet")
    return rows


def _row_file(folder: Path) -> RowFile[CellRow]:
    return RowFile(folder / ROWS, SpeedRow, FailedRow)


def summary(row: CellRow) -> str:
    """Return the result of a cell in one line."""
    if isinstance(row, FailedRow):
        return f"{row.name:<60} {row.status}"
    value, low, high = row.speed
    return f"{row.name:<60} {value:9,.1f} {row.examples}/s [{low:,.1f}, {high:,.1f}]  MFU {row.mfu:.3f}"
