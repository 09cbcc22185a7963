"""Language models of PyTorch's layers: `nn.RNN` or `nn.LSTM` over the streams, then one linear layer.

This is how such models are usually written. PyTorch has no layer that is an LSTM with peepholes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.functional import linear
from parser.batching.lstm import States, layers_precision
from parser.batching.recurrence.weights import Weights
from parser.speed.tasks.language_model.network import EMBEDDING, INPUT, SCORES_LAYER

GATES = ("input gate", "forget gate", "cell gate", "output gate")
"""The gates of `examples.lstm`, in the order of `nn.LSTM`."""
State: TypeAlias = Tensor | States
"""The state of an RNN or of an LSTM."""
LAYERS: dict[str, type[nn.RNN | nn.LSTM]] = {"elman": nn.RNN, "lstm": nn.LSTM}
"""PyTorch's layers by the name of the example that computes the same."""


class LibraryModel(nn.Module):
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
