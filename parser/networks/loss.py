"""How wrong the scores of known trajectories are."""

from __future__ import annotations

from torch import Tensor

from parser.networks.batch import Batch
from parser.transitions.inventory import Inventory

ILLEGAL_SCORE = float("-inf")


def transition_loss(scores: Tensor, batch: Batch, inventory: Inventory) -> Tensor:
    """The sum over the steps of -log of the probability of all that is right, among what is legal.

    scores: [S, transitions]. For an oracle that knows one right transition it is the cross entropy. Where
    no arc of its kind has the label that would be right, every label is.
    """
    legal = inventory.with_labels(batch.legal)  # [S, transitions]
    right = inventory.with_right_labels(batch.right) & legal
    possible, wanted = (scores.masked_fill(~mask, ILLEGAL_SCORE) for mask in (legal, right))
    return (possible.logsumexp(1) - wanted.logsumexp(1)).sum()
