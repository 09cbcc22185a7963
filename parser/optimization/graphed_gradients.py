"""The gradients of training steps by CUDA graphs: a GPU repeats the work for all batches of a shape.

Forward and backward pass are in the graph. The division by the number of transitions and the update, some
twenty launches, are not: they have numbers that change with each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from parser.batching.cuda_graph import GraphedWork
from parser.batching.transfer import Packed
from parser.config import NetworkSettings
from parser.optimization.training_step import TrainingStep, unmeasured
from parser.replay.batch import Batch
from parser.replay.padded import padded
from parser.replay.shape import Shape
from parser.treebank.tokens import Tokens
from parser.treebank.vocabulary import PARTS


class PaddedBatch(NamedTuple):
    """A batch on the host that waits for its upload."""

    shape: Shape
    transitions: int
    """Without those of the padding."""
    packed: Packed[Batch]

    @classmethod
    def of(cls, batch: Batch, shape: Shape) -> PaddedBatch:
        """batch: in a single group. Raises ValueError if the shape is too small."""
        return cls(shape, len(batch.transitions), Packed(padded(batch, shape)))


def has_no_common_shapes(settings: NetworkSettings) -> str | None:
    """Why batches of a network can not be padded to common shapes; None if they can."""
    parts = {
        "composition": settings.composition,
        "a sentence encoder": settings.sentence_encoder is not None,
        "auxiliary tags": bool(settings.auxiliary_tags),
        "characters or features": not PARTS.keys().isdisjoint(settings.columns),
    }
    found = [name for name, is_there in parts.items() if is_there]
    return f"not for a network with {' and '.join(found)}" if found else None


class GraphedGradients:
    """As `TrainingStep.gradients`, of padded batches on a GPU.

    The gradients are overwritten by the next call.
    """

    def __init__(self, step: TrainingStep, changed: Callable[[Tokens], Tokens] | None = None):
        """changed: changes the tokens of each batch anew, as word dropout does."""
        self._step, self._changed = replace(step, phase=unmeasured), changed
        self._pool = torch.cuda.graph_pool_handle()
        self._by_shape: dict[Shape, _OneShape] = {}

    def __call__(self, batch: PaddedBatch) -> tuple[Tensor, int]:
        """The sum of the transitions' losses (a scalar on the device) and the number of transitions."""
        if batch.shape not in self._by_shape:
            self._by_shape[batch.shape] = _OneShape(self._step, self._changed, batch.packed, self._pool)
        loss = self._by_shape[batch.shape](batch.packed)
        self._step.divide(batch.transitions)
        return loss, batch.transitions


class _OneShape:
    """The batches of one shape, which lie in the same place, one after the other."""

    def __init__(
        self,
        step: TrainingStep,
        changed: Callable[[Tokens], Tokens] | None,
        first: Packed[Batch],
        pool: Any,
    ):
        self._step, self._changed = step, changed
        self._weights = list(step.network.parameters())
        self._place = torch.empty_like(first.buffer, device=self._weights[0].device)
        self._batch = first.within(self._place)
        self._work = GraphedWork(self._sum, pool)

    def __call__(self, packed: Packed[Batch]) -> Tensor:
        """Set the gradients, summed over the transitions; returns the sum of their losses."""
        self._place.copy_(packed.buffer, non_blocking=True)
        self._work()
        for weight, gradient in zip(self._weights, self._gradients, strict=True):
            weight.grad = gradient
        return self._loss

    def _sum(self) -> None:
        """Loss and gradients, in new tensors, which a graph fills again and again."""
        self._step.network.zero_grad()
        batch = self._batch
        if self._changed:
            batch = replace(batch, tokens=self._changed(batch.tokens))
        self._loss = self._step.accumulate(batch, self._step.network)
        self._gradients = [weight.grad for weight in self._weights]
