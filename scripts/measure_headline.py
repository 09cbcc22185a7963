"""Measure the cells of the plot in README and of the "all tasks" tables in docs/speed.md, all at one commit.

python scripts/measure_headline.py [--minutes 60] [NAME ...]

NAME is a config of configs/speed/ that docs/measurements/speed/headline.yaml names; the default is all.
Only the cells of that file are measured, and their rows are kept in docs/measurements/speed/headline/NAME.
The same command continues after an interruption, at the commit of the existing rows. Use one idle
machine for all lines. This takes hours.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from figures.headline import CONFIG, ROWS, GroupSettings, LineSettings, read_groups

from parser.config.file import read_settings
from parser.speed.measuring.cells import Experiment, SpeedConfig, on_this_machine
from parser.speed.measuring.rows import FailedRow, has_rows, read_content
from parser.speed.measuring.run import measure_cells
from parser.system.pytorch import tune_process
from parser.system.version import program_commit

CONFIGS = Path("configs/speed")
RUNS = Path("runs/headline")
"""Where rows are added: changes in docs/measurements would mark the next rows as measured at no commit."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no further cells after these")
    options = parser.parse_args()
    tune_process()
    configs = headline_configs(list(read_groups(CONFIG).values()))
    unknown = [name for name in options.names if name not in configs]
    if unknown:
        print(f"{CONFIG} does not name {unknown[0]}; it names {', '.join(configs)}", file=sys.stderr)
        return 2
    end = time.monotonic() + 60 * options.minutes
    for name in options.names or configs:
        if time.monotonic() >= end:
            print(f"{name}: the time is over before it; the same command continues")
            break
        keep_rows(on_this_machine(configs[name]), name, (end - time.monotonic()) / 60)
    return 0


def headline_configs(groups: Sequence[GroupSettings]) -> dict[str, SpeedConfig]:
    """The configs in configs/speed/, restricted to the cells of the headline, by their names."""
    lines = defaultdict[str, list[tuple[LineSettings, str]]](list)
    for group in groups:
        for line in group.lines.values():
            lines[line.config].append((line, group.method))
    return {
        name: _restricted(read_settings(CONFIGS / f"{name}.yaml", SpeedConfig), of_config)
        for name, of_config in lines.items()
    }


def _restricted(config: SpeedConfig, lines: Sequence[tuple[LineSettings, str]]) -> SpeedConfig:
    """The config with the cells of these lines alone. lines: each with the method of its baseline."""
    experiments: dict[str, Experiment] = {}
    for line, baseline in lines:
        whole = config.experiments[line.experiment]
        before = experiments.get(line.experiment)
        methods = dict.fromkeys(
            [*(before.methods or () if before else ()), baseline, *line.best, *line.simple]
        )
        sizes = whole.batch_sizes if line.batch_size is None else [line.batch_size]
        if isinstance(sizes, dict):
            compared = sizes[baseline]
            sizes = {method: [size for size in sizes[method] if size in compared] for method in methods}
        modes = dict.fromkeys([*(before.modes if before else ()), line.mode])
        changes = {"methods": list(methods), "modes": list(modes), "batch_sizes": sizes}
        experiments[line.experiment] = whole.model_copy(update=changes)
    return config.model_copy(update={"experiments": experiments, "external": {}, "learning": {}})


def keep_rows(config: SpeedConfig, name: str, minutes: float) -> None:
    """Measure the remaining cells, and keep the rows. Raises ValueError if rows are from another commit."""
    folder, kept = RUNS / name, ROWS / name
    if kept.exists() and not folder.exists():
        shutil.copytree(kept, folder)
    if has_rows(folder / "rows.jsonl"):
        rows = map(json.loads, read_content(folder / "rows.jsonl").splitlines())
        others = {row["commit"] for row in rows} - {program_commit()}
        if others:
            raise ValueError(f"{folder} has rows of the commit {others.pop()}: go on there, or remove them")
    for row in measure_cells(config, folder, "", minutes):
        if isinstance(row, FailedRow):
            print(f"{row.name}: {row.status}", file=sys.stderr)
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / "config.yaml", kept)
    (kept / "rows.jsonl.gz").write_bytes(gzip.compress(read_content(folder / "rows.jsonl"), mtime=0))


if __name__ == "__main__":
    sys.exit(main())
