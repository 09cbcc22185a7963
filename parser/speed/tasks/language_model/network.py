"""Models of running text, over streams of frames: networks of layers."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from parser.batching.recurrence.backward import WeightGradients
from parser.batching.recurrence.layer_graph import Connection, Layer, LayerGraph
from parser.batching.recurrence.unrolled import Unrolled
from parser.batching.recurrence.weights import Weights

INPUT, EMBEDDING, SCORES_LAYER = "input", "embedding", "scores"


class Text(NamedTuple):
    """Frames of streams of words, and the next words."""

    inputs: Tensor
    """[frames, streams]"""
    targets: Tensor
    """[frames, streams]"""


class Method(NamedTuple):
    by_frame: bool
    """Whether every connection is computed frame by frame."""
    gradients_by_frame: bool
    """Whether gradients of weights are accumulated frame by frame."""
    together: bool
    """Whether all streams are computed at the same time."""


RECURRENCE_METHODS = {
    "none": Method(by_frame=True, gradients_by_frame=True, together=False),
    "streams": Method(by_frame=True, gradients_by_frame=True, together=True),
    "late-gradients": Method(by_frame=True, gradients_by_frame=False, together=True),
    "components": Method(by_frame=False, gradients_by_frame=False, together=False),
    "both": Method(by_frame=False, gradients_by_frame=False, together=True),
}
"""All methods compute the loss and the gradients of tables over all frames at once."""


class LanguageModel(Protocol):
    def forget(self) -> None:
        """Reset the state to the beginning of the streams."""

    def forward(self, inputs: Tensor) -> None:
        """inputs: [frames, streams]"""

    def loss(self, targets: Tensor) -> Tensor:
        """The loss, summed over frames and streams. targets: [frames, streams]"""

    def backward(self) -> None:
        """Add to the gradients of the parameters."""


def with_embedding(graph: LayerGraph, symbols: int) -> LayerGraph:
    """Return the same graph, with an embedding of symbols instead of an input of vectors."""
    vectors = Layer(size=graph.layers[INPUT].size, bias=False)
    moved = [
        each.model_copy(update={"source": EMBEDDING}) if each.source == INPUT else each
        for each in graph.connections
    ]
    layers = {INPUT: Layer(size=symbols, kind="symbols"), EMBEDDING: vectors}
    return LayerGraph(
        layers={**layers, **{name: layer for name, layer in graph.layers.items() if name != INPUT}},
        connections=[Connection(source=INPUT, target=EMBEDDING), *moved],
    )


class LayeredModel:
    """A network of layers from `input` (symbols) to `scores`, by one of the methods."""

    def __init__(self, weights: Weights, frames: int, streams: int, back: int, method: Method):
        """back: the number of earlier frames for backpropagation, see `Unrolled`."""
        width = streams if method.together else 1
        gradients = WeightGradients()
        self._runs = [
            (
                slice(start, start + width),
                Unrolled(
                    weights,
                    frames,
                    width,
                    back,
                    method.by_frame,
                    method.gradients_by_frame,
                    gradients=gradients,
                ),
            )
            for start in range(0, streams, width)
        ]

    def forget(self) -> None:
        for _, unrolled in self._runs:
            unrolled.forget()

    def forward(self, inputs: Tensor) -> None:
        for streams, unrolled in self._runs:
            unrolled.forward({INPUT: inputs[:, streams]})

    def loss(self, targets: Tensor) -> Tensor:
        losses = [
            cross_entropy_and_errors(
                unrolled.output(SCORES_LAYER), targets[:, streams], unrolled.error(SCORES_LAYER)
            )
            for streams, unrolled in self._runs
        ]
        return torch.stack(losses).sum()

    def backward(self) -> None:
        for _, unrolled in self._runs:
            unrolled.backward()


@torch.no_grad()
def cross_entropy_and_errors(scores: Tensor, targets: Tensor, errors: Tensor) -> Tensor:
    """The summed cross entropy of scores [frames, streams, symbols]; writes its gradient into `errors`."""
    torch.log_softmax(scores, -1, out=errors)
    right = targets[:, :, None]  # [frames, streams, 1]
    losses = errors.gather(-1, right)  # [frames, streams, 1]
    errors.exp_().scatter_add_(-1, right, torch.full_like(losses, -1.0))
    return -losses.sum()
