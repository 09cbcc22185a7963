"""Running a `torch.nn.LSTM` frame by frame and over a forest, with its own parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from parser.batching.forest import Forest
from parser.batching.forest_lstm import forest_lstm
from parser.batching.lstm_cell import lstm_cell
from parser.batching.product import linear
from parser.networks.dropout import dropout


def state_size(lstm: nn.LSTM) -> int:
    """Size of the concatenated hidden and cell states of all layers."""
    return 2 * lstm.num_layers * lstm.hidden_size


def project(lstm: nn.LSTM, inputs: Tensor, layer: int = 0) -> Tensor:
    """[rows, 4 * hidden] The input projection of a layer's gates, with both biases. inputs: [rows, input]."""
    bias = getattr(lstm, f"bias_ih_l{layer}") + getattr(lstm, f"bias_hh_l{layer}")
    return linear(inputs, getattr(lstm, f"weight_ih_l{layer}"), bias)


def recurrent_weight(lstm: nn.LSTM, layer: int) -> Tensor:
    """[4 * hidden, hidden] The recurrent weight of a layer."""
    return getattr(lstm, f"weight_hh_l{layer}")


def advance(lstm: nn.LSTM, projected: Tensor, state: Tensor) -> Tensor:
    """Run one frame through all layers; return the new state.

    projected: [batch, 4 * hidden] inputs, see `project`. state: [batch, 2 * layers * hidden] hidden and cell
    state of each layer.
    """
    parts = list(state.split(lstm.hidden_size, dim=1))
    for layer in range(lstm.num_layers):
        hidden, cell = parts[2 * layer : 2 * layer + 2]
        if layer:
            below = parts[2 * layer - 2]
            projected = project(lstm, dropout(below, lstm.dropout, lstm.training), layer)
        gates = projected + linear(hidden, recurrent_weight(lstm, layer))
        parts[2 * layer : 2 * layer + 2] = lstm_cell(gates, cell)
    return torch.cat(parts, dim=1)


def output(lstm: nn.LSTM, state: Tensor) -> Tensor:
    """[batch, hidden] The hidden state of the top layer."""
    return state[:, -2 * lstm.hidden_size : -lstm.hidden_size]


def over_forest(lstm: nn.LSTM, inputs: Tensor, forest: Forest) -> Tensor:
    """[nodes, hidden] Hidden states of the top layer over a forest. inputs: [nodes, input], in execution
    order.

    Layers run one after the other, so that each has a single input product for all nodes. Dropout between
    layers is as in `torch.nn.LSTM`.
    """
    hidden = forest_lstm(project(lstm, inputs), recurrent_weight(lstm, 0), forest)
    for layer in range(1, lstm.num_layers):
        projected = project(lstm, dropout(hidden, lstm.dropout, lstm.training), layer)
        hidden = forest_lstm(projected, recurrent_weight(lstm, layer), forest)
    return hidden


def first_state(lstm: nn.LSTM, inputs: Tensor) -> Tensor:
    """[1, state] The state after one frame, inputs [input], from the zero state."""
    projected = project(lstm, inputs[None])
    return advance(lstm, projected, inputs.new_zeros(1, state_size(lstm)))
