"""The probabilities of arcs, gathered while parsers make them.

The probability of an arc is that of the labelled transition that made it, among the legal ones. Of an arc
from ROOT this alone says little: most systems make it when nothing else is legal. What decided it are the
transitions before, after each of which ROOT could still become the head of the word. So the probabilities of
all transitions that would have kept ROOT possible are summed at each step, and the product of these sums is
multiplied with the probability of the last transition.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parser.transitions.inventory import Inventory
from parser.transitions.system import State


class ArcProbabilities:
    def __init__(self, inventory: Inventory, words: int):
        """words: number of words of all sentences."""
        self._inventory = inventory
        self.of_arcs = torch.ones(words + 1, device=inventory.kind.device)
        """[words + 1] Of the arc to each word, in the flat layout of `State`."""
        self._kept = torch.ones_like(self.of_arcs)
        """[words + 1] Of the transitions that kept ROOT possible as the head of each word, while that was at
        one of their places."""
        self._rootless = torch.ones_like(self.of_arcs)
        """[words + 1] Of those that made no word of the sentence the dependent of ROOT; at its first word."""

    def add(self, state: State, scores: Tensor, taken: Tensor) -> None:
        """Called before the transitions `taken` [batch] are applied. scores: [batch, transitions], see
        `mask_illegal`."""
        inventory = self._inventory
        is_no_op = taken == inventory.no_op
        probabilities = scores.softmax(1)  # [batch, transitions]
        own = probabilities.gather(1, taken.masked_fill(is_no_op, 0)[:, None]).squeeze(1)
        effects, words = inventory.effects(taken), state.words()
        index, sentence = state.flat_index(words), state.base + 1  # [places, batch], [batch]
        dependent = index.gather(0, effects.dependent[None]).squeeze(0)
        is_from_root = words.gather(0, effects.head[None]).squeeze(0) == 0
        from_root = own * self._kept[dependent] * self._rootless[sentence]
        self.of_arcs[dependent] = torch.where(is_from_root, from_root, own).to(self.of_arcs.dtype)
        # Finished sentences have no legal transitions, so no probabilities.
        kept = self._keeping(state, probabilities).masked_fill(is_no_op, 1.0)  # [places, batch]
        self._kept[index[:-1]] *= kept[:-1]
        self._rootless[sentence] *= kept[-1]

    def _keeping(self, state: State, probabilities: Tensor) -> Tensor:
        """[places, batch] The sum over the transitions after which ROOT is still possible as a head.

        probabilities: [batch, transitions]
        """
        keeps_root = self._inventory.keeps_root.index_select(0, (state.depth == 1).long())
        by_place = probabilities[:, None].where(keeps_root, 0.0)  # [batch, places, transitions]
        return by_place.sum(2, dtype=self.of_arcs.dtype).T
