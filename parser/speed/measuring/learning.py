"""Measures learning curves: trains one cell after the other, and scores it after each epoch.

Training continues after the target score is reached, to find the best score.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from parser.speed.measuring.cell_process import MeasuredCell
from parser.speed.measuring.cells import Cell, SpeedConfig, chosen_methods, settings_of
from parser.speed.measuring.rows import SKIPPED, FailedRow, LearningRow, RowFile, new_row, origin
from parser.speed.tasks.discovery import find
from parser.system.console import say
from parser.system.progress_bar import ProgressBar
from parser.system.remote import Remote, RemoteError

ROWS = "learning.jsonl"


class Reached(NamedTuple):
    epochs: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Curve(LearningRow):
    """A row with the target score of the config."""

    target: float

    @property
    def reached(self) -> Reached | None:
        """When the target score was reached, or None."""
        for epoch, score in enumerate(self.scores, 1):
            if score >= self.target:
                return Reached(epoch, sum(self.seconds[:epoch]))
        return None


def learning_cells(config: SpeedConfig) -> list[Cell]:
    """Return a cell for each method and seed, with the largest number of threads of the config.

    Raises ValueError for unknown methods.
    """
    cells = []
    for name, learning in config.learning.items():
        plugin = find(learning.plugin)
        settings = settings_of(plugin, learning.settings, f"learning.{name}.settings")
        for method in chosen_methods(f"learning.{name}", plugin, learning.methods, ["train"]):
            threads, precision = max(config.threads), config.precisions[0]
            cell = partial(
                Cell, name, learning.plugin, "train", config.devices[0], threads, precision, method
            )
            seeds = range(config.seed, config.seed + learning.seeds)
            cells += [cell(learning.batch_size, seed, settings) for seed in seeds]
    return cells


def learning_is_left(config: SpeedConfig, folder: Path) -> bool:
    rows = _row_file(folder)
    return not all(_is_there(rows.find(cell), config) for cell in learning_cells(config))


def learn(config: SpeedConfig, folder: Path) -> None:
    """Train the cells without a row in the folder."""
    rows = _row_file(folder)
    for cell in learning_cells(config):
        if not _is_there(rows.find(cell), config):
            row = _trained(cell, config)
            rows.add(row)
            say(summary(_with_target(row, config)))


def learned(config: SpeedConfig, folder: Path) -> list[Curve | FailedRow]:
    """Return the learning curves of a config's cells from a run's folder."""
    return [_with_target(row, config) for row in _row_file(folder).of(learning_cells(config))]


def summary(row: Curve | FailedRow) -> str:
    """Return the result of a cell in one line."""
    name = f"{row.name}, seed {row.seed}"
    if isinstance(row, FailedRow):
        return f"{name:<60} {row.status}"
    best = f"best score {max(row.scores):.4f}"
    if reached := row.reached:
        return f"{name:<60} {row.target:g} in {reached.epochs} epochs, {reached.seconds:.1f} s, {best}"
    return f"{name:<60} not {row.target:g} in {len(row.scores)} epochs, {best}"


def _row_file(folder: Path) -> RowFile[LearningRow | FailedRow]:
    return RowFile(folder / ROWS, LearningRow, FailedRow)


def _with_target(row: LearningRow | FailedRow, config: SpeedConfig) -> Curve | FailedRow:
    if isinstance(row, FailedRow):
        return row
    return Curve(**vars(row), target=config.learning[row.experiment].target)


def _is_there(row: LearningRow | FailedRow | None, config: SpeedConfig) -> bool:
    return isinstance(row, LearningRow) and len(row.scores) >= config.learning[row.experiment].epochs


def _trained(cell: Cell, config: SpeedConfig) -> LearningRow | FailedRow:
    try:
        with Remote(MeasuredCell, cell, timeout=config.timeout) as remote:
            if reason := remote.call("begin_to_learn"):
                return new_row(FailedRow, cell, status=f"{SKIPPED}: {reason}")
            seconds: list[float] = []
            scores: list[float] = []
            epochs = range(1, config.learning[cell.experiment].epochs + 1)
            with ProgressBar(epochs, desc=cell.name, unit="epoch", disable=None, leave=False) as bar:
                for epoch in bar:
                    taken, score = remote.call("learn", epoch)
                    seconds.append(taken)
                    scores.append(score)
                    bar.set_postfix(score=f"{score:.4f}", refresh=False)
            measured = {"seconds": seconds, "scores": scores, "notes": remote.call("notes"), **origin(cell)}
            return new_row(LearningRow, cell, **measured)
    except RemoteError as error:
        return new_row(FailedRow, cell, status=error.status, traceback=error.traceback)
