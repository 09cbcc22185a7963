"""The recurrent state of a batch of parsers: stacks, and the LSTM over their transitions."""

from __future__ import annotations

from torch import Tensor

from parser.batching.stack import PUSH, Stack
from parser.networks import stack_lstm
from parser.networks.stack_parser import StackParser
from parser.transitions.inventory import Inventory


class Memory:
    """The stacks of a batch, which the stepper reads and writes, and the history state [batch, state]."""

    def __init__(self, network: StackParser, inventory: Inventory, batch: int, root_row: Tensor):
        """root_row: [1, size] The first row of each stack."""
        self._network = network
        self.stack = Stack(batch, root_row.shape[1], like=root_row[0])
        self.stack.write(*PUSH, root_row.expand(batch, -1))
        no_transition = network.transition_embeddings.weight[inventory.no_op]
        self.history = stack_lstm.first_state(network.history, no_transition).expand(batch, -1)

    def add_to_history(self, transition_inputs: Tensor) -> None:
        """Advance the history LSTM. transition_inputs: [batch, 4 * hidden], see `stack_lstm.project`."""
        self.history = stack_lstm.advance(self._network.history, transition_inputs, self.history)
