"""The rows of a run in a file of JSON lines, which may be compressed."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from parser.files import complete_gzip
from parser.speed.cells import Cell
from parser.speed.former_names import row_with_new_names
from parser.speed.rows import Row
from parser.stamp import stamp


class RowFile:
    """One JSON line for each measured cell. A line is written whole, or not at all.

    If there is no such file, but one of that name with `.gz`, that one is read, and unpacked when a row is
    added.
    """

    def __init__(self, path: Path):
        """Raises ValueError for a file with other content."""
        self._path = path
        content = read_content(path)
        end = content.rfind(b"\n") + 1  # an incomplete last line is of a run that was killed
        self._lines = content[:end]
        self._rows = {_identity(row): row for row in _rows(path, self._lines)}

    @property
    def rows(self) -> list[Row]:
        """The last row of each cell."""
        return list(self._rows.values())

    def find(self, cell: Cell) -> Row | None:
        """The last row of a cell."""
        return self._rows.get(cell.identity)

    def of(self, cells: Iterable[Cell]) -> list[Row]:
        """The rows of these cells, without the cells that have none."""
        return [row for row in map(self.find, cells) if row]

    def add(self, cell: Cell, row: Row) -> None:
        """Write the row to disk, with its cell and when, where and with what it was measured."""
        stamped = {**asdict(cell), "settings": json.loads(cell.settings), **row, **stamp()}
        line = json.dumps(stamped, ensure_ascii=False).encode() + b"\n"
        if not self._path.exists():
            self._path.write_bytes(self._lines)
        with self._path.open("r+b") as file:
            file.seek(len(self._lines))
            file.write(line)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        self._lines += line
        self._rows[cell.identity] = stamped


def has_rows(path: Path) -> bool:
    """Whether there is such a file, compressed or not."""
    return path.is_file() or compressed(path).is_file()


def compressed(path: Path) -> Path:
    """The name of the compressed file that `RowFile` reads in the place of `path`."""
    return path.with_name(f"{path.name}.gz")


def read_content(path: Path) -> bytes:
    """The bytes of a file, or of its compressed form if that is what exists; empty if neither does.

    Raises ValueError for a damaged compressed file.
    """
    if path.exists() or not compressed(path).exists():
        return path.read_bytes() if path.exists() else b""
    with complete_gzip(compressed(path)), gzip.open(compressed(path)) as file:
        return file.read()


def _identity(row: Row) -> str:
    keys = {key: row[key] for key in Cell.__dataclass_fields__}
    return Cell(**{**keys, "settings": json.dumps(row["settings"], sort_keys=True)}).identity


def _rows(path: Path, content: bytes) -> list[Row]:
    rows = []
    for number, line in enumerate(content.splitlines(), 1):
        try:
            row = row_with_new_names(json.loads(line))
            _identity(row)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"{path}:{number}: not a row of measurements; move the file away") from None
        rows.append(row)
    return rows
