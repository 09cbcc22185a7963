"""What titles, axes and legends of plots say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from textwrap import wrap
from typing import Any

from parser.plugins import examples_counted, method_titles
from parser.speed.discovery import find_or_none
from parser.speed.rows import Row

MODES = {"train": "training", "infer": "inference"}
GENERATED = "generated data"
MAX_TITLE = 90
"""Characters of a line."""


def method_title(plugin: str, method: str) -> str:
    """A batching method in words."""
    found = find_or_none(plugin)
    return method_titles(found).get(method, method) if found else method


def speed_label(plugin: str) -> str:
    """The unit of speed, such as "sentences/s"."""
    found = find_or_none(plugin)
    return f"{examples_counted(found) if found else 'sentences'}/s"


def plot_title(subject: str, rows: Sequence[Row]) -> str:
    """The task and the subject; below the data, and mode, device and threads, which the rows share."""
    row = rows[0]
    threads = "1 thread" if row["threads"] == 1 else f"{row['threads']} threads"
    device = f"{row['device'].upper()}, {threads}" if row["device"] == "cpu" else f"GPU ({row['device']})"
    if row["precision"] != "float32":
        device += f", {row['precision']}"
    data = " and ".join(dict.fromkeys(data_title(each["settings"]) for each in rows))
    first = f"{row['plugin'].replace('_', ' ')}: {subject}"
    return "\n".join([first, *wrap(f"{data}; {MODES[row['mode']]}; {device}", MAX_TITLE)])


def data_title(settings: Mapping[str, Any]) -> str:
    """The first data file that a plugin's settings name, with its folder; or that the data are generated."""
    for value in settings.values():
        files = [PurePosixPath(text) for text in _texts(value) if "/" in text]
        if files:
            return ", ".join("/".join(file.parts[-2:]) for file in files)
    return GENERATED


def _texts(value: Any) -> Iterator[str]:
    """A setting that is a string or a list of strings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Sequence):
        yield from (text for text in value if isinstance(text, str))
