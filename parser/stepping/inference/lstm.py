"""LSTMs without gradients, with the parameters of a `torch.nn.LSTM`."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from parser.batching.activations import write_tanh
from parser.batching.lstm_cell import activate_
from parser.batching.product import add_product, times_transposed


class LSTMStates(NamedTuple):
    """Of all layers, side by side. Both are [rows, layers * hidden]."""

    hidden: Tensor
    cell: Tensor

    def between(self, start: int, stop: int) -> LSTMStates:
        """A view of some rows."""
        return LSTMStates(self.hidden[start:stop], self.cell[start:stop])


class InferenceLSTM:
    def __init__(self, lstm: nn.LSTM):
        self._size = lstm.hidden_size
        self._inputs, self._recurrent = [], []
        for layer in range(lstm.num_layers):
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            of_input, recurrent, *biases = (getattr(lstm, f"{name}_l{layer}") for name in names)
            self._inputs.append((of_input, sum(biases)))
            self._recurrent.append(recurrent)

    def project(self, inputs: Tensor) -> Tensor:
        """[rows, 4 * hidden] The part of the lowest layer's gates that depends on inputs [rows, input]."""
        return times_transposed(inputs, *self._inputs[0])

    def output(self, states: LSTMStates) -> Tensor:
        """[rows, hidden] The hidden states of the top layer."""
        return states.hidden[:, -self._size :]

    def zeros(self, rows: int) -> LSTMStates:
        """The states before the first input."""
        weight = self._recurrent[0]
        return LSTMStates(*weight.new_zeros(2, rows, len(self._recurrent) * self._size))

    def advance(self, gates: Tensor, previous: LSTMStates, states: LSTMStates) -> None:
        """Write the next states. gates: [rows, 4 * hidden], see `project`; they are overwritten.

        states: may be `previous`.
        """
        layers = zip(
            self._inputs,
            self._recurrent,
            *(part.split(self._size, dim=1) for part in (*previous, *states)),
            strict=True,
        )
        below = None
        for of_input, recurrent, previous_hidden, previous_cell, hidden, cell in layers:
            if below is not None:
                gates = times_transposed(below, *of_input)
            add_product(gates, previous_hidden, recurrent)
            _write_states(gates, previous_cell, hidden, cell)
            below = hidden


def _write_states(gates: Tensor, previous_cell: Tensor, hidden: Tensor, cell: Tensor) -> None:
    """All [rows, hidden], but the gates [rows, 4 * hidden], in torch's order, before their activations."""
    activate_(gates, hidden.shape[1])
    input_gate, forget_gate, cell_gate, output_gate = gates.chunk(4, dim=1)
    torch.mul(forget_gate, previous_cell, out=cell)
    cell.addcmul_(input_gate, cell_gate)
    write_tanh(cell, out=hidden)
    hidden.mul_(output_gate)
