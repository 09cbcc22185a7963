"""What a batch of parsers remembers: their stacks, and the states of the LSTM over their transitions."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.stack import Stack
from parser.networks import stack_lstm
from parser.networks.stack_parser import StackParser
from parser.transitions.inventory import Inventory


class Memory:
    """`stack` is read and written by whoever steps; `history` is [batch, state]."""

    def __init__(self, network: StackParser, inventory: Inventory, batch: int, root_row: Tensor):
        """root_row: [1, size] What lies on every stack at first."""
        self._network, self._root_row = network, root_row
        self._history_start = stack_lstm.first_state(
            network.history, network.transition_embeddings.weight[inventory.no_op]
        )
        self.stack = Stack(batch, root_row.shape[1], like=root_row[0])
        self.history = self._history_start.expand(batch, -1)
        self.restart(torch.ones(batch, dtype=torch.bool, device=root_row.device))

    def restart(self, which: Tensor) -> None:
        """Let the parsers where `which` [batch] is True begin anew."""
        self.stack.empty(which)
        # The others hold: their ROOT goes where nothing reads it.
        self.stack.write(0, which.long(), self._root_row.expand(len(which), -1))
        self.history = torch.where(which[:, None], self._history_start, self.history)

    def add_to_history(self, transition_inputs: Tensor) -> None:
        """transition_inputs: [batch, 4 * hidden], embeddings projected by `stack_lstm.project`."""
        self.history = stack_lstm.advance(self._network.history, transition_inputs, self.history)
