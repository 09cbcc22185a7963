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
from parser.networks.walk import walk
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
    first_front = state.base + 1 + torch.arange(len(rows), device=device)
    parsers = walk(network, inventory, tokens, first_front)
    parsers.reserve(int(gold.lengths.max()) + 1)
    fronts, taken = first_front, None

    def choose(state: State, legal: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal fronts, taken
        if taken is not None:
            tops = torch.where(state.top() > 0, state.base + state.top(), tokens.words)
            fronts = first_front + state.front - 1
            parsers.advance(taken, tops, fronts)
        scores = parsers.scores(fronts)
        right = oracle.right(state, legal)
        taken = _chosen(scores, inventory.with_labels(legal), inventory.with_right_labels(right), settings)
        taken = taken.masked_fill(inventory.system.finished(state), inventory.wait)
        return taken, right

    trajectory = record(inventory, state, choose)
    on_host = trajectory.to(torch.device("cpu"))
    return Examples.of_trajectory(examples.inventory, examples.tokens.select(rows), gold, on_host)


def _chosen(scores: Tensor, legal: Tensor, right: Tensor, settings: ExplorationSettings) -> Tensor:
    """[batch] Drawn from the sharpened distribution, or else the best of the right ones.

    scores, legal, right: [batch, transitions].
    """
    best = scores.masked_fill(~(right & legal), ILLEGAL_SCORE).argmax(1)
    sharpened = (scores * settings.sharpness).masked_fill(~legal, ILLEGAL_SCORE)
    # The greatest of scores with Gumbel noise is a draw from their softmax.
    noise = -torch.empty_like(scores).exponential_().log()
    explores = torch.rand(len(scores), device=scores.device) < settings.probability
    return torch.where(explores, (sharpened + noise).argmax(1), best)
