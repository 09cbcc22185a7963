"""Stepping for parsers without composition (Ding & Koehn 2019, section 3)."""

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
"""Tensors [batch, size] or, for many steps, [steps, batch, size], gathered at `Positions`."""


class PlainStepper:
    """Stepper without composition. Word vectors and buffer states are computed before the first step."""

    def __init__(
        self, network: StackParser, inventory: Inventory, table: Tensor, tokens: Tokens, fronts: Tensor
    ):
        """table: [W + 2, token] word vectors. fronts: [batch] initial fronts, see `Positions.front`."""
        self._network, self._inventory = network, inventory
        self._words = stack_lstm.project(network.stack, table)  # [W + 2, 4 * hidden]
        self._transition_inputs = stack_lstm.project(network.history, network.transition_embeddings.weight)
        buffers = [
            frames_by_front(network.project_buffer(own, [rows]), lengths)
            for own, rows, lengths in sentence_groups(table, tokens)
        ]
        self._buffer = torch.cat(buffers)  # [W + sentences, hidden]
        self._tops = self._belows = None
        if network.from_words:
            # [W + 2, hidden] each
            self._tops, self._belows, of_fronts = network.linear_with_dropout(
                network.from_words, table
            ).chunk(FEATURE_WORDS, dim=1)
            rows = to_device(front_rows(tokens), table.device)
            self._buffer = self._buffer + of_fronts.index_select(0, rows)
        root_row = stack_lstm.first_state(network.stack, network.tokens.root)  # [1, state]
        self._memory = Memory(network, inventory, len(fronts), root_row)

    def reserve(self, depth: int) -> None:
        self._memory.stack.reserve(depth)

    def inputs_at(self, positions: Positions) -> Inputs:
        features = gather_rows(self._buffer, positions.front)
        if self._tops is not None and self._belows is not None:
            features = (
                features + gather_rows(self._tops, positions.top) + gather_rows(self._belows, positions.below)
            )
        return features, gather_rows(self._words, positions.top)

    def transition_inputs(self, transitions: Tensor) -> Tensor:
        return gather_rows(self._transition_inputs, transitions)

    def scores(self, inputs: Inputs) -> Tensor:
        features, _ = inputs
        return self._network.score_states(self._memory.stack.top(), features, self._memory.history)

    def advance(self, transitions: Tensor, transition_inputs: Tensor, inputs: Inputs) -> None:
        _, words = inputs
        stack, effects = self._memory.stack, self._inventory.effects(transitions)
        read, move = effects.stack_read, effects.stack_move
        row = stack_lstm.advance(self._network.stack, words, stack.previous(read))
        stack.write(read, move, row)
        self._memory.add_to_history(transition_inputs)
