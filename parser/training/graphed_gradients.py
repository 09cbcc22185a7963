"""The gradients of training steps by CUDA graphs: a GPU repeats the same work for all batches of a shape.

The graph contains the making of the batch, and the forward and the backward pass. The division by the number
of transitions and the update, about twenty launches, are not in it: they use numbers that change with each
step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.cuda_graph import CudaGraphs, GraphedWork
from parser.batching.device import Packed
from parser.config.settings import NetworkSettings
from parser.networks.replay.batch import Batch
from parser.networks.replay.making import Selection
from parser.networks.replay.shapes import Shape, fitting
from parser.networks.replay.source import BatchSource
from parser.training.training_step import TrainingStep, unmeasured
from parser.treebank.vocabulary import Tokens, division_of


class PaddedBatch(NamedTuple):
    """A padded batch, ready to be uploaded and made."""

    shape: Shape
    transitions: int
    """The number of transitions, without padding."""
    packed: Packed[Selection] | Packed[Batch]

    @classmethod
    def of(cls, source: BatchSource, rows: Tensor, own: Shape, common: Shape) -> PaddedBatch:
        """A batch of the sentences `rows` [batch]. own: its shape. common: that to which it is padded.

        Raises ValueError if the common shape is too small.
        """
        return cls(common, own.transitions, source.prepared(rows, own, common))


def why_no_common_shapes(settings: NetworkSettings) -> str | None:
    """Why batches of a network cannot be padded to common shapes; None if they can."""
    parts = {
        "composition": settings.composition,
        "a sentence encoder": settings.sentence_encoder is not None,
        "arcs": settings.arcs is not None,
        "a transformer": settings.transformer is not None,
        "characters or features": any(map(division_of, settings.columns)),
    }
    found = [name for name, is_there in parts.items() if is_there]
    return f"not for a network with {' and '.join(found)}" if found else None


class GraphedGradients:
    """Computes what `TrainingStep.gradients` computes, for padded batches on a GPU.

    The next call overwrites the gradients and the loss.
    """

    def __init__(
        self,
        step: TrainingStep,
        source: BatchSource,
        change_tokens: Callable[[Tokens], Tokens] | None = None,
    ):
        """source: of the batches. change_tokens: applied to the tokens of each batch, for word dropout."""
        self._step = replace(step, phase=unmeasured)
        self._source = source
        self._change_tokens = change_tokens
        self._weights = [weight for weight in step.network.parameters() if weight.requires_grad]
        self._gradients = list(map(torch.zeros_like, self._weights))
        self._loss = self._weights[0].new_zeros(())
        self._graphs = CudaGraphs(self._loss.device)
        self._by_shape: dict[Shape, _OneShape] = {}

    @property
    def failed(self) -> bool:
        """Whether a graph could not be captured. In that case, padded batches are computed without graphs."""
        return self._graphs.failed

    def __call__(self, batch: PaddedBatch) -> tuple[Tensor, int]:
        """The sum of the transitions' losses (a scalar on the device) and the number of transitions."""
        loss, transitions = self.sums(batch)
        self._step.divide(transitions)
        return loss, transitions

    def may_have_graph(self, shape: Shape) -> bool:
        """Whether batches can be padded to this shape for a graph, as far as is known."""
        return self._graphs.may_have(shape)

    @property
    def hold_memory(self) -> bool:
        """Whether there are graphs, whose memory `free` would free."""
        return self._graphs.hold_memory

    def free(self) -> None:
        """Free the memory of the graphs. They are captured again when they are needed."""
        self._graphs.free()

    def sums(self, batch: PaddedBatch) -> tuple[Tensor, int]:
        """Like `TrainingStep.sums`, for a padded batch.

        Raises torch.OutOfMemoryError, and LostGeneratorError before anything is computed.
        """
        if batch.shape not in self._by_shape:
            self._by_shape[batch.shape] = self._one_shape(batch)
        place, work = self._by_shape[batch.shape]
        place.copy_(batch.packed.buffer, non_blocking=True)
        for weight, gradient in zip(self._weights, self._gradients, strict=True):
            weight.grad = gradient  # a step without graphs sets other gradients
        work()
        return self._loss, batch.transitions

    def _one_shape(self, first: PaddedBatch) -> _OneShape:
        place = torch.empty_like(first.packed.buffer, device=self._loss.device)
        make = partial(self._source.made, first.packed.within(place))
        work = partial(_sum, self._step, self._change_tokens, make, self._gradients, self._loss)
        return _OneShape(place, partial(GraphedWork(self._graphs, first.shape), work))


class _OneShape(NamedTuple):
    place: Tensor
    """[bytes] The buffer to which each batch of the shape is copied."""
    work: partial[None]
    """`_sum` of the batch that is made from that buffer, by a graph."""


def _sum(
    step: TrainingStep,
    change_tokens: Callable[[Tokens], Tokens] | None,
    make: Callable[[], Batch],
    gradients: list[Tensor],
    loss: Tensor,
) -> None:
    """Fill `loss` and `gradients`, which are the gradients of the weights, with sums over the transitions."""
    torch._foreach_zero_(gradients)
    batch = make()
    if change_tokens:
        batch = replace(batch, tokens=change_tokens(batch.tokens))
    loss.copy_(step.accumulate(batch))


class Graphs(NamedTuple):
    """The CUDA graphs of a training run."""

    shapes: list[Shape]
    gradients: GraphedGradients

    def shape_for(self, own: Shape) -> Shape | None:
        """The shape to which a batch of a shape is padded; None if it is computed without a graph."""
        shape = fitting(self.shapes, own)
        return shape if shape and self.gradients.may_have_graph(shape) else None

    def padded(self, source: BatchSource, rows: Tensor, own: Shape) -> PaddedBatch | None:
        """The padded batch of the sentences `rows` [batch]; None if it has no graph. own: its shape."""
        shape = self.shape_for(own)
        return PaddedBatch.of(source, rows, own, shape) if shape else None
