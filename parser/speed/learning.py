"""Learning curves: trains one cell after the other and scores it after each epoch.

Training continues after the target score is reached, to find the best score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from parser.console import say
from parser.machine import choose_device
from parser.plugins import Plugin
from parser.remote import Remote, RemoteError
from parser.speed.cells import Cell, methods_of, settings_as_json
from parser.speed.measured import MeasuredCell
from parser.speed.row_file import RowFile
from parser.speed.rows import OK, SKIPPED, Row
from parser.speed.settings import Learning, SpeedConfig

ROWS = "learning.jsonl"


class Reached(NamedTuple):
    epochs: int
    seconds: float


def learning_cells(config: SpeedConfig, find: Callable[[str], type[Plugin]]) -> list[Cell]:
    """One cell for each method and seed, with the largest number of threads of the config.

    find: returns a plugin by its name. Raises ValueError for unknown methods.
    """
    device = str(choose_device(config.devices[0]))
    cells = []
    for name, learning in config.learning.items():
        plugin = find(learning.plugin)
        settings = settings_as_json(plugin, learning.settings, f"learning.{name}.settings")
        for method in methods_of(f"learning.{name}", plugin, learning.methods, ["train"]):
            threads, precision = max(config.threads), config.precisions[0]
            cell = partial(Cell, name, learning.plugin, "train", device, threads, precision, method)
            seeds = range(config.seed, config.seed + learning.seeds)
            cells += [cell(learning.batch_size, seed, settings) for seed in seeds]
    return cells


def learning_is_left(config: SpeedConfig, find: Callable[[str], type[Plugin]], folder: Path) -> bool:
    rows = RowFile(folder / ROWS)
    cells = learning_cells(config, find)
    return not all(_is_there(rows.find(cell), config.learning[cell.experiment]) for cell in cells)


def learn(config: SpeedConfig, find: Callable[[str], type[Plugin]], folder: Path) -> list[Row]:
    """Train the cells that have no row in the folder yet. Returns all rows."""
    cells = learning_cells(config, find)
    rows = RowFile(folder / ROWS)
    for cell in cells:
        learning = config.learning[cell.experiment]
        if not _is_there(rows.find(cell), learning):
            row = _learned(cell, learning, config.timeout)
            rows.add(cell, row)
            say(summary(cell, {**row, "target": learning.target}))
    return learned_rows(config, find, folder)


def learned_rows(config: SpeedConfig, find: Callable[[str], type[Plugin]], folder: Path) -> list[Row]:
    """The rows of a run's folder, each with the target of the given config."""
    rows = RowFile(folder / ROWS).of(learning_cells(config, find))
    return [{**row, "target": config.learning[row["experiment"]].target} for row in rows]


def reached(row: Row) -> Reached | None:
    """When the target score was reached, or None."""
    for epoch, score in enumerate(row["scores"], 1):
        if score >= row["target"]:
            return Reached(epoch, sum(row["seconds"][:epoch]))
    return None


def summary(cell: Cell, row: Row) -> str:
    """The result of a cell in one line."""
    name = f"{cell.name}, seed {cell.seed}"
    if row["status"] != OK:
        return f"{name:<60} {row['status']}"
    found = reached(row)
    best = f"best score {max(row['scores']):.4f}"
    if not found:
        return f"{name:<60} not {row['target']:g} in {len(row['scores'])} epochs, {best}"
    return f"{name:<60} {row['target']:g} in {found.epochs} epochs, {found.seconds:.1f} s, {best}"


def _is_there(row: Row | None, learning: Learning) -> bool:
    return row is not None and row["status"] == OK and len(row["scores"]) >= learning.epochs


def _learned(cell: Cell, learning: Learning, timeout: float) -> Row:
    try:
        with Remote(MeasuredCell, cell, timeout=timeout) as remote:
            if reason := remote.call("begin_to_learn"):
                return {"status": f"{SKIPPED}: {reason}"}
            return _epochs(cell, remote, learning.epochs)
    except RemoteError as error:
        return {"status": error.status, "traceback": error.traceback}


def _epochs(cell: Cell, remote: Remote, epochs: int) -> Row:
    seconds: list[float] = []
    scores: list[float] = []
    with tqdm(range(1, epochs + 1), desc=cell.name, unit="epoch", disable=None, leave=False) as bar:
        for epoch in bar:
            found = remote.call("learn", epoch)
            seconds.append(found[0])
            scores.append(found[1])
            bar.set_postfix(score=f"{found[1]:.4f}", refresh=False)
    return {"status": OK, "seconds": seconds, "scores": scores, "notes": remote.call("notes")}


def by_experiment(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["experiment"], []).append(row)
    return found
