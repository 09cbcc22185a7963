"""The batched parser as its paper describes it (Ding & Koehn 2019, section 3), for comparison.

Each step gathers from the whole stack, runs every LSTM for one frame, input product and all, and writes
into the whole stack by index. `parser.networks.stepper` is the same algorithm without that waste.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from parser.batching.product import linear
from parser.networks import stack_lstm
from parser.networks.dropout import dropout
from parser.networks.examples import Batch
from parser.networks.stack_parser import StackParser
from parser.networks.stepper import by_step, first_state
from parser.transitions.inventory import Inventory


class NaiveStepper:
    """The stacks, buffers and histories of a batch of parsers."""

    def __init__(
        self, network: StackParser, inventory: Inventory, table: Tensor, buffer_tokens: Tensor, depth: int
    ):
        """table: [W + 2, token]; buffer_tokens: [frames, batch], from the ends; depth: of the deepest stack."""
        batch = buffer_tokens.shape[1]
        self._network, self._inventory, self._table = network, inventory, table
        self._column = torch.arange(batch, device=table.device)
        self._buffer = _frame_by_frame(network.buffer, table[buffer_tokens])  # [frames, batch, hidden]
        root = first_state(network.stack, network.tokens.root)  # [1, state]
        self._rows = root.new_zeros(depth + 2, batch, root.shape[1])  # [depth + 2, batch, state]
        self._rows[1] = root
        self._pointer = torch.ones_like(self._column)
        start = first_state(network.history, network.actions.weight[inventory.wait])
        self._history = start.expand(batch, -1)  # [batch, state]
        shows = (network.from_stack, network.from_buffer, network.from_history)
        self._weight = torch.cat([layer.weight for layer in shows], dim=1)  # [hidden, 3 * hidden]

    def scores(self, frame: Tensor) -> Tensor:
        """[batch, transitions] frame: [batch], that of each buffer's front."""
        network = self._network
        state = torch.cat(
            [
                stack_lstm.output(network.stack, self._rows[self._pointer, self._column]),
                self._buffer[frame, self._column],
                stack_lstm.output(network.history, self._history),
            ],
            dim=1,
        )  # [batch, 3 * hidden]
        state = dropout(state, network.dropout, network.training)
        return network.score(linear(state, self._weight, network.from_stack.bias))

    def advance(self, transitions: Tensor, words: Tensor) -> None:
        """Take the transitions [batch]; words: [batch], rows of the table that are on top afterwards."""
        network, kind = self._network, self._inventory.kind[transitions]
        read, move = self._inventory.stack_read[kind], self._inventory.stack_move[kind]
        previous = self._rows[self._pointer - read, self._column]
        row = _frame(network.stack, self._table[words], previous)
        self._rows[self._pointer - read + 1, self._column] = row
        self._pointer = self._pointer + move
        self._history = _frame(network.history, network.actions(transitions), self._history)


def _frame(lstm: nn.LSTM, inputs: Tensor, state: Tensor) -> Tensor:
    return stack_lstm.advance(lstm, stack_lstm.project(lstm, inputs), state)


def _frame_by_frame(lstm: nn.LSTM, inputs: Tensor) -> Tensor:
    """[frames, batch, hidden] inputs: [frames, batch, input]."""
    state = inputs.new_zeros(inputs.shape[1], stack_lstm.state_size(lstm))
    outputs = []
    for frame in inputs:
        state = _frame(lstm, frame, state)
        outputs.append(stack_lstm.output(lstm, state))
    return torch.stack(outputs)


def step_naively(network: StackParser, inventory: Inventory, batch: Batch) -> Tensor:
    """[S, transitions] The scores that `StackParser.replay` gives, computed step by step."""
    table = network.tokens(batch.tokens)
    stepper = NaiveStepper(network, inventory, table, batch.buffer_tokens, len(batch.forest.levels))
    end = len(batch.tokens) + 1
    each_step = zip(
        by_step(batch, batch.transitions, inventory.wait),
        by_step(batch, batch.top_token, end),
        by_step(batch, batch.buffer_row // batch.sentences, 0),
        strict=True,
    )
    scores = []
    for taken, word, frame in each_step:
        scores.append(stepper.scores(frame))
        stepper.advance(taken, word)
    return torch.cat(scores)[batch.step]
