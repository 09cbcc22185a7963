"""LSTMs that run one frame at a time, with gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from parser.batching.functional import dropout, linear
from parser.batching.lstm import input_parameters, lstm_cell, recurrent_weight

States = Sequence[Tensor]
"""The hidden state and the cell state of each layer, [batch, hidden] each."""


class SteppedLSTM:
    """Runs with the parameters of a `torch.nn.LSTM`."""

    def __init__(self, lstm: nn.LSTM):
        layers = range(lstm.num_layers)
        self.lstm = lstm
        # Biases are added up once, not at each frame.
        self._inputs = [input_parameters(lstm, layer) for layer in layers]
        self._recurrent = [recurrent_weight(lstm, layer) for layer in layers]

    @property
    def state_size(self) -> int:
        """The size of the concatenated states."""
        return 2 * self.lstm.num_layers * self.lstm.hidden_size

    def project(self, inputs: Tensor) -> Tensor:
        """[rows, 4 * hidden] The part of the lowest layer's gates that depends on inputs [rows, input]."""
        return linear(inputs, *self._inputs[0])

    def advance(self, projected: Tensor, states: States) -> States:
        """Return the states after a frame. projected: [batch, 4 * hidden], see `project`."""
        found: list[Tensor] = []
        for layer, recurrent in enumerate(self._recurrent):
            hidden, cell = states[2 * layer : 2 * layer + 2]
            if layer:
                below = dropout(found[-2], self.lstm.dropout, self.lstm.training)
                projected = linear(below, *self._inputs[layer])
            found += lstm_cell(projected, linear(hidden, recurrent), cell)
        return found

    def first(self, inputs: Tensor) -> States:
        """Return the states, [1, hidden] each, after one frame with the inputs [input]."""
        zeros = inputs.new_zeros(1, self.state_size)
        return self.advance(self.project(inputs[None]), self.split(zeros))

    def split(self, joined: Tensor) -> States:
        """The inverse of `join`. joined: [batch, state], the concatenated states."""
        return joined.split(self.lstm.hidden_size, dim=1)

    def output(self, joined: Tensor) -> Tensor:
        """[batch, hidden] The hidden state of the top layer. joined: as in `split`."""
        return joined[:, -2 * self.lstm.hidden_size : -self.lstm.hidden_size]


def join(states: States) -> Tensor:
    """[batch, state] The states, concatenated."""
    return torch.cat(list(states), dim=1)


def output(states: States) -> Tensor:
    """[batch, hidden] Like `SteppedLSTM.output`, for states that are not concatenated."""
    return states[-2]
