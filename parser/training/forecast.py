"""How long several runs will take: from the words that they train on, and the epochs that were timed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from parser.system.console import counted, in_words, say
from parser.training.config import Config, training_size
from parser.training.record import METRICS, epochs_of


class PlannedRun(NamedTuple):
    """A run and how much it has to train on."""

    name: str
    folder: Path
    """It need not be there yet."""
    epochs: int
    words: int
    """Words to train on, in all epochs together; 0 if the files can be read only once."""

    def epochs_done(self) -> list[dict[str, float]]:
        return epochs_of(self.folder) if (self.folder / METRICS).is_file() else []


def planned_run(name: str, config: Config, folder: Path) -> PlannedRun:
    """Raises what `size_of` raises."""
    size, epochs = training_size(config.treebank), config.training.epochs
    return PlannedRun(name, folder, epochs, epochs * size.words if size else 0)


def cost_of(runs: Sequence[PlannedRun]) -> str:
    """How much runs have to train on, and which one has the largest part of it."""
    words = sum(run.words for run in runs)
    text = f"{counted(len(runs), 'run')} to train: {counted(words, 'word')} in all, epochs counted"
    largest = max(runs, key=lambda run: run.words)
    if len(runs) > 1 and words:
        text += f"; {largest.words / words:.0%} are of {largest.name}"
    return text


class Forecast:
    """Tells how much time is left: as soon as a run has finished an epoch, and whenever a run is done."""

    def __init__(self, runs: Sequence[PlannedRun], together: int):
        """runs: all runs, also those that are done already. together: how many run in parallel."""
        self.runs, self.together = runs, together
        self._told_of: int | None = None

    def tell(self, unfinished: Collection[Path]) -> None:
        """unfinished: the folders of the runs that are not done."""
        if len(unfinished) == self._told_of:
            return
        if seconds := self.seconds_left(unfinished):
            self._told_of = len(unfinished)
            say(f"{in_words(seconds)} left for {counted(self._told_of, 'run')}")

    def seconds_left(self, unfinished: Collection[Path]) -> float:
        """0 before any run has finished an epoch. Early stopping is not foreseen."""
        left = trained = seconds = 0.0
        for run in self.runs:
            epochs = run.epochs_done()
            share = len(epochs) / run.epochs
            trained += run.words * share
            seconds += sum(epoch["seconds"] for epoch in epochs)
            left += run.words * (1 - share) * (run.folder in unfinished)
        return left * seconds / trained / self.together if trained else 0.0
