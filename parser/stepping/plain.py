"""Stepping for parsers without composition (Ding & Koehn 2019, section 3)."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.rows import gather_rows
from parser.batching.transfer import to_device
from parser.networks.stack_parser import FEATURE_WORDS, StackParser
from parser.replay.vector_rows import front_rows
from parser.stepping.encoding import frames_by_front, sentence_groups
from parser.stepping.lstm import SteppedLSTM, join
from parser.stepping.memory import Memory
from parser.stepping.outputs import Outputs
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
        self._inventory = inventory
        self._lstm = SteppedLSTM(network.stack)
        self._words = self._lstm.project(table)  # [W + 2, 4 * hidden]
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
            self._buffer = self._buffer + gather_rows(of_fronts, rows)
        self._memory = Memory(network, inventory, len(fronts), join(self._lstm.first(network.tokens.root)))

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
        return self._memory.history.inputs(transitions)

    def outputs(self, inputs: Inputs) -> Outputs:
        features, _ = inputs
        memory = self._memory
        return Outputs(self._lstm.output(memory.stack.top()), features, memory.history.output)

    def advance(self, transitions: Tensor, transition_inputs: Tensor, inputs: Inputs) -> None:
        _, words = inputs
        stack, effects = self._memory.stack, self._inventory.effects(transitions)
        read, move = effects.stack_read, effects.stack_move
        states = self._lstm.advance(words, self._lstm.split(stack.previous(read)))
        stack.write(read, move, join(states))
        self._memory.history.advance(transition_inputs)
