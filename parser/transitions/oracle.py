"""Oracles: from gold trees to trajectories, and to what is right in any state."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.transfer import to_device
from parser.transitions.gold import Gold
from parser.transitions.inventory import NOT_OPTIMAL, UNKNOWN_LABEL, Inventory
from parser.transitions.state import State
from parser.transitions.trajectory import Trajectory, record
from parser.treebank.ragged import Ragged
from parser.treebank.sentence import NO_HEAD

NEVER = 1 << 40
"""More than any cost."""


def gold_trees(heads: Ragged) -> Gold:
    """The oracle's view of the trees. heads: values [words], 0 for ROOT."""
    dependents = heads.position_in_row() + 1
    first = heads.offsets.repeat_interleave(heads.lengths)
    has_word_head = heads.values > 0
    last_dependent = torch.zeros(len(heads.values) + 1, dtype=torch.long)
    head_place = (first + heads.values - 1)[has_word_head]
    last_dependent.scatter_reduce_(0, head_place, dependents[has_word_head], "amax")
    by_sentence = torch.full((len(heads), int(heads.lengths.max()) + 1), NO_HEAD)
    by_sentence[heads.row_of_element(), dependents] = heads.values
    return Gold(torch.cat([heads.values, torch.tensor([NO_HEAD])]), last_dependent, by_sentence)


def oracle_trajectory(inventory: Inventory, heads: Ragged, labels: Ragged) -> Trajectory:
    """The transitions that build a batch of projective trees.

    heads, labels: values [words]. Raises ValueError if a tree can not be built, as non-projective ones.
    """
    gold = gold_trees(heads)
    gold_labels = torch.cat([labels.values, labels.values.new_zeros(1)])
    state = State.initial(heads.lengths)

    def choose(state: State, legal: Tensor) -> tuple[Tensor, Tensor]:
        wanted = inventory.system.oracle(state, gold) & legal
        # The first that is wanted; for a tree that can not be built, at least one that is legal.
        kind = (2 * wanted.int() + legal.int()).argmax(1)  # [batch]
        dependent = state.words().gather(0, inventory.dependent[kind][None]).squeeze(0)
        label = gold_labels[state.flat_index(dependent)]
        right = torch.full_like(legal, NOT_OPTIMAL, dtype=torch.long).scatter_(1, kind[:, None], label[:, None])
        return inventory.number[kind, label], right

    trajectory = record(inventory, state, choose)
    if not torch.equal(state.heads, gold.heads):
        wrong = (state.heads != gold.heads)[:-1].nonzero()[0]
        raise ValueError(
            f"tree {int(heads.row_of_element()[wrong])} of the batch can not be built: not projective?"
        )
    return trajectory


class DynamicOracle:
    """What is right in the states of a batch, however the parsers came there."""

    def __init__(self, inventory: Inventory, heads: Ragged, labels: Ragged, device: torch.device):
        """heads, labels: values [words], of projective trees. Raises ValueError where costs are not known."""
        if not inventory.system.has_costs:
            raise ValueError(f"{inventory.system.name} has no dynamic oracle: explore with another system")
        self._inventory = inventory
        gold = gold_trees(heads)
        parts = (gold.heads, gold.last_dependent, gold.by_sentence)
        self._gold = Gold(*(to_device(part, device) for part in parts))
        self._labels = to_device(torch.cat([labels.values, labels.values.new_zeros(1)]), device)

    def optimal_labels(self, state: State, legal: Tensor) -> Tensor:
        """[batch, kinds] Where a transition costs least its dependent's gold label; else NOT_OPTIMAL.

        An arc from a head that is not the gold one has no right label: UNKNOWN_LABEL stands for any.
        legal: [batch, kinds].
        """
        costs = self._inventory.system.costs(state, self._gold).masked_fill(~legal, NEVER)
        least = costs.min(1, keepdim=True).values
        words = state.words()  # [places, batch]
        dependents = state.flat_index(words[self._inventory.dependent[:-1]])  # [kinds, batch]
        is_gold = self._gold.heads[dependents] == words[self._inventory.head[:-1]]  # [kinds, batch]
        labels = torch.where(is_gold, self._labels[dependents], UNKNOWN_LABEL).T  # [batch, kinds]
        return torch.where((costs == least) & legal, labels, NOT_OPTIMAL)
