"""The probabilities of arcs in a running batch, see `parser.parsing.probabilities`."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from parser.networks.stepping.stepper import with_room
from parser.transitions.inventory import Inventory
from parser.transitions.state import State


class _Products(NamedTuple):
    """In the flat layout of `State`, [words + 1] each."""

    of_arcs: Tensor
    """The probability of the arc to each word."""
    kept: Tensor
    """The product for the transitions that kept ROOT possible as the head of each word, while the word was at
    one of their places."""
    rootless: Tensor
    """The product for those that made no word of the sentence a dependent of ROOT; at its first word."""


class ArcProbabilities:
    """Those of a batch."""

    def __init__(self, inventory: Inventory, size: int):
        """size: the length of flat tensors."""
        self._inventory = inventory
        ones = torch.ones(3, size, device=inventory.kind.device)
        self._products = _Products(*ones)

    @property
    def of_arcs(self) -> Tensor:
        """[words + 1] The probability of the arc to each word, in the flat layout of `State`."""
        return self._products.of_arcs

    def reserve(self, size: int) -> None:
        """Make flat tensors as long as those of the state."""
        self._products = with_room(self._products, size, room=1)

    def forget(self, start: int, stop: int) -> None:
        """Reset the positions from start to stop, for other sentences."""
        for product in self._products:
            product[start:stop] = 1

    def add(self, state: State, scores: Tensor, taken: Tensor) -> None:
        """Add the transitions `taken` [batch], before they are applied.

        scores: [batch, transitions], see `mask_illegal`.
        """
        inventory = self._inventory
        is_no_op = taken == inventory.no_op
        probabilities = scores.softmax(1)  # [batch, transitions]
        of_taken = probabilities.gather(1, taken.masked_fill(is_no_op, 0)[:, None]).squeeze(1)
        effects, words = inventory.effects(taken), state.words()
        index, sentence = state.flat_index(words), state.base + 1  # [places, batch], [batch]
        dependent = index.gather(0, effects.dependent[None]).squeeze(0)
        is_from_root = words.gather(0, effects.head[None]).squeeze(0) == 0
        of_arcs, all_kept, rootless = self._products
        from_root = of_taken * all_kept[dependent] * rootless[sentence]
        of_arcs[dependent] = torch.where(is_from_root, from_root, of_taken).to(of_arcs.dtype)
        # Finished sentences have no legal transitions, and so no probabilities.
        keeps_root = inventory.keeps_root.index_select(0, (state.depth == 1).long())
        by_place = probabilities[:, None].where(keeps_root, 0.0)  # [batch, places, transitions]
        kept = by_place.sum(2, dtype=of_arcs.dtype).T.masked_fill(is_no_op, 1.0)  # [places, batch]
        all_kept[index[:-1]] *= kept[:-1]
        rootless[sentence] *= kept[-1]
