"""Trajectories that the parser chooses itself, for training with exploration (Ballesteros et al. 2016).

Step without gradients, and at each state ask a dynamic oracle what would be right; then replay where the
parser went, with gradients. Exploring costs a forward pass more, and no slow backward pass.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parser.config import ExplorationSettings
from parser.networks.examples import Examples
from parser.networks.loss import ILLEGAL_SCORE
from parser.networks.stack_parser import StackParser
from parser.networks.walk import Standing, walk
from parser.transitions.inventory import Inventory
from parser.transitions.oracle import DynamicOracle
from parser.transitions.state import State
from parser.transitions.trajectory import record
from parser.treebank.ragged import Ragged
from parser.treebank.tokens import Tokens


@torch.no_grad()
def explored(
    network: StackParser,
    inventory: Inventory,
    examples: Examples,
    rows: Tensor,
    tokens: Tokens,
    settings: ExplorationSettings,
) -> Examples:
    """The sentences `rows` [batch] with the trajectories that the network takes through them.

    inventory: on the network's device; tokens: of these sentences, there, as the network is to see them.
    """
    gold, device = examples.gold.select(rows), network.tokens.root.device
    heads, labels = (Ragged(column, gold.lengths) for column in gold.values.unbind(1))
    oracle = DynamicOracle(inventory, heads, labels, device)
    state = State.initial(gold.lengths.to(device))
    sentence = torch.arange(len(rows), device=device)

    def standing() -> Standing:
        words = state.words()[:2]
        top, below = torch.where(words > 0, state.base + words, tokens.words)
        return Standing(top, below, state.base + state.front + sentence)

    parsers = walk(network, inventory, tokens, standing())
    parsers.reserve(int(gold.lengths.max()) + 1)
    taken = None

    def choose(state: State, legal: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal taken
        here = standing()
        if taken is not None:
            parsers.advance(taken, here)
        right = oracle.right(state, legal)
        taken = _chosen(parsers.scores(here), inventory.with_labels(legal), right, inventory, settings)
        taken = taken.masked_fill(inventory.system.finished(state), inventory.wait)
        return taken, right

    trajectory = record(inventory, state, choose)
    on_host = trajectory.to(torch.device("cpu"))
    return Examples.of_trajectory(examples.inventory, examples.tokens.select(rows), gold, on_host)


def _chosen(
    scores: Tensor, legal: Tensor, right: Tensor, inventory: Inventory, settings: ExplorationSettings
) -> Tensor:
    """[batch] Drawn from the sharpened distribution, or else the best of the right ones.

    scores, legal: [batch, transitions]; right: [batch, kinds].
    """
    drawn = _drawn((settings.sharpness * scores).masked_fill(~legal, ILLEGAL_SCORE).softmax(1), legal)
    if settings.probability == 1:
        return drawn
    right_ones = inventory.with_right_labels(right) & legal
    best = scores.masked_fill(~right_ones, ILLEGAL_SCORE).argmax(1)
    explores = torch.rand(len(scores), device=scores.device) < settings.probability
    return torch.where(explores, drawn, best)


def _drawn(probabilities: Tensor, legal: Tensor) -> Tensor:
    """[batch] A draw for each row; probabilities, legal: [batch, transitions].

    One random number for each row: torch's own draw takes one for each element, and seven times as long.
    """
    below = probabilities.cumsum(1)
    place = torch.rand(len(below), 1, device=below.device) * below[:, -1:]
    drawn = (below <= place).sum(1, keepdim=True).clamp(max=below.shape[1] - 1)
    # Rounding, or scores that are no numbers, may lead to what is not legal.
    return torch.where(legal.gather(1, drawn), drawn, legal.int().argmax(1, keepdim=True)).squeeze(1)
