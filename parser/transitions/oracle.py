"""The static oracle: from gold trees to trajectories."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.transitions.inventory import Inventory
from parser.transitions.state import State
from parser.transitions.system import Gold
from parser.transitions.trajectory import Trajectory, record
from parser.treebank.ragged import Ragged
from parser.treebank.sentence import NO_HEAD


def gold_trees(heads: Ragged) -> Gold:
    """The oracle's view of the trees. heads: values [words], 0 for ROOT."""
    dependents = heads.place_in_row() + 1
    first = heads.offsets.repeat_interleave(heads.lengths)
    has_word_head = heads.values > 0
    last_dependent = torch.zeros(len(heads.values) + 1, dtype=torch.long)
    head_place = (first + heads.values - 1)[has_word_head]
    last_dependent.scatter_reduce_(0, head_place, dependents[has_word_head], "amax")
    return Gold(torch.cat([heads.values, torch.tensor([NO_HEAD])]), last_dependent)


def oracle_trajectory(inventory: Inventory, heads: Ragged, labels: Ragged) -> Trajectory:
    """The transitions that build a batch of projective trees.

    heads, labels: values [words]. Raises ValueError if a tree can not be built, as non-projective ones.
    """
    gold = gold_trees(heads)
    gold_labels = torch.cat([labels.values, labels.values.new_zeros(1)])
    state = State.initial(heads.lengths)

    def choose(state: State, legal: Tensor) -> Tensor:
        wanted = inventory.system.oracle(state, gold) & legal
        # The first that is wanted; for a tree that can not be built, at least one that is legal.
        kind = (2 * wanted.int() + legal.int()).argmax(1)  # [batch]
        dependent = state.words().gather(0, inventory.dependent[kind][None]).squeeze(0)
        return inventory.number[kind, gold_labels[state.place(dependent)]]

    trajectory = record(inventory, state, choose)
    if not torch.equal(state.heads, gold.heads):
        wrong = (state.heads != gold.heads)[:-1].nonzero()[0]
        raise ValueError(
            f"tree {int(heads.row_of_element()[wrong])} of the batch can not be built: not projective?"
        )
    return trajectory
