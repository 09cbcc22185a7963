"""The rows that are kept of measurements, and cells of tables on pages."""

import json
from functools import cache
from pathlib import Path

from parser.speed.former_names import row_with_new_names
from parser.speed.row_file import read_content

ROOT = Path(__file__).parent.parent
MEASURED = ROOT / "docs/measurements"
SPLITS = ("dev", "test")


@cache
def rows(path):
    """Of a file that may be compressed; those of speed runs with the names of today."""
    found = map(json.loads, read_content(MEASURED / path).splitlines())
    return [row_with_new_names(row) if "plugin" in row else row for row in found]


def table(*lines):
    """Lines of cells as they stand on a page."""
    return [
        f"| {' | '.join(map(str, cells))} |".replace("|  |", "| |").replace("|  |", "| |") for cells in lines
    ]


def scores(run, *which):
    """Two digits of each, as `test las`."""
    parts = (each.split() for each in which)
    return [f"{run[split][measure]:.2f}" for split, measure in parts]


def minutes(run):
    taken = run["seconds"] / 60
    return f"{taken:.1f}" if taken < 10 else f"{taken:.0f}"


def printed(command, file="single-figures-2026-11-22/rows.jsonl"):
    """What a kept command printed, of all its runs."""
    kept = rows(file)
    return [line for row in kept if command in " ".join(row["command"]) for line in row["printed"]]
