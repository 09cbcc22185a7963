"""Greedy decoding: each parser takes its best legal transition."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.networks.loss import ILLEGAL_SCORE
from parser.transitions.inventory import Inventory
from parser.transitions.state import State


def legal_scores(inventory: Inventory, state: State, scores: Tensor) -> Tensor:
    """[batch, transitions] The scores, with -inf for transitions that are not legal."""
    legal = inventory.with_labels(inventory.system.legal(state))
    # However low a legal score is, it stays above -inf.
    return scores.clamp(min=torch.finfo(scores.dtype).min).masked_fill(~legal, ILLEGAL_SCORE)


def best_transitions(inventory: Inventory, state: State, scores: Tensor) -> Tensor:
    """[batch] The best by `legal_scores`; `wait` for a finished sentence."""
    return scores.argmax(1).masked_fill(inventory.system.finished(state), inventory.no_op)


def write_arc_probabilities(
    inventory: Inventory, state: State, scores: Tensor, taken: Tensor, probabilities: Tensor
) -> None:
    """Write the probabilities of the arcs that are about to be made to their dependents' places.

    scores: [batch, transitions], by `legal_scores`; taken: [batch]; probabilities: [words + 1].
    """
    waits = taken == inventory.no_op
    own = scores.softmax(1).gather(1, taken.masked_fill(waits, 0)[:, None]).squeeze(1)
    dependent = state.words().gather(0, inventory.dependent[inventory.kind[taken]][None]).squeeze(0)
    probabilities[state.flat_index(dependent)] = own.to(probabilities.dtype)
