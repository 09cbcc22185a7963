"""One epoch: a training step for each batch."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress

import torch
from torch import Tensor
from tqdm import tqdm

from parser.batching.microbatches import in_microbatches
from parser.batching.padding import group_size
from parser.config import ExplorationSettings, TrainingSettings
from parser.console import warn
from parser.machine import one_memory_error, return_unused_memory
from parser.optimization.graphed_gradients import PaddedBatch
from parser.parsing.model import Model
from parser.replay.examples import Examples
from parser.training import data
from parser.training.checkpoint import Progress, Training
from parser.training.gold_batches import GoldBatch, epoch_batches, gold_batches
from parser.training.training_batch import training_batch
from parser.treebank.batches import padding_share, split_by_words

STEPS_BETWEEN_TRIMS = 50
"""Steps after which unused memory is returned to the system; without it, EWT needs half a GiB more."""
STEPS_BETWEEN_SYNCHRONISATIONS = 20
"""Steps between two reads of losses by the host, which synchronises host and device."""
DEV_BATCH, DEV_WORDS = 64, 20_000
"""Sentences of a batch for the dev loss, and its largest number of words, padding included."""


class NotANumberError(ValueError):
    """A loss or a gradient that is not finite. `rows` are the numbers of the batch's training trees."""

    def __init__(self, epoch: int, batch: int, rows: Tensor):
        super().__init__(f"epoch {epoch}, batch {batch}: the loss or its gradient is not a finite number")
        self.rows = rows


class FiniteCheck:
    """Checks that losses and gradients are finite, of several batches at once: each check synchronises."""

    def __init__(self, progress: Progress, batches: list[Tensor]):
        self._progress, self._batches = progress, batches
        self._numbers: list[Tensor] = []

    @property
    def share(self) -> float:
        """Of the epoch's batches that are done."""
        return self._progress.batches / len(self._batches)

    def add(self, loss: Tensor, norm: Tensor) -> None:
        """Note the loss and the norm of the gradients of a batch, without synchronising."""
        self._numbers.append(loss + norm)

    def synchronise(self) -> None:
        """Check all batches since the last time. Raises NotANumberError."""
        numbers, self._numbers = torch.stack(self._numbers).tolist() if self._numbers else [], []
        for batch, number in enumerate(numbers, self._progress.batches - len(numbers)):
            if not math.isfinite(number):
                raise NotANumberError(self._progress.epoch, batch + 1, self._batches[batch])


def train_epoch(
    model: Model, loaded: data.TrainingData, settings: TrainingSettings, training: Training
) -> Iterator[FiniteCheck]:
    """Continue the present epoch of `training` to its end; yields after each batch.

    Raises NotANumberError some batches after the one that caused it.
    """
    progress, schedule = training.progress, training.schedule
    batches = epoch_batches(loaded.train, settings, progress.epoch)
    exploration = _exploration(settings, progress.epoch)
    model.network.train()
    seen = sum(map(len, batches[: progress.batches]))
    if not progress.batches:
        training.totals.zero_()
    check = FiniteCheck(progress, batches)
    left = batches[progress.batches :]
    gold = _gold_batches(model, loaded, training, left, exploration)
    with _bar(progress.epoch, len(loaded.train), seen) as bar, closing(gold):
        for rows in left:
            began = time.monotonic()
            schedule.before_step(progress.epoch - 1 + seen / len(loaded.train))
            loss, steps = _gradients(model, loaded, training, rows, exploration, next(gold))
            norm = training.step.update()
            training.totals.add_(torch.stack([loss, torch.full_like(loss, steps), norm]))
            progress.batches += 1
            seen += len(rows)
            check.add(loss, norm)
            if progress.batches % STEPS_BETWEEN_TRIMS == 0:
                return_unused_memory()
            bar.update(len(rows))
            if progress.batches % STEPS_BETWEEN_SYNCHRONISATIONS == 0 or progress.batches == len(batches):
                check.synchronise()
                bar.set_postfix(
                    loss=f"{running_loss(training):.3f}", best_LAS=f"{progress.best.las:.2f}", refresh=False
                )
            progress.seconds += time.monotonic() - began
            yield check


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


def _gradients(
    model: Model,
    loaded: data.TrainingData,
    training: Training,
    rows: Tensor,
    exploration: ExplorationSettings | None,
    prepared: GoldBatch,
) -> tuple[Tensor, int]:
    """As `TrainingStep.gradients`, of the sentences `rows`, in microbatches if memory is short.

    prepared: their gold trajectories, if they were prepared ahead.
    """
    if exploration and torch.rand(()) >= exploration.probability:
        exploration = None

    def compute(microbatches: Sequence[Tensor]) -> tuple[Tensor, int]:
        whole = prepared if len(microbatches) == 1 else None
        if isinstance(whole, PaddedBatch):
            assert training.graphs
            with suppress(torch.OutOfMemoryError), one_memory_error():
                return training.graphs.gradients(whole)
            warn(f"out of memory: a batch of {len(rows)} sentences is computed without padding")
            whole = None
        return training.step.gradients(
            training_batch(model, loaded, part, exploration, whole) for part in microbatches
        )

    return in_microbatches(compute, rows, loaded.train.tokens.lengths)


def _exploration(settings: TrainingSettings, epoch: int) -> ExplorationSettings | None:
    """The settings if the epoch explores."""
    exploration = settings.exploration
    return exploration if exploration and epoch >= exploration.from_epoch else None


def _bar(epoch: int, sentences: int, seen: int) -> tqdm:
    return tqdm(
        total=sentences,
        initial=seen,
        desc=f"epoch {epoch}",
        unit="sentence",
        leave=False,
        disable=None,
    )


def running_loss(training: Training) -> float:
    """The mean loss of a transition in this epoch so far."""
    return float(training.totals[0] / training.totals[1])


def epoch_metrics(training: Training, settings: TrainingSettings, examples: Examples) -> dict[str, float]:
    """The metrics of a finished epoch."""
    progress = training.progress
    batches = epoch_batches(examples, settings, progress.epoch)
    padding = sum(padding_share(examples.tokens.lengths[rows]) for rows in batches)
    return {
        "loss": running_loss(training),
        "learning_rate": training.schedule.learning_rate,
        "gradient_norm": float(training.totals[2]) / len(batches),
        "sentences_per_second": len(examples) / progress.seconds,
        "padding_share": padding / len(batches),
    }


@torch.inference_mode()
def mean_loss(model: Model, examples: Examples) -> float:
    """The mean loss of a transition, without dropout; nan if there are no examples."""
    model.network.eval()
    if not len(examples):
        return float("nan")
    lengths = examples.tokens.lengths

    def summed(microbatches: Sequence[Tensor]) -> Tensor:
        return torch.stack([_loss_and_steps(model, examples, part) for part in microbatches]).sum(0)  # [2]

    by_length = lengths.argsort()
    batches = [
        batch
        for rows in by_length.split(DEV_BATCH)
        for batch in split_by_words(rows, lengths[rows].tolist(), DEV_WORDS)
    ]
    by_batch = [in_microbatches(summed, rows, lengths) for rows in batches]
    loss, steps = torch.stack(by_batch).sum(0).tolist()
    return loss / steps


def _loss_and_steps(model: Model, examples: Examples, rows: Tensor) -> Tensor:
    """[2] The summed loss of the sentences `rows`, and their number of transitions."""
    batch = examples.batch(rows, group_size(model.device)).to(model.device)
    loss = model.network(batch, model.inventory).transitions
    return torch.stack([loss, torch.full_like(loss, len(batch.transitions))])
