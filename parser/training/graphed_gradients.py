"""The gradients of training steps by CUDA graphs: a GPU repeats the same work for all batches of a shape.

The graph contains the making of the batch, and the forward and the backward pass. The division by the number
of transitions and the update, about twenty launches, are not in it: they use numbers that change with each
step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from parser.batching.cuda_graph import CudaGraphs, GraphedWork
from parser.batching.device import Packed, one_memory_error
from parser.networks.replay.batch import Batch
from parser.networks.replay.examples import BatchSource
from parser.networks.replay.making import Selection
from parser.networks.replay.shapes import EPOCHS, Shape, common_shapes, fitting
from parser.networks.settings import NetworkSettings
from parser.system.console import warn
from parser.system.machine import TooLongError
from parser.training.config import TrainingSettings
from parser.training.data import TrainingData, epoch_batches
from parser.training.processes import ProcessGroup
from parser.training.training_step import TrainingStep, unmeasured
from parser.treebank.tokens import Tokens
from parser.treebank.vocabulary import division_of

Result = TypeVar("Result")


class PaddedBatch(NamedTuple):
    shape: Shape
    transitions: int
    """The number of transitions, without padding."""
    packed: Packed[Selection] | Packed[Batch]

    @classmethod
    def of(cls, source: BatchSource, rows: Tensor, exact: Shape, common: Shape) -> PaddedBatch:
        """A batch of the sentences `rows` [batch]. exact: its shape. common: that to which it is padded.

        Raises ValueError if the common shape is too small.
        """
        return cls(common, exact.transitions, source.prepared(rows, exact, common))


class GraphedGradients:
    """Computes what `TrainingStep.gradients` computes, for padded batches on a GPU.

    The next call overwrites the gradients and the loss.
    """

    def __init__(
        self,
        step: TrainingStep,
        source: BatchSource,
        shapes: Sequence[Shape] = (),
        change_tokens: Callable[[Tokens], Tokens] | None = None,
    ):
        """source: of the batches. shapes: those to which `padded` pads them. change_tokens: applied to the
        tokens of each batch, for word dropout."""
        self._step = replace(step, phase=unmeasured)
        self._source = source
        self.shapes = shapes
        self._change_tokens = change_tokens
        self._weights = [weight for weight in step.network.parameters() if weight.requires_grad]
        self._gradients = list(map(torch.zeros_like, self._weights))
        self._loss = self._weights[0].new_zeros(())
        self.cuda_graphs = CudaGraphs(self._loss.device)
        self._by_shape: dict[Shape, tuple[Tensor, partial[None]]] = {}
        """The buffer [bytes] to which each batch of the shape is copied, and `_forward_backward` of the batch
        that is made from it, by a graph."""

    def padded(self, rows: Tensor, exact: Shape) -> PaddedBatch | None:
        """The padded batch of the sentences `rows` [batch]; None if it is computed without a graph.

        exact: its shape without padding.
        """
        shape = self.shape_for(exact)
        return PaddedBatch.of(self._source, rows, exact, shape) if shape else None

    def shape_for(self, exact: Shape) -> Shape | None:
        """The shape to which a batch of a shape is padded; None if it is computed without a graph."""
        shape = fitting(self.shapes, exact)
        return shape if shape and self.cuda_graphs.may_have(shape) else None

    def gradients(self, batch: PaddedBatch) -> tuple[Tensor, int]:
        """The sum of the transitions' losses (a scalar on the device) and the number of transitions.

        Raises what `forward_backward` raises.
        """
        loss, transitions = self.forward_backward(batch)
        self._step.normalize_gradients(transitions)
        return loss, transitions

    def forward_backward_or_none(self, batch: PaddedBatch) -> tuple[Tensor, int] | None:
        """`forward_backward`; None if the shape has no graph any more, or if memory is too small for one."""
        if self.cuda_graphs.may_have(batch.shape):
            with suppress(torch.OutOfMemoryError), one_memory_error():
                return self.forward_backward(batch)
        return None

    def forward_backward(self, batch: PaddedBatch) -> tuple[Tensor, int]:
        """Like `TrainingStep.forward_backward`, for a padded batch.

        Raises torch.OutOfMemoryError, and LostGeneratorError before anything is computed.
        """
        if batch.shape not in self._by_shape:
            buffer = torch.empty_like(batch.packed.buffer, device=self._loss.device)
            make = partial(self._source.made, batch.packed.within(buffer))
            work = partial(
                _forward_backward, self._step, self._change_tokens, make, self._gradients, self._loss
            )
            graphed = partial(GraphedWork(self.cuda_graphs, batch.shape), work)
            self._by_shape[batch.shape] = buffer, graphed
        buffer, work = self._by_shape[batch.shape]
        buffer.copy_(batch.packed.buffer, non_blocking=True)
        for weight, gradient in zip(self._weights, self._gradients, strict=True):
            weight.grad = gradient  # a step without graphs sets other gradients
        work()
        return self._loss, batch.transitions


def _forward_backward(
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
    loss.copy_(step.add_gradients(batch))


def freeing_graphs(graphs: GraphedGradients | None, compute: Callable[[], Result]) -> Result:
    """compute(). If memory is too small while there are graphs, they are freed, and it is called again."""
    if graphs and graphs.cuda_graphs.hold_memory:
        with suppress(TooLongError, torch.OutOfMemoryError), one_memory_error():
            return compute()
        graphs.cuda_graphs.free()
    return compute()


def graphs_of(
    settings: TrainingSettings,
    network: NetworkSettings,
    training_data: TrainingData,
    step: TrainingStep,
    processes: ProcessGroup,
) -> GraphedGradients | None:
    """The CUDA graphs of a run; None if it asks for none, or, with a warning, if it can have none."""
    if not settings.cuda_graphs:
        return None
    reason = why_no_common_shapes(network) if step.device.type == "cuda" else "only a GPU has them"
    if settings.exploration and settings.exploration.from_epoch == 1:
        reason = "epochs that explore have none"
    if training_data.train.facts:
        reason = "batches with trees that are known in part have none"
    if reason:
        warn(f"training.cuda_graphs: {reason}; training without CUDA graphs")
        return None
    source, lengths = training_data.source, training_data.train.tokens.lengths
    batches = chain.from_iterable(
        epoch_batches(training_data, settings, 1 + epoch) for epoch in range(EPOCHS)
    )
    shares = (processes.deal(rows, lengths) for rows in batches)
    shapes = common_shapes((source.shape(rows) for rows in shares if len(rows)), settings.max_batch_words)
    return GraphedGradients(step, source, shapes, training_data.word_dropout)


def why_no_common_shapes(settings: NetworkSettings) -> str | None:
    """Why batches of a network cannot be padded to common shapes; None if they can."""
    parts = {
        "composition": settings.composition,
        "a sentence encoder": settings.sentence_encoder is not None,
        "arcs": settings.arcs is not None,
        "a transformer": settings.transformer is not None,
        "characters or features": any(map(division_of, settings.columns)),
    }
    present = [name for name, is_there in parts.items() if is_there]
    return f"not for a network with {' and '.join(present)}" if present else None
