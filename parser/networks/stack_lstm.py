"""Running a `torch.nn.LSTM` over a forest, with its own parameters."""

from __future__ import annotations

from torch import Tensor, nn

from parser.batching.forest import Forest
from parser.batching.forest_lstm import forest_lstm
from parser.batching.product import linear
from parser.networks.dropout import dropout


def input_parameters(lstm: nn.LSTM, layer: int) -> tuple[Tensor, Tensor]:
    """The input weight [4 * hidden, input] and the sum of both biases [4 * hidden] of a layer."""
    bias = getattr(lstm, f"bias_ih_l{layer}") + getattr(lstm, f"bias_hh_l{layer}")
    return getattr(lstm, f"weight_ih_l{layer}"), bias


def recurrent_weight(lstm: nn.LSTM, layer: int) -> Tensor:
    """[4 * hidden, hidden] The recurrent weight of a layer."""
    return getattr(lstm, f"weight_hh_l{layer}")


def over_forest(lstm: nn.LSTM, inputs: Tensor, forest: Forest) -> Tensor:
    """[nodes, hidden] Hidden states of the top layer over a forest. inputs: [nodes, input], in execution
    order.

    Layers run one after the other, so that each has a single input product for all nodes. Dropout between
    layers is as in `torch.nn.LSTM`.
    """
    hidden = forest_lstm(linear(inputs, *input_parameters(lstm, 0)), recurrent_weight(lstm, 0), forest)
    for layer in range(1, lstm.num_layers):
        inputs = dropout(hidden, lstm.dropout, lstm.training)
        gates = linear(inputs, *input_parameters(lstm, layer))
        hidden = forest_lstm(gates, recurrent_weight(lstm, layer), forest)
    return hidden
