"""StackLSTMs without gradients: LSTM states, the rows of a batch of stacks, the history of transitions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from parser.batching.lstm import activate_, write_tanh
from parser.batching.product import add_product, times_transposed
from parser.networks.stack_parser import StackParser
from parser.transitions.inventory import Inventory


def rows_where(needed: Tensor) -> Tensor:
    """[n] The rows for which something is computed: those where `needed` [batch] is True, or all."""
    if _can_wait_for_count(needed.device):
        return needed.nonzero().squeeze(1)
    return torch.arange(len(needed), device=needed.device)


def replace_rows(table: Tensor, which: Tensor, needed: Tensor, values: Tensor) -> None:
    """Replace the rows of a table [at least batch, size] where `needed` [batch] is True.

    which: [n] as from `rows_where`; values: [n, size].
    """
    if _can_wait_for_count(needed.device):
        table.index_copy_(0, which, values)
    else:
        own = table[: len(needed)]
        own.copy_(torch.where(needed[:, None], values, own))


def _can_wait_for_count(device: torch.device) -> bool:
    """Whether the host may ask how many rows are needed, which would stop a GPU at each step."""
    return device.type == "cpu"


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


NO_ROW, ROOT = 0, 1
"""Heights: below ROOT, where stacks have no row; and that of ROOT, which no transition replaces."""


class StackRow(NamedTuple):
    """Tensors [rows, size]; of size 0 where the network does not need them."""

    hidden: Tensor
    cell: Tensor
    as_top: Tensor
    """What the row adds to the scores' input as S0."""
    as_below: Tensor
    """What it adds as S1, with word features."""
    vector: Tensor
    """The word vector, which compositions read."""


class StackRows:
    """A batch of stacks with ROOT alone."""

    def __init__(self, batch: int, root: StackRow, capacity: int = 16):
        """root: one row."""
        self._column = torch.arange(batch, device=root.hidden.device)
        self.top = torch.full_like(self._column, ROOT)
        """[batch] The heights of the top rows."""
        self.rows = StackRow(*(part.repeat(capacity * batch, 1) for part in root))
        """[heights * batch, size] Rows of equal height are adjacent, so that stacks can grow."""

    def reserve(self, depth: int) -> bool:
        """Make room for stacks of `depth` rows, and one above them for what is not read.

        Returns whether the rows are in another place now.
        """
        batch = len(self._column)
        needed, present = (depth + 2) * batch, len(self.rows.hidden)
        if needed > present:
            more = max(needed, 2 * present) - present
            grown = (torch.cat([part, part.new_zeros(more, part.shape[1])]) for part in self.rows)
            self.rows = StackRow(*grown)
        return needed > present

    def restart(self, which: Tensor) -> None:
        """Leave only ROOT on the stacks where `which` [batch] is True."""
        self.top.masked_fill_(which, ROOT)

    def index(self, height: Tensor) -> Tensor:
        """[batch] The indices of the rows at heights [batch]."""
        return height * len(self._column) + self._column

    def states(self, index: Tensor) -> LSTMStates:
        """A copy of the states of rows [n]."""
        return LSTMStates(self.rows.hidden.index_select(0, index), self.rows.cell.index_select(0, index))

    def write(self, index: Tensor, states: LSTMStates, as_top: Tensor, as_below: Tensor) -> None:
        """Replace rows [n], but their word vectors."""
        for part, values in zip(self.rows, (*states, as_top, as_below), strict=False):
            part.index_copy_(0, index, values)


class History:
    def __init__(self, network: StackParser, inventory: Inventory, batch: int):
        self._lstm = InferenceLSTM(network.history)
        # [transitions + 1, 4 * hidden]
        self._inputs = self._lstm.project(network.transition_embeddings.weight)
        self._first = self._lstm.zeros(1)
        self._lstm.advance(self._inputs[inventory.no_op][None].clone(), self._first, self._first)
        self._states = LSTMStates(*(part.repeat(batch, 1) for part in self._first))

    @property
    def output(self) -> Tensor:
        """[batch, hidden]"""
        return self._lstm.output(self._states)

    def restart(self, which: Tensor) -> None:
        """Return to the state before the first transition where `which` [batch] is True."""
        for first, own in zip(self._first, self._states, strict=True):
            torch.where(which[:, None], first, own, out=own)

    def advance(self, transitions: Tensor) -> None:
        """transitions: [batch]"""
        gates = self._inputs.index_select(0, transitions)  # [batch, 4 * hidden]
        self._lstm.advance(gates, self._states, self._states)
