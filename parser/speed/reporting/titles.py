"""The texts of titles, axes and legends in plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from textwrap import wrap
from typing import Any

from parser.speed.measuring.cells import Cell
from parser.speed.tasks.discovery import find_or_none
from parser.speed.tasks.plugin import method_titles

MODES = {"train": "training", "infer": "inference"}
GENERATED = "generated data"
MAX_TITLE = 90
"""Maximum characters in a line of a title."""


def method_title(plugin: str, method: str) -> str:
    """Return the title of a batching method."""
    found = find_or_none(plugin)
    return method_titles(found).get(method, method) if found else method


def plot_title(subject: str, cells: Sequence[Cell]) -> str:
    """Return a title: the plugin and the subject, and below them the data, and the mode, device and threads
    that the cells share.
    """
    cell = cells[0]
    threads = "1 thread" if cell.threads == 1 else f"{cell.threads} threads"
    device = f"{cell.device.upper()}, {threads}" if cell.device == "cpu" else f"GPU ({cell.device})"
    if cell.precision != "float32":
        device += f", {cell.precision}"
    data = " and ".join(dict.fromkeys(data_title(each.settings) for each in cells))
    plugin = cell.plugin.rpartition(":")[2]  # the class of MODULE:CLASS
    first = f"{plugin.replace('_', ' ')}: {subject}"
    return "\n".join([first, *wrap(f"{data}; {MODES[cell.mode]}; {device}", MAX_TITLE)])


def without_files(title: str) -> str:
    """Return the title of a plot without its data files, which the caption in a paper names."""
    first, _, others = title.partition("\n")
    parts = " ".join(others.split("\n")).split("; ")
    return "\n".join(filter(None, [first, "; ".join(part for part in parts if "/" not in part)]))


def data_title(settings: Mapping[str, Any]) -> str:
    """Return the first data file in a plugin's settings, with its folder; or that the data are generated."""
    for _, value in sorted(settings.items()):
        texts = value if isinstance(value, list | tuple) else [value]
        files = [PurePosixPath(text) for text in texts if isinstance(text, str) and "/" in text]
        if files:
            return ", ".join("/".join(file.parts[-2:]) for file in files)
    return GENERATED
