"""The interface of a batch of parsers that take one transition at a time, without gradients."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from parser.networks.stack_parser import StackParser
from parser.stepping.inference.composing import ComposingInference
from parser.stepping.inference.plain import PlainInference
from parser.stepping.inference.words import WordVectors
from parser.stepping.positions import Positions
from parser.transitions.inventory import Inventory
from parser.treebank.tokens import Tokens


class InferenceStepper(Protocol):
    """Parsers compute the scores of `StackParser.replay`. `restart` all of them first."""

    def reserve(self, depth: int) -> bool:
        """Ensure that stacks have room for `depth` vectors. Returns whether tensors have moved."""

    def restart(self, which: Tensor, positions: Positions) -> None:
        """Reset the parsers where `which` [batch] is True. positions: at which they begin."""

    def scores(self, positions: Positions) -> Tensor:
        """[batch, transitions] Scores in the present states. positions: the present ones."""

    def advance(self, transitions: Tensor, positions: Positions) -> None:
        """Take the transitions [batch]. positions: those afterwards."""


def inference_stepper(
    network: StackParser, inventory: Inventory, tokens: Tokens, words: WordVectors, batch: int
) -> InferenceStepper:
    """tokens: on the host; words: their vectors; batch: number of parsers."""
    kind = ComposingInference if inventory.system.composes else PlainInference
    return kind(network, inventory, tokens, words, batch)
