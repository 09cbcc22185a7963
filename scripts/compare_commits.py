"""Is one commit slower than another? Measures cells of `stack-parser speed`, old and new in turns.

Each commit has its own work tree and config, and each turn is a separate run. The script prints ratios of
speeds, new over old, paired turn by turn, with 95 % intervals: "no slower" if the whole interval is at 0.97
or above, "slower" if it is below, and "undecided" if it contains 0.97.

python scripts/compare_commits.py OLD NEW --config configs/speed/quick.yaml --only method=replay,batch_size=64
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from measuring import in_turns

from parser.config.data_folder import DATA
from parser.evaluation.statistics import median_of
from parser.speed.measuring.cells import KEYS
from parser.speed.measuring.rows import OK

ROOT = Path(__file__).resolve().parents[1]
NO_SLOWER = 0.97
Speeds = dict[str, float]
"""Sentences per second of each cell, by the cell's name."""


class Side(NamedTuple):
    """One of the two commits."""

    tree: Path
    config: str
    only: str


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("old", help="the earlier commit")
    arguments.add_argument("new", help="the later commit")
    arguments.add_argument("--config", required=True, help="speed config, as a path within each commit")
    arguments.add_argument("--only", default="", help="cells to measure, as for `stack-parser speed --only`")
    arguments.add_argument("--old-config", help="path of the config in the old commit, if it differs")
    arguments.add_argument("--old-only", help="the filter for the old commit, if its cells have other names")
    arguments.add_argument("--turns", type=int, default=8, help="turns of each commit (default: %(default)s)")
    arguments.add_argument(
        "--seconds",
        type=float,
        default=4.0,
        help="seconds to measure each cell in each turn (default: %(default)s)",
    )
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="compare-commits-") as name:
        folder = Path(name)
        with work_tree(given.old, folder / "old") as old, work_tree(given.new, folder / "new") as new:
            sides = (
                Side(old, given.old_config or given.config, given.old_only or given.only),
                Side(new, given.config, given.only),
            )
            compare(sides, given.turns, given.seconds)


@contextmanager
def work_tree(commit: str, folder: Path) -> Iterator[Path]:
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def compare(sides: Sequence[Side], turns: int, seconds: float) -> None:
    """Print the ratios of each turn, and the verdict over all turns."""
    work = {side.tree.name: partial(measured, side, seconds) for side in sides}
    ratios: dict[str, list[float]] = {}
    for turn, of_sides in enumerate(in_turns(work, turns), 1):
        for name, ratio in paired(*of_sides.values()).items():
            ratios.setdefault(name, []).append(ratio)
            print(f"turn {turn}: {name}: {ratio:.3f}", flush=True)
    for name, of_cell in ratios.items():
        print(verdict(name, of_cell))


def measured(side: Side, seconds: float) -> Speeds:
    """Returns the speeds measured in a new run. Raises SystemExit if the run fails."""
    run = side.tree.parent / f"run-{side.tree.name}"
    shutil.rmtree(run, ignore_errors=True)
    command = [sys.executable, "-m", "parser", "speed", side.config, "--run", str(run), "--only", side.only]
    command += ["--set", f"seconds={seconds}", "--set", "relative_error=1e-9"]
    data = Path(os.environ.get("PARSER_DATA") or DATA).resolve()  # the command runs in another folder
    environment = {**os.environ, "PARSER_DATA": str(data)}
    done = subprocess.run(
        command, cwd=side.tree, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{side.tree.name}: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return speeds(run / "rows.jsonl")


def speeds(rows: Path) -> Speeds:
    content = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    return {_name(row): row["sentences_per_second"] for row in content if row["status"] == OK}


def _name(row: dict[str, Any]) -> str:
    """The name of the row's cell. Older rows have no precision."""
    return ", ".join(str(row.get(key, "float32")) for key in KEYS if key != "plugin")


def paired(old: Speeds, new: Speeds) -> dict[str, float]:
    """The ratios of new over old speeds, by cell.

    Two single cells are compared even if their names differ. Raises SystemExit for other differences.
    """
    if old.keys().isdisjoint(new) and len(old) == len(new) == 1:
        [(name, speed)], [before] = new.items(), old.values()
        return {name: speed / before}
    if old.keys() != new.keys() or not new:
        sys.exit(f"the commits measured different cells: {sorted(old)} and {sorted(new)}")
    return {name: new[name] / old[name] for name in new}


def verdict(name: str, ratios: Sequence[float]) -> str:
    _, low, high = estimate = median_of(ratios)
    judged = "no slower" if low >= NO_SLOWER else "slower" if high < NO_SLOWER else "undecided"
    return f"{name}: new / old = {estimate} over {len(ratios)} turns: {judged}"


if __name__ == "__main__":
    main()
