"""The batched decoder as described by Ding & Koehn 2019, section 3, for comparison.

Each step gathers hidden and cell states from the stacks by index, runs one frame of each LSTM with
`torch.lstm_cell`, including the input product, and writes the states back by index. `baselines.stepper` is
the same algorithm, but computes input products in advance.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.lstm import run_cell
from parser.networks.stack_parser import StackParser
from parser.replay.batch import Batch
from parser.transitions.inventory import Inventory

CELL_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
"""The parameters of a layer, in the order of the arguments of `torch.lstm_cell`."""
States = tuple[Tensor, Tensor]
"""Hidden and cell states, [batch, layers, hidden] each."""


class PaperDecoder:
    """Stacks, buffers and histories of a batch of parsers."""

    def __init__(
        self, network: StackParser, inventory: Inventory, table: Tensor, buffer_tokens: Tensor, depth: int
    ):
        """table: [W + 2, token]. buffer_tokens: [frames, batch], see `Batch`. depth: greatest stack depth."""
        batch = buffer_tokens.shape[1]
        self._network, self._inventory, self._table = network, inventory, table
        self._column = torch.arange(batch, device=table.device)
        self._buffer = _frame_by_frame(network.buffer, table[buffer_tokens])  # [frames, batch, hidden]
        root = _frame(
            network.stack, network.tokens.root.expand(batch, -1), _zeros(network.stack, table, batch)
        )
        # [depth + 2, batch, layers, hidden]
        self._hidden, self._cell = (table.new_zeros(depth + 2, *states.shape) for states in root)
        self._hidden[1], self._cell[1] = root
        self._pointer = torch.ones_like(self._column)
        no_op = torch.full_like(self._column, inventory.no_op)
        start = _zeros(network.history, table, batch)
        self._history = _frame(network.history, network.transition_embeddings(no_op), start)

    def scores(self, frame: Tensor) -> Tensor:
        """[batch, transitions] frame: [batch], the frame of each buffer's front."""
        network = self._network
        hidden = (
            network.from_stack(self._dropout(self._hidden[self._pointer, self._column, -1]))
            + network.from_buffer(self._dropout(self._buffer[frame, self._column]))
            + network.from_history(self._dropout(self._history[0][:, -1]))
        )
        return network.scores(self._dropout(F.relu(hidden)))

    def _dropout(self, states: Tensor) -> Tensor:
        return F.dropout(states, self._network.dropout, self._network.training)

    def advance(self, transitions: Tensor, words: Tensor) -> None:
        """Take the transitions [batch]. words: [batch], table rows of the words on top afterwards."""
        network, effects = self._network, self._inventory.effects(transitions)
        read, move = effects.stack_read, effects.stack_move
        below = self._pointer - read
        previous = self._hidden[below, self._column], self._cell[below, self._column]
        hidden, cell = _frame(network.stack, self._table[words], previous)
        self._hidden[below + 1, self._column] = hidden
        self._cell[below + 1, self._column] = cell
        self._pointer = self._pointer + move
        self._history = _frame(network.history, network.transition_embeddings(transitions), self._history)


def _zeros(lstm: nn.LSTM, like: Tensor, batch: int) -> States:
    states = like.new_zeros(batch, lstm.num_layers, lstm.hidden_size)
    return states, states


def _frame(lstm: nn.LSTM, inputs: Tensor, before: States) -> States:
    """Run one frame through all layers. inputs: [batch, input]."""
    hidden, cell = [], []
    for layer in range(lstm.num_layers):
        if layer:
            inputs = F.dropout(inputs, lstm.dropout, lstm.training)
        weights = [getattr(lstm, f"{name}_l{layer}") for name in CELL_WEIGHTS]
        states = run_cell(inputs, (before[0][:, layer], before[1][:, layer]), weights)
        inputs = states[0]
        hidden.append(states[0])
        cell.append(states[1])
    return torch.stack(hidden, dim=1), torch.stack(cell, dim=1)


def _frame_by_frame(lstm: nn.LSTM, inputs: Tensor) -> Tensor:
    """[frames, batch, hidden] Hidden states of the top layer. inputs: [frames, batch, input]."""
    states = _zeros(lstm, inputs, inputs.shape[1])
    outputs = []
    for frame in inputs:
        states = _frame(lstm, frame, states)
        outputs.append(states[0][:, -1])
    return torch.stack(outputs)


def score_with_paper_decoder(
    network: StackParser, inventory: Inventory, table: Tensor, batch: Batch
) -> Tensor:
    """[S, transitions] The scores of `StackParser.replay_words`, computed by the decoder of the paper.

    table: [W + 2, token], see `EncodedWords`.
    """
    assert network.is_plain
    [buffer_tokens] = batch.buffer_tokens
    decoder = PaperDecoder(network, inventory, table, buffer_tokens, len(batch.forest.levels))
    end = batch.tokens.words + 1
    each_step = zip(
        batch.by_step(batch.transitions, inventory.no_op),
        batch.by_step(batch.top_vector, end),
        batch.by_step(batch.buffer_row // batch.sentences, 0),
        strict=True,
    )
    scores = []
    for taken, word, frame in each_step:
        scores.append(decoder.scores(frame))
        decoder.advance(taken, word)
    return torch.cat(scores)[batch.step]
