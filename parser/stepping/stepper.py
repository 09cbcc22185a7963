"""A batch of parsers that take one transition at a time: parsing, exploring, along known trajectories."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from parser.networks.stack_parser import StackParser
from parser.replay.batch import Batch
from parser.stepping.composing import ComposingStepper
from parser.stepping.plain import Inputs, PlainStepper
from parser.stepping.positions import Positions
from parser.transitions.inventory import Inventory
from parser.treebank.tokens import Tokens


class Stepper(Protocol):
    """All its parsers begin with ROOT on their stacks."""

    def reserve(self, depth: int) -> None:
        """Make room for stacks of `depth` vectors."""

    def inputs_at(self, positions: Positions) -> Inputs:
        """What parsers read there of all that was computed before the first transition."""

    def transition_inputs(self, transitions: Tensor) -> Tensor:
        """[..., 4 * hidden] The embeddings of transitions [...], projected; see `stack_lstm.project`."""

    def restart(self, which: Tensor, inputs: Inputs) -> None:
        """Let the parsers where `which` [batch] is True begin anew."""

    def scores(self, inputs: Inputs) -> Tensor:
        """[batch, transitions]"""

    def advance(self, transitions: Tensor, transition_inputs: Tensor, inputs: Inputs) -> None:
        """Take the transitions [batch]; inputs: at the positions afterwards."""


def stepper(network: StackParser, inventory: Inventory, tokens: Tokens, fronts: Tensor) -> Stepper:
    """Parsers at the first words of some of the sentences; fronts: [batch], see `Positions`."""
    table = network.tokens(tokens)  # [W + 2, token]
    kind = ComposingStepper if inventory.system.composes else PlainStepper
    return kind(network, inventory, table, tokens, fronts)


def score_by_stepping(network: StackParser, inventory: Inventory, batch: Batch) -> Tensor:
    """[S, transitions] The scores that `StackParser.replay` gives, computed step by step as in parsing.

    With dropout, a step draws masks of its own, where replay has one for each word, node and step.
    """
    lengths = batch.tokens.lengths.to(batch.transitions.device)
    sentence = torch.arange(len(lengths), device=lengths.device)
    first = lengths.cumsum(0) - lengths + sentence  # each sentence's first front
    root = batch.tokens.words
    top, below = (batch.by_step(rows, root) for rows in batch.word_features[:, :2].unbind(1))
    positions = Positions(top, below, first + batch.by_step(batch.front, 1) - 1)  # [steps, sentences] each
    transitions = batch.by_step(batch.transitions, inventory.no_op)
    own = stepper(network, inventory, batch.tokens, positions.front[0])
    own.reserve(len(batch.forest.levels))
    # Looked up before the steps: a look-up's backward pass fills a tensor as large as what it looks into.
    transition_inputs = own.transition_inputs(transitions[:-1]).unbind()
    first_inputs, *inputs_after = zip(*(part.unbind() for part in own.inputs_at(positions)), strict=True)
    scores = [own.scores(first_inputs)]
    for taken, action, inputs in zip(transitions[:-1], transition_inputs, inputs_after, strict=True):
        own.advance(taken, action, inputs)
        scores.append(own.scores(inputs))
    return torch.cat(scores)[batch.step]
