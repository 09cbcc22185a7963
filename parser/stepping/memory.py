"""The recurrent state of a batch of parsers: stacks, and the LSTM over their transitions."""

from __future__ import annotations

from torch import Tensor

from parser.batching.rows import gather_rows
from parser.batching.stack import PUSH, Stack
from parser.networks.stack_parser import StackParser
from parser.stepping.lstm import States, SteppedLSTM, output
from parser.transitions.inventory import Inventory


class Memory:
    """The stacks of a batch, which the stepper reads and writes, and the history."""

    def __init__(self, network: StackParser, inventory: Inventory, batch: int, root_row: Tensor):
        """root_row: [1, size] The first row of each stack."""
        self.stack = Stack(batch, root_row.shape[1], like=root_row[0])
        self.stack.write(*PUSH, root_row.expand(batch, -1))
        self.history = SteppedHistory(network, inventory, batch)


class SteppedHistory:
    """The LSTM over the transitions."""

    def __init__(self, network: StackParser, inventory: Inventory, batch: int):
        self._lstm = SteppedLSTM(network.history)
        embeddings = network.transition_embeddings.weight
        self._inputs = self._lstm.project(embeddings)  # [transitions + 1, 4 * hidden]
        first = self._lstm.first(embeddings[inventory.no_op])
        self._states: States = [part.expand(batch, -1) for part in first]

    def inputs(self, transitions: Tensor) -> Tensor:
        """[..., 4 * hidden] Projected embeddings of transitions [...]."""
        return gather_rows(self._inputs, transitions)

    def advance(self, inputs: Tensor) -> None:
        """inputs: [batch, 4 * hidden], as from `inputs`."""
        self._states = self._lstm.advance(inputs, self._states)

    @property
    def output(self) -> Tensor:
        """[batch, hidden]"""
        return output(self._states)
