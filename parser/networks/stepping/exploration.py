"""Trajectories that follow the parser's own predictions: for training with exploration (Ballesteros et al.
2016), and on trees that are known in part.

The parser steps through a batch without gradients, as in parsing, and a dynamic oracle is queried in each
state. The trajectory is then replayed with gradients, so exploration needs a forward pass by steps, but no
backward pass by steps.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from parser.batching.ragged import Ragged
from parser.networks.loss import ILLEGAL_SCORE, best_right_and_wrong
from parser.networks.stack_parser import EncodedSentences, StackParser
from parser.networks.stepping.stepper import Positions, inference_stepper
from parser.system.settings import Count, Settings
from parser.transitions.inventory import Inventory
from parser.transitions.oracle import DynamicOracle, Trajectory, record
from parser.transitions.state import State
from parser.treebank.tokens import Tokens

MARGIN = 1.0
"""The difference of scores up to which aggressive exploration follows wrong transitions."""
FIXED_POINT = 1 << 30
"""Probabilities are cut to multiples of 1 / FIXED_POINT; smaller ones are never sampled."""


class ExplorationSettings(Settings):
    """Training with exploration (Goldberg & Nivre 2012): the trajectory follows the parser's own predictions,
    and a dynamic oracle determines which transitions are correct there. While the trajectory is chosen, there
    is no dropout, and no word dropout either."""

    from_epoch: Count = 2
    """First epoch with exploration. Earlier epochs follow the gold trajectories."""
    probability: float = Field(0.5, gt=0, le=1)
    """Probability that a batch explores. The other batches follow the gold trajectories."""
    follow: Literal["samples", "errors"] = "samples"
    """Which transitions the trajectory follows. `samples`: transitions drawn from the parser's distribution
    (Ballesteros et al. 2016). `errors`: the transition with the best score, even if it is wrong, and
    sometimes a wrong transition with nearly the best score, see `aggressive_probability` (Kiperwasser &
    Goldberg 2016)."""
    sharpness: float = Field(0.75, gt=0)
    """With `samples`: factor by which the scores are multiplied before a transition is drawn from their
    softmax (an inverse temperature). Below 1, the distribution is flatter, and there are more mistakes to
    learn from."""
    aggressive_probability: float = Field(0.1, ge=0, le=1)
    """With `errors`: probability of following the best wrong transition even though a correct one has a
    higher score, by at most 1."""


@torch.no_grad()
def explore(
    network: StackParser,
    inventory: Inventory,
    tokens: Tokens,
    gold: Ragged,
    settings: ExplorationSettings | None,
    facts: Ragged | None = None,
) -> Trajectory:
    """Trajectories that follow the network without dropout, with the optimal labels at each step.

    inventory: on the device of the network. tokens, gold, facts: on the host; gold has values [words, 2],
    heads and labels; facts: see `Examples`. settings: None always takes the best of the right transitions.
    """
    trains = network.training
    network.eval()
    try:
        return _follow(network, inventory, tokens, gold, settings, facts)
    finally:
        network.train(trains)


def _follow(
    network: StackParser,
    inventory: Inventory,
    tokens: Tokens,
    gold: Ragged,
    settings: ExplorationSettings | None,
    facts: Ragged | None,
) -> Trajectory:
    device = network.tokens.root.device
    heads, labels = (Ragged(column, gold.lengths) for column in gold.values.unbind(1))
    oracle = DynamicOracle(inventory, heads, labels, device, facts)
    state = State.initial(gold.lengths, device=device)
    explorer = _Explorer(network, inventory, tokens, state, settings)

    def choose(state: State, legal: Tensor) -> tuple[Tensor, Tensor]:
        optimal_labels = oracle.optimal_labels(state, legal)
        return explorer.choose(legal, optimal_labels), optimal_labels

    return record(inventory, state, choose)


class _Explorer:
    """Chooses transitions for a batch of parsers."""

    def __init__(
        self,
        network: StackParser,
        inventory: Inventory,
        tokens: Tokens,
        state: State,
        settings: ExplorationSettings | None,
    ):
        """state: the state of the parsers. The caller applies the chosen transitions to it."""
        self._inventory, self._state, self._settings = inventory, state, settings
        sentence = torch.arange(len(state.length), device=state.length.device)
        self._before = state.base + 1 + sentence  # the fronts of each sentence are one more than its words
        words, _ = network.encode_distinct(tokens)
        self._parsers = inference_stepper(network, inventory, len(sentence))
        self._parsers.join(1, [EncodedSentences(tokens, words)])
        self._parsers.reserve(int(tokens.lengths.max()) + 1)
        self._parsers.restart(torch.ones_like(sentence, dtype=torch.bool), self._positions())
        self._taken: Tensor | None = None

    def choose(self, legal: Tensor, optimal_labels: Tensor) -> Tensor:
        """[batch] The next transitions.

        legal: [batch, kinds] bool. optimal_labels: [batch, kinds], see `DynamicOracle.optimal_labels`.
        """
        positions = self._positions()
        if self._taken is not None:
            self._parsers.advance(self._taken, positions)
        allowed = self._inventory.with_labels(legal)
        scores = self._parsers.scores(positions)  # [batch, transitions]
        scores = scores.masked_fill(~allowed, ILLEGAL_SCORE)
        if self._settings and self._settings.follow == "samples":
            chosen = _sample((self._settings.sharpness * scores).softmax(1), allowed)
        else:
            right, wrong = best_right_and_wrong(scores, self._inventory.with_optimal_labels(optimal_labels))
            chosen = right.indices
            if self._settings:
                errs = _errs(right.values, wrong.values, self._settings.aggressive_probability)
                chosen = torch.where(errs, wrong.indices, chosen)
        finished = self._inventory.system.finished(self._state)
        self._taken = chosen.masked_fill(finished, self._inventory.no_op)
        return self._taken

    def _positions(self) -> Positions:
        return Positions.of(self._state, self._before)


def _errs(right: Tensor, wrong: Tensor, probability: float) -> Tensor:
    """[batch] bool: whether the best wrong transition is taken instead of the best right one.

    right, wrong: [batch] their scores. probability: that of the wrong one if it is worse, by at most MARGIN.
    """
    is_near = right - wrong <= MARGIN
    errs = is_near & (torch.rand(is_near.shape, device=is_near.device) < probability)
    return errs | (wrong > right)


def _sample(probabilities: Tensor, legal: Tensor) -> Tensor:
    """[batch] A sample from each row. probabilities, legal: [batch, transitions].

    Inverse transform sampling, with a random number for each row. `torch.multinomial` draws one for each
    element and takes seven times as long.
    """
    # Sums of whole numbers are the same each time, on a GPU too.
    cumulative = (probabilities * FIXED_POINT).long().cumsum(1)
    random = torch.rand(len(cumulative), 1, device=cumulative.device, dtype=torch.double)
    threshold = (random * cumulative[:, -1:]).long()
    sampled = (cumulative <= threshold).sum(1, keepdim=True).clamp(max=cumulative.shape[1] - 1)
    # Rounding errors or NaN scores can select an illegal transition; then the first legal one is taken.
    return torch.where(legal.gather(1, sampled), sampled, legal.int().argmax(1, keepdim=True)).squeeze(1)
