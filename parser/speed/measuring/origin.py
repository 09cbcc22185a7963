"""The origin of a measurement besides the program: the data, and the repository of an external plugin."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from parser.config.data_folder import data_path
from parser.speed.measuring.cells import Cell
from parser.speed.tasks.discovery import find
from parser.speed.tasks.plugin import AnyPlugin
from parser.system.version import commit_of, program_commit


def origin(cell: Cell) -> dict[str, Any]:
    """Return the fields `data` and `plugin_commit` of a cell's row."""
    return {"data": data_checksums(cell.settings), "plugin_commit": plugin_commit(find(cell.plugin))}


def plugin_commit(plugin: type[AnyPlugin]) -> str | None:
    """Return the commit of the repository of the plugin's module; None for the program's own repository, or
    if there is none.
    """
    commit = commit_of(Path(inspect.getfile(plugin)).resolve())
    return None if commit == program_commit() else commit


def data_checksums(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of each file and folder that the settings name, by its name in the settings."""
    return {name: _checksum(Path(data_path(name))) for name in _paths(settings)}


def _paths(settings: Any) -> Iterator[str]:
    if isinstance(settings, Mapping):
        settings = list(settings.values())
    if isinstance(settings, Sequence) and not isinstance(settings, str):
        for each in settings:
            yield from _paths(each)
    elif isinstance(settings, str) and "/" in settings and Path(data_path(settings)).exists():
        yield settings


@cache
def _checksum(path: Path) -> str:
    """Return the SHA-256 of a file. That of a folder is of the lines of `sha256sum` of its files, by path."""
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        lines = [f"{_checksum(each)}  {each.relative_to(path)}\n" for each in files]
        return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
