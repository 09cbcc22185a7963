"""Stepping with gradients (Ding & Koehn 2019, section 3): parsers that take one transition at a time."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from parser.baselines.composing import ComposingStepper
from parser.baselines.memory import (
    Inputs,
    Memory,
    Outputs,
    frames_by_front,
    sentence_groups,
)
from parser.batching.device import to_device
from parser.batching.ragged import gather_rows
from parser.batching.stepped_lstm import SteppedLSTM, join
from parser.networks.stack_parser import FEATURE_WORDS, StackParser
from parser.replay.batch import Batch, front_rows
from parser.transitions.inventory import Inventory
from parser.transitions.system import Positions
from parser.treebank.vocabulary import Tokens


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


class Stepper(Protocol):
    """A batch of parsers, initially with only ROOT on their stacks."""

    def reserve(self, depth: int) -> None:
        """Ensure that stacks have room for `depth` vectors."""

    def inputs_at(self, positions: Positions) -> Inputs:
        """Gather what was precomputed for the given positions."""

    def transition_inputs(self, transitions: Tensor) -> Tensor:
        """[..., 4 * hidden] Projected embeddings of transitions [...], see `SteppedLSTM.project`."""

    def outputs(self, inputs: Inputs) -> Outputs:
        """What is seen in the present states. inputs: at the present positions."""

    def advance(self, transitions: Tensor, transition_inputs: Tensor, inputs: Inputs) -> None:
        """Take the transitions [batch]. inputs: at the positions afterwards."""


def stepper(network: StackParser, inventory: Inventory, tokens: Tokens, fronts: Tensor) -> Stepper:
    """A stepper for sentences of a batch. fronts: [batch] initial fronts, see `Positions.front`."""
    return _kind(inventory)(network, inventory, network.word_table(tokens), tokens, fronts)


def _kind(inventory: Inventory) -> type[ComposingStepper | PlainStepper]:
    return ComposingStepper if inventory.system.composes else PlainStepper


def score_by_stepping(network: StackParser, inventory: Inventory, table: Tensor, batch: Batch) -> Tensor:
    """[S, transitions] The scores of `StackParser.replay_words`, computed step by step as in parsing.

    table: [W + 2, token], see `EncodedWords`.

    With dropout the masks differ: stepping samples new ones at each step, replay one for each word, node and
    step.
    """
    lengths = to_device(batch.tokens.lengths, batch.transitions.device)
    sentence = torch.arange(len(lengths), device=lengths.device)
    first = lengths.cumsum(0) - lengths + sentence  # the first front of each sentence
    root = batch.tokens.words
    top, below = (batch.by_step(rows, root) for rows in batch.word_features[:, :2].unbind(1))
    positions = Positions(top, below, first + batch.by_step(batch.front, 1) - 1)  # [steps, sentences] each
    transitions = batch.by_step(batch.transitions, inventory.no_op)
    own = _kind(inventory)(network, inventory, table, batch.tokens, positions.front[0])
    own.reserve(len(batch.forest.levels))
    # Gathered before the steps: the backward pass of each gather fills a tensor of the size of its source.
    transition_inputs = own.transition_inputs(transitions[:-1]).unbind()
    first_inputs, *inputs_after = zip(*(part.unbind() for part in own.inputs_at(positions)), strict=True)
    seen = [own.outputs(first_inputs)]
    for taken, action, inputs in zip(transitions[:-1], transition_inputs, inputs_after, strict=True):
        own.advance(taken, action, inputs)
        seen.append(own.outputs(inputs))
    # The next transition is known, so that scores are not needed before the end.
    scores = network.score_states(*map(torch.cat, zip(*seen, strict=True)))
    return scores.index_select(0, batch.step)
