"""Rows of measurements: one JSON line for each cell, with all that is needed to repeat it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parser.plugins import Work
from parser.speed.cells import Cell
from parser.speed.measured import Finished, Started, Turn
from parser.speed.statistics import median_of, quartiles
from parser.stamp import stamp

Row = dict[str, Any]

OK, SKIPPED, WRONG = "ok", "skipped", "wrong"
"""How a row's status begins; besides them there are `error`, `out of memory` and `timeout`."""


def measured_row(
    turns: Sequence[Turn], started: Started, finished: Finished, ceiling: float, sitting: str
) -> Row:
    """What was found out about a cell. ceiling: operations per second of the machine's matrix products.

    sitting: rows that share it were measured in turns, the n-th turn of each next to the n-th of the others.
    """
    sentences = [turn.sentences_per_second for turn in turns]
    tokens = [turn.tokens_per_second for turn in turns]
    speed, token_speed = median_of(sentences), median_of(tokens)
    works = [work for turn in turns for work in turn.works]
    seconds = [value for turn in turns for value in turn.seconds]
    operations_per_second = median_of([turn.operations_per_second for turn in turns]).value
    update_share = finished.split.get("update", 0.0) / sum(finished.split.values())
    return {
        "status": OK,
        "sentences_per_second": speed.value,
        "interval": [speed.low, speed.high],
        "quartiles": quartiles(sentences),
        "tokens_per_second": token_speed.value,
        "tokens_interval": [token_speed.low, token_speed.high],
        "operations_per_second": operations_per_second,
        "ceiling": ceiling,
        "mfu": operations_per_second / (1 - update_share) / ceiling,
        "mfu_with_update": operations_per_second / ceiling,
        "split": finished.split,
        "padding_share": _padding(works),
        "calls_per_step": finished.calls,
        "counts": _counts(works),
        "memory": finished.memory._asdict(),
        "prepare_seconds": started.prepare_seconds,
        "first_seconds": started.first_seconds,
        "sitting": sitting,
        "turns": [len(turn.seconds) for turn in turns],
        "seconds": [round(value, 7) for value in seconds],
        "sentences": [work.sentences for work in works],
        "tokens": [work.tokens for work in works],
    }


def _padding(works: Sequence[Work]) -> float | None:
    """The mean share, weighted by the batches' tokens."""
    known = [(work.padding, work.tokens) for work in works if work.padding is not None]
    tokens = sum(size for _, size in known)
    return sum(share * size for share, size in known) / tokens if known else None


def _counts(works: Sequence[Work]) -> dict[str, float]:
    """The mean of each over the steps."""
    return {name: sum(work.counts[name] for work in works) / len(works) for name in works[0].counts}


def turn_speeds(row: Row) -> list[float]:
    """Sentences per second of each turn, from a row's raw step times."""
    speeds, start = [], 0
    for steps in row["turns"]:
        end = start + steps
        speeds.append(sum(row["sentences"][start:end]) / sum(row["seconds"][start:end]))
        start = end
    return speeds


def stamped(cell: Cell, row: Row) -> Row:
    """The row with its cell, and when, where and with what it was measured."""
    keys = {**asdict(cell), "settings": json.loads(cell.settings)}
    return {**keys, **row, **stamp()}


class RowFile:
    """The rows of a run; a row is in the file whole, or not at all."""

    def __init__(self, path: Path):
        """Raises ValueError for a file that holds other things."""
        self._path = path
        content = path.read_bytes() if path.exists() else b""
        self._end = content.rfind(b"\n") + 1  # what a run that was stopped left behind it is not read
        self._rows = {_identity(row): row for row in _rows(path, content[: self._end])}

    def find(self, cell: Cell) -> Row | None:
        """The last row of a cell."""
        return self._rows.get(cell.identity)

    def of(self, cells: Iterable[Cell]) -> list[Row]:
        """Those rows of the cells that are there."""
        return [row for row in map(self.find, cells) if row]

    def add(self, cell: Cell, row: Row) -> None:
        self._path.touch()
        stamped_row = stamped(cell, row)
        with self._path.open("r+b") as file:
            file.seek(self._end)
            file.write(json.dumps(stamped_row, ensure_ascii=False).encode() + b"\n")
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
            self._end = file.tell()
        self._rows[cell.identity] = stamped_row


def _identity(row: Row) -> str:
    keys = {key: row[key] for key in Cell.__dataclass_fields__}
    return Cell(**{**keys, "settings": json.dumps(row["settings"], sort_keys=True)}).identity


def _rows(path: Path, content: bytes) -> list[Row]:
    rows = []
    for number, line in enumerate(content.splitlines(), 1):
        try:
            row = json.loads(line)
            _identity(row)
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path}:{number}: not a row of measurements; move the file away") from None
        rows.append(row)
    return rows
