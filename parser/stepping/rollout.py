"""Trajectories that the parser chooses itself, for training with exploration (Ballesteros et al. 2016).

Step without gradients, and at each state ask a dynamic oracle what would be right; then replay where the
parser went, with gradients. Exploring costs a forward pass more, and no slow backward pass.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parser.config import ExplorationSettings
from parser.networks.loss import ILLEGAL_SCORE
from parser.networks.stack_parser import StackParser
from parser.stepping.positions import Positions
from parser.stepping.stepper import stepper
from parser.transitions.inventory import Inventory
from parser.transitions.oracle import DynamicOracle
from parser.transitions.state import State
from parser.transitions.trajectory import Trajectory, record
from parser.treebank.ragged import Ragged
from parser.treebank.tokens import Tokens


@torch.no_grad()
def explore(
    network: StackParser, inventory: Inventory, tokens: Tokens, gold: Ragged, settings: ExplorationSettings
) -> Trajectory:
    """The trajectories that the network takes through sentences, and what was right at each step.

    inventory, tokens: on the network's device; gold: values [words, 2], heads and labels, on the host.
    """
    device = network.tokens.root.device
    heads, labels = (Ragged(column, gold.lengths) for column in gold.values.unbind(1))
    oracle = DynamicOracle(inventory, heads, labels, device)
    state = State.initial(gold.lengths, device=device)
    explorer = _Explorer(network, inventory, tokens, state, settings.sharpness)

    def choose(state: State, legal: Tensor) -> tuple[Tensor, Tensor]:
        return explorer.choose(legal), oracle.optimal_labels(state, legal)

    return record(inventory, state, choose)


class _Explorer:
    """The parsers of a batch, each on a way of its own."""

    def __init__(
        self, network: StackParser, inventory: Inventory, tokens: Tokens, state: State, sharpness: float
    ):
        """state: the parsers', which somebody else changes by what is chosen here."""
        self._inventory, self._state, self._sharpness = inventory, state, sharpness
        self._words = tokens.words
        self._sentence = torch.arange(len(state.length), device=state.length.device)
        self._parsers = stepper(network, inventory, tokens, self._positions().front)
        self._parsers.reserve(int(tokens.lengths.max()) + 1)
        self._taken: Tensor | None = None

    def choose(self, legal: Tensor) -> Tensor:
        """[batch] The next transitions; legal: [batch, kinds]."""
        inputs = self._parsers.inputs_at(self._positions())
        if self._taken is not None:
            self._parsers.advance(self._taken, self._parsers.transition_inputs(self._taken), inputs)
        allowed = self._inventory.with_labels(legal)
        scores = self._sharpness * self._parsers.scores(inputs)
        drawn = _drawn(scores.masked_fill(~allowed, ILLEGAL_SCORE).softmax(1), allowed)
        finished = self._inventory.system.finished(self._state)
        self._taken = drawn.masked_fill(finished, self._inventory.wait)
        return self._taken

    def _positions(self) -> Positions:
        return Positions.of(self._state, self._sentence, self._words)


def _drawn(probabilities: Tensor, legal: Tensor) -> Tensor:
    """[batch] A draw for each row; probabilities, legal: [batch, transitions].

    One random number for each row: torch's own draw takes one for each element, and seven times as long.
    """
    below = probabilities.cumsum(1)
    place = torch.rand(len(below), 1, device=below.device) * below[:, -1:]
    drawn = (below <= place).sum(1, keepdim=True).clamp(max=below.shape[1] - 1)
    # Rounding, or scores that are no numbers, may lead to what is not legal.
    return torch.where(legal.gather(1, drawn), drawn, legal.int().argmax(1, keepdim=True)).squeeze(1)
