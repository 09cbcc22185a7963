"""The gradients of a batch, by one process or shared out among several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from parser.batching.microbatches import in_microbatches
from parser.batching.transfer import to_device
from parser.config import ExplorationSettings
from parser.console import warn
from parser.distributed.process_group import ProcessGroup
from parser.machine import one_memory_error
from parser.optimization.graphed_gradients import PaddedBatch
from parser.optimization.shared_gradients import add_up
from parser.parsing.model import Model
from parser.training.checkpoint import Training
from parser.training.data import TrainingData
from parser.training.gold_batches import GoldBatch
from parser.training.training_batch import training_batch


@dataclass(frozen=True)
class BatchGradients:
    model: Model
    loaded: TrainingData
    training: Training
    processes: ProcessGroup

    def own_rows(self, rows: Tensor) -> Tensor:
        """Of the sentences of a batch, those that this process computes."""
        return self.processes.deal(rows, self.loaded.train.tokens.lengths)

    def of(
        self,
        rows: Tensor,
        exploration: ExplorationSettings | None,
        prepared: GoldBatch,
        asks: Callable[[], bool],
    ) -> Tensor:
        """Compute the gradients of the mean loss of a transition; they are equal in all processes.

        rows: numbers of the batch's sentences. prepared: the gold trajectories of this process's share, if
        they were prepared ahead. asks: whether this process asks the others to stop or to save. Returns [3]
        the sum of the transitions' losses, their number, and how many processes ask. Raises TooLongError,
        LostProcessError.
        """
        own, step = self.own_rows(rows), self.training.step
        loss, transitions = self._sums(own, exploration, prepared) if len(own) else step.sums([])
        numbers = torch.stack([loss, torch.full_like(loss, transitions), torch.full_like(loss, asks())])
        if self.processes.count > 1:
            numbers = add_up(self.processes, step.network, self._changed_rows(rows), numbers)
        step.divide(numbers[1])
        return numbers

    def _sums(
        self, rows: Tensor, exploration: ExplorationSettings | None, prepared: GoldBatch
    ) -> tuple[Tensor, int]:
        """As `TrainingStep.sums`, of the sentences `rows`, in microbatches if memory is short."""
        graphs = self.training.graphs

        def compute(microbatches: Sequence[Tensor]) -> tuple[Tensor, int]:
            whole = prepared if len(microbatches) == 1 else None
            if isinstance(whole, PaddedBatch):
                assert graphs
                with suppress(torch.OutOfMemoryError), one_memory_error():
                    return graphs.gradients.sums(whole)
                warn(f"out of memory: a batch of {len(rows)} sentences is computed without padding")
                whole = None
            return self.training.step.sums(
                training_batch(self.model, self.loaded, part, exploration, whole) for part in microbatches
            )

        return in_microbatches(compute, rows, self.loaded.train.tokens.lengths)

    def _changed_rows(self, rows: Tensor) -> dict[Tensor, Tensor]:
        """See `TokenEncoder.changed_rows`; of the sentences `rows`, on the device."""
        tokens = self.loaded.train.tokens.select(rows)
        found = self.training.step.network.tokens.changed_rows(tokens)
        return {weight: to_device(changed, weight.device) for weight, changed in found.items()}
