"""One epoch of training: a training step for each of its batches.

A step is computed in microbatches if memory is short, and shared among the processes if several train
together. For a GPU, batches are prepared ahead, and can be padded to the shapes of CUDA graphs.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import TypeVar

import torch
from torch import Tensor

from parser.batching.cuda_graph import refuse_without_generator
from parser.batching.device import Packed, in_microbatches, to_device
from parser.batching.ragged import group_size
from parser.networks.replay.batch import Batch
from parser.networks.replay.examples import BatchSource, Examples
from parser.networks.replay.making import Selection
from parser.networks.stepping.exploration import ExplorationSettings, explore
from parser.system.machine import is_of_memory, return_unused_memory
from parser.system.progress_bar import ProgressBar
from parser.training.checkpoint import Progress, TrainingState
from parser.training.config import TrainingSettings
from parser.training.data import TrainingData, epoch_batches
from parser.training.graphed_gradients import GraphedGradients, PaddedBatch, freeing_graphs
from parser.training.processes import ALONE, ProcessGroup, sum_gradients
from parser.training.training_step import TrainingStep
from parser.treebank.batches import padding_share

STEPS_BETWEEN_TRIMS = 50
"""Steps after which unused memory is returned to the system; without this, EWT needs half a GiB more."""
STEPS_BETWEEN_SYNCHRONISATIONS = 20
"""Steps between two reads of losses by the host, each of which synchronises host and device."""
AHEAD = 2
"""Maximum number of batches prepared ahead; more would only take memory."""
GoldBatch = Packed[Selection] | Packed[Batch] | PaddedBatch | None
"""None if the batch is made when needed: without a GPU, or if memory was too short to prepare it ahead."""
Item = TypeVar("Item")


def train_epoch(
    training_data: TrainingData,
    settings: TrainingSettings,
    training: TrainingState,
    processes: ProcessGroup = ALONE,
    wants_save: Callable[[], bool] = lambda: False,
) -> Iterator[EpochPosition]:
    """Continue the current epoch of `training` to its end; yields after each batch.

    wants_save: returns whether this process asks the others to stop or to save. Raises NotANumberError, up
    to a few batches after the one that caused it, TooLongError, LostProcessError, and LostGeneratorError.
    """
    refuse_without_generator()  # parsing dev sentences may have lost it
    progress = training.progress
    batches = epoch_batches(training_data, settings, progress.epoch)
    position = EpochPosition(progress, batches)
    if not progress.batches:
        training.totals.zero_()
    training.step.network.train()

    left = batches[progress.batches :]
    shares = [processes.deal(rows, training_data.train.tokens.lengths) for rows in left]
    exploration = settings.exploration
    if exploration and progress.epoch < exploration.from_epoch:
        exploration = None
    # Trajectories that the parser chooses follow the weights of their step.
    is_ahead = exploration is None and training_data.train.facts is None
    gold_ahead = gold_batches(training_data.source, shares, training.graphs, is_ahead)

    sentences, seen = sum(map(len, batches)), sum(map(len, batches[: progress.batches]))
    bar = ProgressBar(
        total=sentences,
        initial=seen,
        desc=f"epoch {progress.epoch}",
        unit="sentence",
        leave=False,
        disable=None if processes.is_first else True,
    )
    with bar, closing(gold_ahead):
        for rows, share in zip(left, shares, strict=True):
            began = time.monotonic()
            training.schedule.before_step(progress.epoch - 1 + seen / sentences)
            explored = exploration
            if exploration:  # drawn from the number of the batch, so that all processes agree
                number = (settings.seed * 1_000_003 + progress.epoch) * 1_000_003 + progress.batches
                drawn = torch.rand((), generator=torch.Generator().manual_seed(number % 2**63))
                explored = exploration if drawn < exploration.probability else None
            gold = next(gold_ahead)
            loss, norm, requests = train_step(
                training, training_data, rows, share, gold, explored, processes, wants_save
            )
            progress.batches += 1
            seen += len(rows)
            if progress.batches % STEPS_BETWEEN_TRIMS == 0:
                return_unused_memory()
            position.add(loss, norm, requests)
            bar.update(len(rows))
            if progress.batches % STEPS_BETWEEN_SYNCHRONISATIONS == 0 or progress.batches == len(batches):
                best = {"best_LAS": f"{progress.best.las:.2f}"} if training_data.dev_sentences else {}
                bar.set_postfix({"loss": f"{running_loss(training):.3f}", **best}, refresh=False)
            progress.seconds += time.monotonic() - began
            yield position


def train_step(
    training: TrainingState,
    training_data: TrainingData,
    rows: Tensor,
    share: Tensor,
    gold: GoldBatch = None,
    exploration: ExplorationSettings | None = None,
    processes: ProcessGroup = ALONE,
    wants_save: Callable[[], bool] = lambda: False,
) -> tuple[Tensor, Tensor, Tensor]:
    """One update of the weights by the gradient of the mean loss per transition of a batch.

    Returns scalars on the device: the sum of the transitions' losses, the norm of the gradients, and how many
    processes ask to stop or to save. rows: [batch] the batch's sentences; share: those of this process; gold:
    their gold trajectories, if prepared ahead. exploration: None if the batch does not explore. Raises
    TooLongError, LostProcessError, LostGeneratorError.
    """
    step, tokens = training.step, training_data.train.tokens

    def in_parts(parts: Sequence[Tensor]) -> tuple[Tensor, int]:
        prepared = gold if len(parts) == 1 and not isinstance(gold, PaddedBatch) else None
        make = partial(training_batch, step, training_data, exploration=exploration, prepared=prepared)
        return freeing_graphs(training.graphs, lambda: step.forward_backward(map(make, parts)))

    sums = None
    if isinstance(gold, PaddedBatch) and training.graphs:
        sums = training.graphs.forward_backward_or_none(gold)
    if sums is None:
        # With fewer sentences than processes, some have none.
        sums = in_microbatches(in_parts, share, tokens.lengths) if len(share) else step.forward_backward([])
    loss, count = sums

    numbers = torch.stack([loss, torch.full_like(loss, count), torch.full_like(loss, wants_save())])  # [3]
    if processes.count > 1:
        changed = step.network.tokens.changed_rows(tokens.select(rows))
        on_device = {weight: to_device(its_rows, weight.device) for weight, its_rows in changed.items()}
        numbers = sum_gradients(processes, step.network, on_device, numbers)
    loss, transitions, requests = numbers

    step.normalize_gradients(transitions)
    norm = step.update()
    training.totals.add_(torch.stack([loss, transitions, norm]))
    return loss, norm, requests


def training_batch(
    step: TrainingStep,
    training_data: TrainingData,
    rows: Tensor,
    exploration: ExplorationSettings | None = None,
    prepared: Packed[Selection] | Packed[Batch] | None = None,
) -> Batch:
    """A batch of training sentences, on the device of the network.

    It follows gold trajectories, or trajectories that the parser itself chooses: during exploration, and for
    trees that are only partly known.

    rows: [batch] numbers of the sentences. exploration: None for gold trajectories, or for partly known trees
    the most probable correct ones. prepared: the gold trajectories, if they were prepared ahead.
    """
    examples, source = training_data.train, training_data.source
    explores = torch.ones_like(rows, dtype=torch.bool) if exploration else examples.are_partial(rows)
    if explores.any():
        longest_first = examples.tokens.lengths[rows].argsort(descending=True, stable=True)
        rows, explores = rows[longest_first], explores[longest_first]
        exploring = rows[explores]
        tokens, gold = examples.tokens.select(exploring), examples.gold.select(exploring)
        facts = examples.facts.select(exploring) if examples.facts else None
        chosen = explore(step.network, step.inventory, tokens, gold, exploration, facts)
        explored = Examples.of_trajectory(examples.inventory, tokens, gold, chosen.to(torch.device("cpu")))
        examples = examples.with_other_trajectories(rows, explores, explored)
        batch = examples.batch(torch.arange(len(rows)), group_size(step.device)).to(step.device)
    elif prepared:
        batch = source.made(prepared.to(step.device))
    else:
        batch = source.batch(rows)
    return replace(batch, tokens=training_data.word_dropout(batch.tokens))


class NotANumberError(ValueError):
    """A loss or a gradient is not finite. `rows` are the numbers of the batch's training trees."""

    def __init__(self, epoch: int, batch: int, rows: Tensor):
        super().__init__(f"epoch {epoch}, batch {batch}: the loss or its gradient is not a finite number")
        self.rows = rows


class EpochPosition:
    """How far an epoch has come, and what has been read from the device about its last batches."""

    def __init__(self, progress: Progress, batches: list[Tensor]):
        self._progress, self._batches = progress, batches
        self._unread: list[Tensor] = []
        """[2] for each batch: a number, finite if loss and gradients are, and how many processes ask."""
        self.save_requested = False
        """Whether a process has asked the others to stop or to save, as far as this has been read."""

    @property
    def share(self) -> float:
        """The share of the epoch's batches that are done."""
        return self._progress.batches / len(self._batches)

    @property
    def is_read(self) -> bool:
        """Whether the device has finished all batches that are done, and their numbers have been read."""
        return not self._unread

    def add(self, loss: Tensor, norm: Tensor, requests: Tensor) -> None:
        """Add the loss, the gradient norm and the number of processes that ask, without synchronising."""
        self._unread.append(torch.stack([loss + norm, requests]))
        if loss.device.type == "cpu":
            self.save_requested = bool(requests)
        if self.share == 1 or len(self._unread) == STEPS_BETWEEN_SYNCHRONISATIONS:
            self.synchronise()

    def synchronise(self) -> None:
        """Read the numbers of all batches since the last call. Raises NotANumberError."""
        numbers, self._unread = torch.stack(self._unread).tolist() if self._unread else [], []
        for batch, (number, requests) in enumerate(numbers, self._progress.batches - len(numbers)):
            self.save_requested = self.save_requested or bool(requests)
            if not math.isfinite(number):
                raise NotANumberError(self._progress.epoch, batch + 1, self._batches[batch])


def running_loss(training: TrainingState) -> float:
    """The mean loss per transition in this epoch so far."""
    return float(training.totals[0] / training.totals[1])


def epoch_metrics(
    training: TrainingState, settings: TrainingSettings, training_data: TrainingData
) -> dict[str, float]:
    progress = training.progress
    batches = epoch_batches(training_data, settings, progress.epoch)
    padding = sum(padding_share(training_data.train.tokens.lengths[rows]) for rows in batches)
    return {
        "loss": running_loss(training),
        "learning_rate": training.schedule.learning_rate,
        "gradient_norm": float(training.totals[2]) / len(batches),
        "sentences_per_second": sum(map(len, batches)) / progress.seconds,
        "padding_share": padding / len(batches),
    }


def gold_batches(
    source: BatchSource,
    batches: Sequence[Tensor],
    graphs: GraphedGradients | None = None,
    is_ahead: bool = True,
) -> Generator[GoldBatch]:
    """Yields the gold trajectories of each batch, or None for batches that are not prepared ahead.

    graphs: batches are padded to their shapes. is_ahead: False to prepare no batch ahead.
    """
    if source.device.type != "cuda" or not is_ahead:
        yield from repeat(None, len(batches))
        return

    def prepare(rows: Tensor) -> GoldBatch:
        if not len(rows):  # the batch has fewer sentences than there are processes
            return None
        try:
            shape = source.shape(rows)
            padded = graphs.padded(rows, shape) if graphs else None
            return padded or source.prepared(rows, shape)
        except (RuntimeError, MemoryError) as error:
            if is_of_memory(error):
                return None
            raise

    yield from prepared_ahead(prepare, batches)


def prepared_ahead(prepare: Callable[[Tensor], Item], batches: Iterable[Tensor]) -> Iterator[Item]:
    """Yields `prepare(rows)` for each batch, in order, computed in a thread while the device is busy with
    earlier batches.

    Raises what `prepare` raises when its batch is reached. Close the iterator if it is not read to the end.
    """
    waiting: deque[Future[Item]] = deque()
    with ThreadPoolExecutor(1, "batches") as thread:
        try:
            for rows in batches:
                waiting.append(thread.submit(prepare, rows))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
