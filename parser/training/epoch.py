"""One epoch: a training step for each batch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing

import torch
from torch import Tensor
from tqdm import tqdm

from parser.config import ExplorationSettings, TrainingSettings
from parser.distributed.process_group import ALONE, ProcessGroup
from parser.machine import return_unused_memory
from parser.parsing.model import Model
from parser.training import data
from parser.training.batch_gradients import BatchGradients
from parser.training.checkpoint import Progress, Training
from parser.training.gold_batches import GoldBatch, epoch_batches, gold_batches
from parser.treebank.batches import padding_share

STEPS_BETWEEN_TRIMS = 50
"""Steps after which unused memory is returned to the system; without it, EWT needs half a GiB more."""
STEPS_BETWEEN_SYNCHRONISATIONS = 20
"""Steps between two reads of losses by the host, which synchronises host and device."""


class NotANumberError(ValueError):
    """A loss or a gradient that is not finite. `rows` are the numbers of the batch's training trees."""

    def __init__(self, epoch: int, batch: int, rows: Tensor):
        super().__init__(f"epoch {epoch}, batch {batch}: the loss or its gradient is not a finite number")
        self.rows = rows


class EpochPosition:
    """How far an epoch has come, and what is known of its last batches after reading it from the device."""

    def __init__(self, progress: Progress, batches: list[Tensor]):
        self._progress, self._batches = progress, batches
        self._unread: list[Tensor] = []
        """[2] of each batch: a number, finite if its loss and gradients are, and the processes that ask."""
        self.asked = False
        """Whether a process has asked the others to stop or to save, as far as it was read."""

    @property
    def share(self) -> float:
        """Of the epoch's batches that are done."""
        return self._progress.batches / len(self._batches)

    def add(self, loss: Tensor, norm: Tensor, asking: Tensor) -> None:
        """Note the loss, the norm of the gradients and the processes that ask, without synchronising."""
        self._unread.append(torch.stack([loss + norm, asking]))
        if loss.device.type == "cpu":
            self.asked = bool(asking)
        if self.share == 1 or len(self._unread) == STEPS_BETWEEN_SYNCHRONISATIONS:
            self.synchronise()

    def synchronise(self) -> None:
        """Read the numbers of all batches since the last time. Raises NotANumberError."""
        numbers, self._unread = torch.stack(self._unread).tolist() if self._unread else [], []
        for batch, (number, asking) in enumerate(numbers, self._progress.batches - len(numbers)):
            self.asked = self.asked or bool(asking)
            if not math.isfinite(number):
                raise NotANumberError(self._progress.epoch, batch + 1, self._batches[batch])


def train_epoch(
    model: Model,
    loaded: data.TrainingData,
    settings: TrainingSettings,
    training: Training,
    processes: ProcessGroup = ALONE,
    asks: Callable[[], bool] = lambda: False,
) -> Iterator[EpochPosition]:
    """Continue the present epoch of `training` to its end; yields after each batch.

    asks: whether this process asks the others to stop or to save. Raises NotANumberError some batches after
    the one that caused it, and LostProcessError.
    """
    progress, schedule = training.progress, training.schedule
    batches = epoch_batches(loaded, settings, progress.epoch)
    total = sum(map(len, batches))
    exploration = _exploration(settings, progress.epoch)
    model.network.train()
    seen = sum(map(len, batches[: progress.batches]))
    if not progress.batches:
        training.totals.zero_()
    position = EpochPosition(progress, batches)
    gradients = BatchGradients(model, loaded, training, processes)
    left = batches[progress.batches :]
    gold = _gold_batches(model, loaded, training, list(map(gradients.own_rows, left)), exploration)
    with _bar(progress.epoch, total, seen, processes.is_first) as bar, closing(gold):
        for rows in left:
            began = time.monotonic()
            schedule.before_step(progress.epoch - 1 + seen / total)
            explored = exploration if _explores(exploration, settings.seed, progress) else None
            loss, steps, asking = gradients.of(rows, explored, next(gold), asks)
            norm = training.step.update()
            training.totals.add_(torch.stack([loss, steps, norm]))
            progress.batches += 1
            seen += len(rows)
            if progress.batches % STEPS_BETWEEN_TRIMS == 0:
                return_unused_memory()
            position.add(loss, norm, asking)
            bar.update(len(rows))
            if progress.batches % STEPS_BETWEEN_SYNCHRONISATIONS == 0 or progress.batches == len(batches):
                bar.set_postfix(
                    loss=f"{running_loss(training):.3f}", best_LAS=f"{progress.best.las:.2f}", refresh=False
                )
            progress.seconds += time.monotonic() - began
            yield position


def _gold_batches(
    model: Model,
    loaded: data.TrainingData,
    training: Training,
    batches: Sequence[Tensor],
    exploration: ExplorationSettings | None,
) -> Generator[GoldBatch]:
    """As `gold_batches`. An epoch that explores makes its batches when the weights are known."""
    if exploration:
        return (None for _ in batches)
    return gold_batches(
        loaded.train, batches, model.device, training.graphs.shapes if training.graphs else ()
    )


def _exploration(settings: TrainingSettings, epoch: int) -> ExplorationSettings | None:
    """The settings if the epoch explores."""
    exploration = settings.exploration
    return exploration if exploration and epoch >= exploration.from_epoch else None


def _explores(exploration: ExplorationSettings | None, seed: int, progress: Progress) -> bool:
    """Whether the next batch explores: drawn from its number, so that all processes draw the same."""
    if not exploration:
        return False
    number = (seed * 1_000_003 + progress.epoch) * 1_000_003 + progress.batches
    generator = torch.Generator().manual_seed(number % 2**63)
    return bool(torch.rand((), generator=generator) < exploration.probability)


def _bar(epoch: int, sentences: int, seen: int, is_shown: bool) -> tqdm:
    return tqdm(
        total=sentences,
        initial=seen,
        desc=f"epoch {epoch}",
        unit="sentence",
        leave=False,
        disable=None if is_shown else True,
    )


def running_loss(training: Training) -> float:
    """The mean loss of a transition in this epoch so far."""
    return float(training.totals[0] / training.totals[1])


def epoch_metrics(
    training: Training, settings: TrainingSettings, loaded: data.TrainingData
) -> dict[str, float]:
    """The metrics of a finished epoch."""
    progress = training.progress
    batches = epoch_batches(loaded, settings, progress.epoch)
    padding = sum(padding_share(loaded.train.tokens.lengths[rows]) for rows in batches)
    return {
        "loss": running_loss(training),
        "learning_rate": training.schedule.learning_rate,
        "gradient_norm": float(training.totals[2]) / len(batches),
        "sentences_per_second": sum(map(len, batches)) / progress.seconds,
        "padding_share": padding / len(batches),
    }
