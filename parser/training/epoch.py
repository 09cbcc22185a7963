"""One epoch of training: its batches, and a training step for each.

A step replays the batch along gold trajectories, or along trajectories that the parser itself chooses:
during exploration, and for trees that are only partly known. The step is computed in microbatches if memory
is short, and shared among the processes if several train together. For a GPU, batches are prepared ahead,
and can be padded to the shapes of CUDA graphs.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import TypeVar

import torch
from torch import Tensor

from parser.batching.cuda_graph import refuse_without_generator
from parser.batching.device import Packed, TooLongError, in_microbatches, one_memory_error, to_device
from parser.batching.ragged import group_size
from parser.config.settings import ExplorationSettings, NetworkSettings, TrainingSettings
from parser.networks.replay.batch import Batch
from parser.networks.replay.examples import Examples
from parser.networks.replay.making import Selection
from parser.networks.replay.shapes import EPOCHS, common_shapes
from parser.networks.replay.source import BatchSource
from parser.networks.stepping.exploration import explore
from parser.system.console import warn
from parser.system.machine import is_of_memory, return_unused_memory
from parser.system.progress_bar import ProgressBar
from parser.training.checkpoint import Progress, TrainingState
from parser.training.data import TrainingData
from parser.training.distributed.process_group import ALONE, ProcessGroup, sum_gradients
from parser.training.graphed_gradients import (
    GraphedGradients,
    Graphs,
    PaddedBatch,
    why_no_common_shapes,
)
from parser.training.training_step import TrainingStep
from parser.treebank.batches import length_buckets, padding_share

STEPS_BETWEEN_TRIMS = 50
"""Steps after which unused memory is returned to the system; without this, EWT needs half a GiB more."""
STEPS_BETWEEN_SYNCHRONISATIONS = 20
"""Steps between two reads of losses by the host, each of which synchronises host and device."""
AHEAD = 2
"""Maximum number of batches prepared ahead; more would only take memory."""
GoldBatch = Packed[Selection] | Packed[Batch] | PaddedBatch | None
"""None if the batch is made when needed: without a GPU, or if memory was too short to prepare it ahead."""
Item = TypeVar("Item")


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


def train_epoch(
    training_data: TrainingData,
    settings: TrainingSettings,
    training: TrainingState,
    processes: ProcessGroup = ALONE,
    wants_save: Callable[[], bool] = lambda: False,
) -> Iterator[EpochPosition]:
    """Continue the current epoch of `training` to its end; yields after each batch.

    wants_save: returns whether this process asks the others to stop or to save. Raises NotANumberError, up
    to a few batches after the one that caused it, LostProcessError, and LostGeneratorError.
    """
    refuse_without_generator()  # parsing dev sentences may have lost it
    progress, schedule = training.progress, training.schedule
    batches = epoch_batches(training_data, settings, progress.epoch)
    total = sum(map(len, batches))
    exploration = _exploration(settings, progress.epoch)
    training.step.network.train()
    seen = sum(map(len, batches[: progress.batches]))
    if not progress.batches:
        training.totals.zero_()
    position = EpochPosition(progress, batches)
    gradients = BatchGradients(training_data, training, processes)
    left = batches[progress.batches :]
    shares = list(map(gradients.own_rows, left))
    # Trajectories that the parser chooses follow the weights of their step.
    ahead = exploration is None and training_data.train.facts is None
    gold = gold_batches(training_data.source, shares, training.graphs, ahead)
    with _bar(progress.epoch, total, seen, processes.is_first) as bar, closing(gold):
        for rows, share in zip(left, shares, strict=True):
            began = time.monotonic()
            schedule.before_step(progress.epoch - 1 + seen / total)
            explored = exploration if _explores(exploration, settings.seed, progress) else None
            # next(gold) is None if batches are not prepared ahead, for example on a CPU.
            loss, transitions, requests = gradients.compute(rows, share, explored, next(gold), wants_save)
            norm = training.step.update()
            training.totals.add_(torch.stack([loss, transitions, norm]))
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


def _exploration(settings: TrainingSettings, epoch: int) -> ExplorationSettings | None:
    """The exploration settings, or None if the epoch does not explore."""
    exploration = settings.exploration
    return exploration if exploration and epoch >= exploration.from_epoch else None


def _explores(exploration: ExplorationSettings | None, seed: int, progress: Progress) -> bool:
    """Whether the next batch explores, drawn from its number so that all processes agree."""
    if not exploration:
        return False
    number = (seed * 1_000_003 + progress.epoch) * 1_000_003 + progress.batches
    generator = torch.Generator().manual_seed(number % 2**63)
    return bool(torch.rand((), generator=generator) < exploration.probability)


def _bar(epoch: int, sentences: int, seen: int, is_shown: bool) -> ProgressBar:
    return ProgressBar(
        total=sentences,
        initial=seen,
        desc=f"epoch {epoch}",
        unit="sentence",
        leave=False,
        disable=None if is_shown else True,
    )


def running_loss(training: TrainingState) -> float:
    """The mean loss per transition in this epoch so far."""
    return float(training.totals[0] / training.totals[1])


def epoch_metrics(
    training: TrainingState, settings: TrainingSettings, training_data: TrainingData
) -> dict[str, float]:
    """The metrics of a finished epoch."""
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


def epoch_batches(training_data: TrainingData, settings: TrainingSettings, epoch: int) -> list[Tensor]:
    """The batches of an epoch. They depend only on the seed and the epoch's number."""
    generator = torch.Generator().manual_seed((settings.seed * 1_000_003 + epoch) % 2**63)
    by_words = settings.batch_unit == "words"
    drawn = training_data.mixture.draw(epoch, generator)
    lengths = training_data.train.tokens.lengths[drawn]
    batches = length_buckets(lengths, settings.batch_size, by_words, generator, settings.max_batch_words)
    return [drawn[batch] for batch in batches]


def gold_batches(
    source: BatchSource,
    batches: Sequence[Tensor],
    graphs: Graphs | None = None,
    ahead: bool = True,
) -> Generator[GoldBatch]:
    """Yields the gold trajectories of each batch, or None for batches that are not prepared ahead.

    graphs: batches are padded to their shapes. ahead: False to prepare no batch ahead.
    """
    if source.device.type != "cuda" or not ahead:
        yield from repeat(None, len(batches))
        return

    def prepare(rows: Tensor) -> GoldBatch:
        if not len(rows):  # the batch has fewer sentences than there are processes
            return None
        try:
            own = source.shape(rows)
            padded = graphs.padded(source, rows, own) if graphs else None
            return padded or source.prepared(rows, own)
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


@dataclass(frozen=True)
class BatchGradients:
    """Computes the gradients of batches, in one process or shared among several."""

    training_data: TrainingData
    training: TrainingState
    processes: ProcessGroup

    def own_rows(self, rows: Tensor) -> Tensor:
        """The sentences of a batch that this process computes."""
        return self.processes.deal(rows, self.training_data.train.tokens.lengths)

    def compute(
        self,
        rows: Tensor,
        share: Tensor,
        exploration: ExplorationSettings | None,
        prepared: GoldBatch,
        wants_save: Callable[[], bool],
    ) -> Tensor:
        """Compute the gradients of the mean loss per transition; they are equal in all processes.

        Returns [3]: the sum of the transitions' losses, the number of transitions, and how many processes ask
        to stop or save. rows: numbers of the batch's sentences; share: the result of `own_rows` for them.
        prepared: the gold trajectories of this share, if prepared ahead. wants_save: returns whether this
        process asks the others to stop or save. Raises TooLongError, LostProcessError, LostGeneratorError.
        """
        step = self.training.step
        loss, transitions = self._sums(share, exploration, prepared) if len(share) else step.sums([])
        numbers = torch.stack([loss, torch.full_like(loss, transitions), torch.full_like(loss, wants_save())])
        if self.processes.count > 1:
            numbers = sum_gradients(self.processes, step.network, self._changed_rows(rows), numbers)
        step.divide(numbers[1])
        return numbers

    def _sums(
        self, rows: Tensor, exploration: ExplorationSettings | None, prepared: GoldBatch
    ) -> tuple[Tensor, int]:
        """`TrainingStep.sums` of the sentences `rows`, in microbatches if memory is short."""
        graphs = self.training.graphs

        def compute(microbatches: Sequence[Tensor]) -> tuple[Tensor, int]:
            whole = prepared if len(microbatches) == 1 else None
            if isinstance(whole, PaddedBatch):
                assert graphs
                if graphs.gradients.may_have_graph(whole.shape):  # this may have changed since it was padded
                    with suppress(torch.OutOfMemoryError):
                        return graphs.gradients.sums(whole)
                whole = None

            def plainly() -> tuple[Tensor, int]:
                return self.training.step.sums(
                    training_batch(self.training.step, self.training_data, part, exploration, whole)
                    for part in microbatches
                )

            return freeing_graphs(graphs, plainly)

        return in_microbatches(compute, rows, self.training_data.train.tokens.lengths)

    def _changed_rows(self, rows: Tensor) -> dict[Tensor, Tensor]:
        """`TokenEncoder.changed_rows` for the sentences `rows`, on the device."""
        tokens = self.training_data.train.tokens.select(rows)
        found = self.training.step.network.tokens.changed_rows(tokens)
        return {weight: to_device(changed, weight.device) for weight, changed in found.items()}


def freeing_graphs(graphs: Graphs | None, compute: Callable[[], Item]) -> Item:
    """compute(). If memory is too small while there are graphs, they are freed, and it is called again."""
    if graphs and graphs.gradients.hold_memory:
        with suppress(TooLongError, torch.OutOfMemoryError), one_memory_error():
            return compute()
        graphs.gradients.free()
    return compute()


def training_batch(
    step: TrainingStep,
    training_data: TrainingData,
    rows: Tensor,
    exploration: ExplorationSettings | None = None,
    prepared: Packed[Selection] | Packed[Batch] | None = None,
) -> Batch:
    """A batch of training sentences, on the device of the network.

    rows: [batch] numbers of the sentences. exploration: None for gold trajectories, or for partly known trees
    the most probable correct ones. prepared: the gold trajectories, if they were prepared ahead.
    """
    examples, source = training_data.train, training_data.source
    which = torch.ones_like(rows, dtype=torch.bool) if exploration else examples.are_partial(rows)
    if which.any():
        longest_first = examples.tokens.lengths[rows].argsort(descending=True, stable=True)
        rows, which = rows[longest_first], which[longest_first]
        explored = _explored(step, examples, rows[which], exploration)
        examples = examples.with_other_trajectories(rows, which, explored)
        batch = examples.batch(torch.arange(len(rows)), group_size(step.device)).to(step.device)
    elif prepared:
        batch = source.made(prepared.to(step.device))
    else:
        batch = source.batch(rows)
    return replace(batch, tokens=training_data.word_dropout(batch.tokens))


def _explored(
    step: TrainingStep, examples: Examples, rows: Tensor, exploration: ExplorationSettings | None
) -> Examples:
    """Examples of the sentences `rows` [batch] along trajectories that the parser chooses."""
    tokens, gold = examples.tokens.select(rows), examples.gold.select(rows)
    facts = examples.facts.select(rows) if examples.facts else None
    trajectory = explore(step.network, step.inventory, tokens, gold, exploration, facts)
    return Examples.of_trajectory(examples.inventory, tokens, gold, trajectory.to(torch.device("cpu")))


def graphs_of(
    settings: TrainingSettings,
    network: NetworkSettings,
    device: torch.device,
    training_data: TrainingData,
    step: TrainingStep,
    processes: ProcessGroup,
) -> Graphs | None:
    """The CUDA graphs of a run; None if it asks for none, or, with a warning, if it can have none."""
    if not settings.cuda_graphs:
        return None
    reason = why_no_common_shapes(network) if device.type == "cuda" else "only a GPU has them"
    if settings.exploration and settings.exploration.from_epoch == 1:
        reason = "epochs that explore have none"
    if training_data.train.facts:
        reason = "batches with trees that are known in part have none"
    if reason:
        warn(f"training.cuda_graphs: {reason}; training without CUDA graphs")
        return None
    lengths = training_data.train.tokens.lengths
    epochs = (
        [
            own
            for rows in epoch_batches(training_data, settings, epoch)
            if len(own := processes.deal(rows, lengths))
        ]
        for epoch in range(1, EPOCHS + 1)
    )
    shapes = map(training_data.source.shape, chain.from_iterable(epochs))
    gradients = GraphedGradients(step, training_data.source, training_data.word_dropout)
    return Graphs(common_shapes(shapes, settings.max_batch_words), gradients)
