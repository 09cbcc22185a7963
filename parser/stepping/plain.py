"""The parser one transition at a time (Ding & Koehn 2019, section 3): a step for all sentences at once."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.transfer import to_device
from parser.networks import stack_lstm
from parser.networks.stack_parser import FEATURE_WORDS, StackParser
from parser.replay.vector_rows import front_rows
from parser.stepping.encoding import frames_by_front, gather_rows, sentence_groups
from parser.stepping.memory import Memory
from parser.stepping.positions import Positions
from parser.transitions.inventory import Inventory
from parser.treebank.tokens import Tokens

Inputs = tuple[Tensor, ...]
"""Each [batch, some size], or [steps, batch, some size]."""


class PlainStepper:
    """For parsers that do not compose: words and buffers stay as they were before the first transition."""

    def __init__(
        self, network: StackParser, inventory: Inventory, table: Tensor, tokens: Tokens, fronts: Tensor
    ):
        """table: [W + 2, token], the words' vectors; fronts: [batch], see `Positions`."""
        self._network, self._inventory = network, inventory
        self._words = stack_lstm.project(network.stack, table)  # [W + 2, 4 * hidden]
        self._transition_inputs = stack_lstm.project(network.history, network.transition_embeddings.weight)
        shown = [
            frames_by_front(network.project_buffer(own, [rows]), lengths)
            for own, rows, lengths in sentence_groups(table, tokens)
        ]
        self._buffer = torch.cat(shown)  # [W + sentences, hidden]
        self._tops = self._belows = None
        if network.from_words:
            # [W + 2, hidden] each
            self._tops, self._belows, of_fronts = network.linear_with_dropout(network.from_words, table).chunk(FEATURE_WORDS, dim=1)
            rows = to_device(front_rows(tokens), table.device)
            self._buffer = self._buffer + of_fronts.index_select(0, rows)
        root_row = stack_lstm.first_state(network.stack, network.tokens.root)  # [1, state]
        self._memory = Memory(network, inventory, len(fronts), root_row)

    def reserve(self, depth: int) -> None:
        self._memory.stack.reserve(depth)

    def inputs_at(self, positions: Positions) -> Inputs:
        shown = gather_rows(self._buffer, positions.front)
        if self._tops is not None and self._belows is not None:
            shown = shown + gather_rows(self._tops, positions.top) + gather_rows(self._belows, positions.below)
        return shown, gather_rows(self._words, positions.top)

    def transition_inputs(self, transitions: Tensor) -> Tensor:
        return gather_rows(self._transition_inputs, transitions)

    def restart(self, which: Tensor, inputs: Inputs) -> None:
        self._memory.restart(which)

    def scores(self, inputs: Inputs) -> Tensor:
        shown, _ = inputs
        return self._network.score_states(self._memory.stack.top(), shown, self._memory.history)

    def advance(self, transitions: Tensor, transition_inputs: Tensor, inputs: Inputs) -> None:
        _, words = inputs
        stack, kind = self._memory.stack, self._inventory.kind[transitions]
        read, move = self._inventory.stack_read[kind], self._inventory.stack_move[kind]
        row = stack_lstm.advance(self._network.stack, words, stack.previous(read))
        stack.write(read, move, row)
        self._memory.add_to_history(transition_inputs)
