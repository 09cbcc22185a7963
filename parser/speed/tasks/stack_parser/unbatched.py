"""The parser without batching: one sentence, one transition at a time, with a Python list as the stack."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.stack_lstm import SteppedLSTM, output
from parser.networks.replay.batch import Batch
from parser.networks.stack_parser import StackParser
from parser.transitions.inventory import Inventory


class UnbatchedParser:
    """Stack and history of one sentence. Unlike in batches, a pop needs no LSTM call."""

    def __init__(self, network: StackParser, inventory: Inventory):
        self._network = network
        effects = inventory.effects(torch.arange(len(inventory) + 1, device=inventory.kind.device))
        self._operations = list(zip(effects.stack_read.tolist(), effects.stack_move.tolist(), strict=True))
        self._stack_lstm, self._history_lstm = SteppedLSTM(network.stack), SteppedLSTM(network.history)
        self._transitions = network.transition_embeddings.weight
        self._stack = [self._stack_lstm.first(network.tokens.root)]
        self._history = self._history_lstm.first(self._transitions[inventory.no_op])

    def scores(self, buffer: Tensor) -> Tensor:
        """[1, transitions] buffer: [1, hidden], the output of `StackParser.project_buffer` for the front."""
        return self._network.score_states(output(self._stack[-1]), buffer, output(self._history))

    def advance(self, transition: int, word: Tensor) -> None:
        """Take a transition. word: [1, 4 * hidden], the projected vector of the word that is then on top."""
        stack = self._stack
        read, move = self._operations[transition]
        below = len(stack) - read
        if move == 1 - read:
            stack[below:] = [self._stack_lstm.advance(word, stack[below - 1])]
        else:
            del stack[len(stack) + move :]
        projected = self._history_lstm.project(self._transitions[transition, None])
        self._history = self._history_lstm.advance(projected, self._history)


def score_sentence(network: StackParser, inventory: Inventory, table: Tensor, batch: Batch) -> Tensor:
    """[S, transitions] The scores of `StackParser.replay_words`, for a batch of one sentence.

    table: [W + 2, token], see `EncodedWords`.
    """
    assert network.is_of_ding_and_koehn
    assert batch.sentences == 1
    words = SteppedLSTM(network.stack).project(table)  # [W + 2, 4 * hidden]
    buffer = network.project_buffer(table, batch.buffer_tokens)  # [frames, hidden]
    parser, scores = UnbatchedParser(network, inventory), []
    steps = zip(
        batch.transitions.tolist(),
        words[batch.top_vector].split(1),
        buffer[batch.buffer_row].split(1),
        strict=True,
    )
    for transition, word, front in steps:
        scores.append(parser.scores(front))
        parser.advance(transition, word)
    return torch.cat(scores)
