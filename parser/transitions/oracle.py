"""Static and dynamic oracles."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.ragged import Ragged
from parser.transitions.inventory import NOT_OPTIMAL, UNKNOWN_LABEL, Inventory
from parser.transitions.system import Gold, State
from parser.transitions.trajectory import Trajectory, record
from parser.treebank.sentence import NO_HEAD

ILLEGAL_COST = 1 << 40
"""The cost of illegal transitions: more than any other cost."""


def gold_trees(heads: Ragged) -> Gold:
    """The gold trees for an oracle. heads: values [words], 0 for ROOT."""
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
    """The transitions of the static oracle for a batch of projective trees.

    heads, labels: values [words]. Raises ValueError for a tree that the system cannot build.
    """
    gold = gold_trees(heads)
    gold_labels = torch.cat([labels.values, labels.values.new_zeros(1)])
    state = State.initial(heads.lengths)

    def choose(state: State, legal: Tensor) -> tuple[Tensor, Tensor]:
        wanted = inventory.system.oracle(state, gold) & legal
        # The first transition of the oracle or, if there is none (non-projective trees), the first legal one.
        kind = (2 * wanted.int() + legal.int()).argmax(1)  # [batch]
        place = inventory.effects(inventory.number[kind, UNKNOWN_LABEL]).dependent
        dependent = state.words().gather(0, place[None]).squeeze(0)
        label = gold_labels[state.flat_index(dependent)]
        right = torch.full_like(legal, NOT_OPTIMAL, dtype=torch.long).scatter_(
            1, kind[:, None], label[:, None]
        )
        return inventory.number[kind, label], right

    trajectory = record(inventory, state, choose)
    if not torch.equal(state.heads, gold.heads):
        wrong = (state.heads != gold.heads)[:-1].nonzero()[0]
        raise ValueError(
            f"tree {int(heads.row_of_element()[wrong])} of the batch cannot be built: is it non-projective?"
        )
    return trajectory


class DynamicOracle:
    """Optimal transitions in any states of a batch (Goldberg & Nivre 2013)."""

    def __init__(self, inventory: Inventory, heads: Ragged, labels: Ragged, device: torch.device):
        """heads, labels: values [words], of projective trees. Raises ValueError without costs."""
        if not inventory.system.has_costs:
            raise ValueError(
                f"{inventory.system.name} has no dynamic oracle: use another system for exploration"
            )
        self._inventory = inventory
        gold = gold_trees(heads)
        parts = (gold.heads, gold.last_dependent, gold.by_sentence)
        self._gold = Gold(*(to_device(part, device) for part in parts))
        self._labels = to_device(torch.cat([labels.values, labels.values.new_zeros(1)]), device)

    def optimal_labels(self, state: State, legal: Tensor) -> Tensor:
        """[batch, kinds] The gold label of the dependent for transitions of least cost; else NOT_OPTIMAL.

        An arc whose head is not the gold one has no gold label; UNKNOWN_LABEL means that any label is
        optimal. legal: [batch, kinds] bool.
        """
        costs = self._inventory.system.costs(state, self._gold).masked_fill(~legal, ILLEGAL_COST)
        least = costs.min(1, keepdim=True).values
        words = state.words()  # [places, batch]
        of_kinds = self._inventory.effects(self._inventory.number[:, UNKNOWN_LABEL])  # [kinds] each
        dependents = state.flat_index(words[of_kinds.dependent])  # [kinds, batch]
        is_gold = self._gold.heads[dependents] == words[of_kinds.head]  # [kinds, batch]
        labels = torch.where(is_gold, self._labels[dependents], UNKNOWN_LABEL).T  # [batch, kinds]
        return torch.where((costs == least) & legal, labels, NOT_OPTIMAL)
