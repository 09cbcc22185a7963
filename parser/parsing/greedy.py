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
    # Clamping keeps legal scores of -inf above those of illegal transitions.
    return scores.clamp(min=torch.finfo(scores.dtype).min).masked_fill(~legal, ILLEGAL_SCORE)


def best_transitions(inventory: Inventory, state: State, scores: Tensor) -> Tensor:
    """[batch] The legal transition of highest score; `no_op` when finished. scores: see `legal_scores`."""
    return scores.argmax(1).masked_fill(inventory.system.finished(state), inventory.no_op)


def write_arc_probabilities(
    inventory: Inventory, state: State, scores: Tensor, taken: Tensor, probabilities: Tensor
) -> None:
    """Store the probabilities of transitions that make arcs in the elements of the dependents.

    Called before the transitions [batch] are applied. scores: [batch, transitions], see `legal_scores`.
    probabilities: [words + 1], in the flat layout of `State`.
    """
    is_no_op = taken == inventory.no_op
    own = scores.softmax(1).gather(1, taken.masked_fill(is_no_op, 0)[:, None]).squeeze(1)
    dependent = state.words().gather(0, inventory.effects(taken).dependent[None]).squeeze(0)
    probabilities[state.flat_index(dependent)] = own.to(probabilities.dtype)
