"""The weights of a `torch.nn.LSTM` frame by frame and over a forest.

All three ways of running an LSTM (the library's over a sequence, a frame at a time, level by level) share
the library's parameters, so that what one trains the others use.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from parser.batching.levels import Forest
from parser.batching.product import linear
from parser.networks.dropout import dropout
from parser.networks.forest_lstm import forest_lstm
from parser.networks.lstm_cell import lstm_cell


def layer_weights(lstm: nn.LSTM, layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """Input weights [4 * hidden, input], recurrent weights [4 * hidden, hidden], bias [4 * hidden]."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    input_weight, recurrent_weight, *biases = (getattr(lstm, f"{name}_l{layer}") for name in names)
    return input_weight, recurrent_weight, biases[0] + biases[1]


def state_size(lstm: nn.LSTM) -> int:
    """Size of the hidden and cell states of all layers, joined."""
    return 2 * lstm.num_layers * lstm.hidden_size


def project(lstm: nn.LSTM, inputs: Tensor) -> Tensor:
    """[rows, 4 * hidden] The inputs' part of the first layer's gates; inputs: [rows, input]."""
    input_weight, _, bias = layer_weights(lstm, 0)
    return linear(inputs, input_weight, bias)


def advance(lstm: nn.LSTM, projected: Tensor, state: Tensor) -> Tensor:
    """One frame through all layers.

    projected: [batch, 4 * hidden], the inputs as `project` gives them; state: [batch, 2 * layers * hidden],
    each layer's hidden and cell state. Returns the new state; its top layer's hidden state is its `output`.
    """
    parts = list(state.split(lstm.hidden_size, dim=1))
    for layer in range(lstm.num_layers):
        hidden, cell = parts[2 * layer : 2 * layer + 2]
        input_weight, recurrent_weight, bias = layer_weights(lstm, layer)
        if layer:
            projected = linear(dropout(parts[2 * layer - 2], lstm.dropout, lstm.training), input_weight, bias)
        gates = projected + linear(hidden, recurrent_weight)
        parts[2 * layer : 2 * layer + 2] = lstm_cell(gates, cell)
    return torch.cat(parts, dim=1)


def output(lstm: nn.LSTM, state: Tensor) -> Tensor:
    """[batch, hidden] The top layer's hidden state in a joined state."""
    return state[:, -2 * lstm.hidden_size : -lstm.hidden_size]


def over_forest(lstm: nn.LSTM, inputs: Tensor, forest: Forest) -> Tensor:
    """Top-layer hidden states [nodes, hidden] of a forest. inputs: [nodes, input], in running order.

    Layer after layer, so that a layer's input product is one for all nodes. Dropout between the layers, as
    the library does it: one mask per node.
    """
    _, recurrent_weight, _ = layer_weights(lstm, 0)
    hidden = forest_lstm(project(lstm, inputs), recurrent_weight, forest)
    for layer in range(1, lstm.num_layers):
        input_weight, recurrent_weight, bias = layer_weights(lstm, layer)
        projected = linear(dropout(hidden, lstm.dropout, lstm.training), input_weight, bias)
        hidden = forest_lstm(projected, recurrent_weight, forest)
    return hidden
