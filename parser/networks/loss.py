"""The loss of a batch of known trajectories."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from parser.replay.batch import Batch
from parser.transitions.inventory import NOT_OPTIMAL, Inventory

ILLEGAL_SCORE = float("-inf")


class BatchLoss(NamedTuple):
    """Sums over a batch, scalars on the device."""

    transitions: Tensor
    """Negative log-likelihood of the optimal transitions."""
    tags: Tensor
    """Cross entropy of the auxiliary tags; 0 if there are none."""

    @property
    def total(self) -> Tensor:
        return self.transitions + self.tags


def transition_loss(scores: Tensor, batch: Batch, inventory: Inventory) -> Tensor:
    """Sum over all steps of -log p(optimal transitions), normalised over the legal transitions.

    With one optimal transition for each step this is the cross entropy. If the optimal label is unknown, or
    the head is not the gold one, any label is optimal. scores: [S, transitions].
    """
    legal = inventory.with_labels(batch.legal)  # [S, transitions]
    is_optimal = batch.optimal_labels != NOT_OPTIMAL  # [S, kinds]
    optimal = inventory.with_label(batch.optimal_labels.clamp(min=0))  # [S, kinds]
    optimal_scores = scores.gather(1, optimal)
    any_label = is_optimal & ~inventory.known[optimal]
    if scores.is_cuda:
        # Selecting the steps would need a synchronisation, which takes longer than computing all.
        optimal_scores = torch.where(any_label, _any_label_scores(scores, inventory), optimal_scores)
    elif len(steps := any_label.any(1).nonzero().squeeze(1)):
        any_scores = _any_label_scores(scores[steps], inventory)
        chosen = torch.where(any_label[steps], any_scores, optimal_scores[steps])
        optimal_scores = optimal_scores.index_put((steps,), chosen)
    normaliser = scores.masked_fill(~legal, ILLEGAL_SCORE).logsumexp(1)
    return (normaliser - optimal_scores.masked_fill(~is_optimal, ILLEGAL_SCORE).logsumexp(1)).sum()


def _any_label_scores(scores: Tensor, inventory: Inventory) -> Tensor:
    """[S, kinds] The log-sum-exp of the scores of each kind over all labels."""
    kinds = torch.arange(len(inventory.number), device=scores.device)
    of_kind = (inventory.kind[:-1] == kinds[:, None]) & inventory.known  # [kinds, transitions]
    return torch.stack([scores.masked_fill(~own, ILLEGAL_SCORE).logsumexp(1) for own in of_kind], dim=1)
