"""The parser one transition at a time (Ding & Koehn 2019, section 3): a step for all sentences at once."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.stack import Stack
from parser.networks import stack_lstm
from parser.networks.stack_parser import StackParser
from parser.transitions.inventory import Inventory


class Stepper:
    """The stacks and histories of a batch of parsers.

    Which word a parser shifts and where its buffer stands is the caller's to know.
    """

    def __init__(self, network: StackParser, inventory: Inventory, batch: int):
        """All `batch` parsers begin with ROOT on their stacks."""
        self._network, self._inventory = network, inventory
        root = network.tokens.root
        self._root_row = first_state(network.stack, root)  # [1, state]
        self._history_start = first_state(network.history, network.actions.weight[inventory.wait])
        self.stack = Stack(batch, self._root_row.shape[1], like=root)
        self._history = self._history_start.expand(batch, -1)  # [batch, state]
        self.restart(torch.ones(batch, dtype=torch.bool, device=root.device))

    def restart(self, which: Tensor) -> None:
        """Let the parsers where `which` [batch] is True begin anew."""
        self.stack.empty(which)
        # The others hold: their ROOT goes where nothing reads it.
        self.stack.write(0, which.long(), self._root_row.expand(len(which), -1))
        self._history = torch.where(which[:, None], self._history_start, self._history)

    def scores(self, shown: Tensor) -> Tensor:
        """[batch, transitions] shown: see `StackParser.score_states`."""
        return self._network.score_states(self.stack.top(), shown, self._history)

    def advance(self, transitions: Tensor, actions: Tensor, words: Tensor) -> None:
        """Take the transitions [batch].

        actions: [batch, 4 * hidden], their embeddings, projected; words: the same of the words on top
        afterwards. See `stack_lstm.project`.
        """
        network, kind = self._network, self._inventory.kind[transitions]
        read, move = self._inventory.stack_read[kind], self._inventory.stack_move[kind]
        row = stack_lstm.advance(network.stack, words, self.stack.previous(read))
        self.stack.write(read, move, row)
        self._history = stack_lstm.advance(network.history, actions, self._history)


def first_state(lstm: torch.nn.LSTM, inputs: Tensor) -> Tensor:
    """[1, state] An LSTM's after one frame, inputs [input]."""
    projected = stack_lstm.project(lstm, inputs[None])
    return stack_lstm.advance(lstm, projected, inputs.new_zeros(1, stack_lstm.state_size(lstm)))
