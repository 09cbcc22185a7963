"""Models of running text, over streams of frames: networks of layers, and PyTorch's layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.functional import linear
from parser.batching.lstm import States, layers_precision
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
    """A network of layers from `input` (symbols) to `scores`."""

    def __init__(
        self,
        by_frame: bool,
        gradients_by_frame: bool,
        together: bool,
        weights: Weights,
        frames: int,
        streams: int,
        back: int,
    ):
        """by_frame: compute every connection frame by frame; gradients_by_frame: accumulate the weights'
        gradients frame by frame; together: compute all streams at the same time; back: the number of earlier
        frames for backpropagation, see `Unrolled`.

        The loss and the gradients of tables are always computed over all frames at once.
        """
        width = streams if together else 1
        gradients = WeightGradients()
        self._runs = [
            (
                slice(start, start + width),
                Unrolled(weights, frames, width, back, by_frame, gradients_by_frame, gradients=gradients),
            )
            for start in range(0, streams, width)
        ]

    def forget(self) -> None:
        """Reset the state to the beginning of the streams."""
        for _, unrolled in self._runs:
            unrolled.forget()

    def forward(self, inputs: Tensor) -> None:
        """inputs: [frames, streams]"""
        for streams, unrolled in self._runs:
            unrolled.forward({INPUT: inputs[:, streams]})

    def loss(self, targets: Tensor) -> Tensor:
        """The loss, summed over frames and streams. targets: [frames, streams]"""
        losses = [
            cross_entropy_and_errors(
                unrolled.output(SCORES_LAYER), targets[:, streams], unrolled.error(SCORES_LAYER)
            )
            for streams, unrolled in self._runs
        ]
        return torch.stack(losses).sum()

    def backward(self) -> None:
        """Add to the gradients of the parameters."""
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


GATES = ("input gate", "forget gate", "cell gate", "output gate")
"""The gates of `examples.lstm`, in the order of `nn.LSTM`."""
State: TypeAlias = Tensor | States
"""The state of an RNN or of an LSTM."""
LAYERS: dict[str, type[nn.RNN | nn.LSTM]] = {"elman": nn.RNN, "lstm": nn.LSTM}
"""PyTorch's layers by the name of the example that computes the same."""


class LibraryModel(nn.Module):
    """`nn.RNN` or `nn.LSTM` over the streams, then one linear layer, as such models are usually written.

    PyTorch has no layer that is an LSTM with peepholes.
    """

    def __init__(
        self, network: str, symbols: int, embedding_size: int, hidden_size: int, scores: int, window: int
    ):
        """network: a key of LAYERS. window: the number of chunks for backpropagation, 1 or 2.

        embedding_size: 0 if the symbols are connected directly to the recurrent layer. The network must then
        be "elman": its input weights are the identity, and are not trained.
        """
        super().__init__()
        self._direct, self._window = embedding_size == 0, window
        width = embedding_size or hidden_size
        self.embedding = nn.Embedding(symbols, width, sparse=True)
        self.recurrent = LAYERS[network](width, hidden_size)
        second_bias = self.recurrent.get_parameter("bias_hh_l0")  # redundant with the other bias
        nn.init.zeros_(second_bias.requires_grad_(False))
        if self._direct:
            nn.init.eye_(self.recurrent.get_parameter("weight_ih_l0").requires_grad_(False))
        self.scores = nn.Linear(hidden_size, scores)
        self.forget()

    def forget(self) -> None:
        self._state: State | None = None
        """The state before the frames of backpropagation."""
        self._before: Tensor | None = None
        """The inputs of the frames of backpropagation in the previous chunk."""

    def forward(self, inputs: Tensor) -> None:
        """Run a chunk. For BPTT(2h; h), the previous chunk runs again, without scores."""
        state = self._state
        if self._before is not None:
            state = self._run(self._before, state)[1]
        # [frames, streams, hidden]
        hidden, last = self._run(inputs, state)
        first, self._before = (last, None) if self._window == 1 else (state, inputs)
        self._state = None if first is None else _each(Tensor.detach, first)
        # [frames * streams, scores]
        self._outputs = linear(hidden.flatten(0, 1), self.scores.weight, self.scores.bias)

    def loss(self, targets: Tensor) -> Tensor:
        self._loss = F.cross_entropy(self._outputs, targets.flatten(), reduction="sum")
        return self._loss.detach()

    def backward(self) -> None:
        self._loss.backward()

    def _run(self, inputs: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Hidden states [frames, streams, hidden], and the last states. inputs: [frames, streams]"""
        vectors = self.embedding(inputs)  # [frames, streams, width]
        with layers_precision(vectors):
            hidden, last = self.recurrent(vectors, state)
        return hidden.to(vectors.dtype), _each(lambda part: part.to(vectors.dtype), last)

    def pairs(self, weights: Weights) -> Iterator[tuple[Tensor, slice, Tensor]]:
        """Yield rows of this model's parameters, paired with the parameters of the network of layers."""
        full = (each for each in weights.graph.connections if each.weight == "full")
        between = {(each.source, each.target): weights.of(each) for each in full}
        everything, size = slice(None), self.recurrent.hidden_size
        gates = GATES if isinstance(self.recurrent, nn.LSTM) else ("output",)
        yield self.embedding.weight, everything, between[INPUT, "output" if self._direct else EMBEDDING].T
        for number, gate in enumerate(gates):
            rows = slice(number * size, (number + 1) * size)
            if not self._direct:
                yield self.recurrent.get_parameter("weight_ih_l0"), rows, between[EMBEDDING, gate]
            yield self.recurrent.get_parameter("weight_hh_l0"), rows, between["output", gate]
            yield self.recurrent.get_parameter("bias_ih_l0"), rows, weights.bias(gate)
        yield self.scores.weight, everything, between["output", SCORES_LAYER]
        yield self.scores.bias, everything, weights.bias(SCORES_LAYER)


def _each(change: Callable[[Tensor], Tensor], state: State) -> State:
    return change(state) if isinstance(state, Tensor) else (change(state[0]), change(state[1]))


LanguageModel: TypeAlias = LayeredModel | LibraryModel
