"""A whole speed run: every cell of a config, once, into the run's folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml
from tqdm import tqdm

from parser.config_file import read_settings
from parser.speed.cells import Cell, cells_of, passing, read_filter, sittings
from parser.speed.discovery import find
from parser.speed.rows import OK, Row, RowFile
from parser.speed.settings import SpeedConfig
from parser.speed.turns import References, measure_in_turns

ROWS, CONFIG = "rows.jsonl", "config.yaml"


def measure(config: SpeedConfig, folder: Path, only: str) -> list[Row]:
    """Measure the cells that pass a filter and have no row in the folder yet. Returns all their rows.

    only: as `read_filter` takes it. Cells that failed are tried again. Raises ValueError for a config that
    can not be measured, or not in this folder.
    """
    wanted = passing(cells_of(config, find), read_filter(only))
    _refuse_other_measuring(config, folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(yaml.safe_dump(config.model_dump(), sort_keys=False), encoding="utf-8")
    rows = RowFile(folder / ROWS)
    missing = [cell for cell in wanted if _is_missing(rows.find(cell))]
    if len(missing) < len(wanted):
        tqdm.write(f"{len(wanted) - len(missing)} of {len(wanted)} cells were measured before, in {folder}")
    _measure_missing(missing, config, rows, only)
    return rows.of(wanted)


def _refuse_other_measuring(config: SpeedConfig, folder: Path) -> None:
    """Rows of one folder must have been measured alike."""
    if not (folder / ROWS).is_file() or not (folder / CONFIG).is_file():
        return
    before = read_settings(folder / CONFIG, SpeedConfig)
    for key in ("seconds", "precision", "turn", "warmup"):
        old, new = getattr(before, key), getattr(config, key)
        if old != new:
            raise ValueError(
                f"{folder} was measured with {key}: {old}, not {new}; go on with that, or name another "
                "folder with --run"
            )


def rows_of(folder: Path, config: SpeedConfig) -> list[Row]:
    """What was measured of a config. Raises FileNotFoundError, or ValueError if it is nothing."""
    if not (folder / ROWS).is_file():
        raise FileNotFoundError(2, "holds no speed run", str(folder))
    rows = RowFile(folder / ROWS).of(cells_of(config, find))
    if not rows:
        raise ValueError(f"{folder}: nothing was measured of what its {CONFIG} asks for")
    return rows


def _is_missing(row: Row | None) -> bool:
    return row is None or row["status"] != OK


def _measure_missing(cells: Sequence[Cell], config: SpeedConfig, rows: RowFile, only: str) -> None:
    references = References(config.timeout)
    bar = tqdm(total=len(cells), unit="cell", disable=None, bar_format=BAR)
    with bar:
        for sitting in sittings(cells, config.together):

            def progress(doing: str, share: float) -> None:
                bar.set_description_str(doing, refresh=False)
                bar.update(share)

            for cell, row in measure_in_turns(sitting, config, references, progress):
                rows.add(cell, {**row, "only": only})
                tqdm.write(summary(cell, row))
                sys.stdout.flush()


BAR = "{desc} {percentage:3.0f}%|{bar}| {n:.1f}/{total} cells, {elapsed} passed, {remaining} left"


def summary(cell: Cell, row: Row) -> str:
    """One line for people."""
    if "interval" not in row:
        return f"{cell.name:<60} {row['status']}"
    low, high = row["interval"]
    return (
        f"{cell.name:<60} {row['sentences_per_second']:9,.1f} sentences/s [{low:,.1f}, {high:,.1f}]  "
        f"MFU {row['mfu']:.3f}"
    )
