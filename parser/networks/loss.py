"""The loss of known trajectories."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from parser.replay.batch import Batch
from parser.transitions.inventory import NOT_OPTIMAL, Inventory

ILLEGAL_SCORE = float("-inf")


class BatchLoss(NamedTuple):
    """Sums over a batch: scalars on the device."""

    transitions: Tensor
    """Negative log-likelihoods of the right transitions."""
    tags: Tensor
    """Cross entropies of the auxiliary tags; 0 if there are none."""

    @property
    def total(self) -> Tensor:
        return self.transitions + self.tags


def transition_loss(scores: Tensor, batch: Batch, inventory: Inventory) -> Tensor:
    """The sum over the steps of -log of the probability of all that is right, among what is legal.

    scores: [S, transitions]. For an oracle that knows one right transition it is the cross entropy. Where
    no arc of its kind has the label that would be right, or the head is wrong already, every label is.
    """
    legal = inventory.with_labels(batch.legal)  # [S, transitions]
    is_right = batch.optimal_labels != NOT_OPTIMAL  # [S, kinds]
    right = inventory.with_label(batch.optimal_labels.clamp(min=0))  # [S, kinds]
    wanted = scores.gather(1, right)
    any_label = is_right & ~inventory.known[right]
    if scores.is_cuda:  # to ask it for which steps takes longer than all
        wanted = torch.where(any_label, _of_any_label(scores, inventory), wanted)
    elif len(steps := any_label.any(1).nonzero().squeeze(1)):
        of_any = _of_any_label(scores[steps], inventory)
        wanted = wanted.index_put((steps,), torch.where(any_label[steps], of_any, wanted[steps]))
    possible = scores.masked_fill(~legal, ILLEGAL_SCORE).logsumexp(1)
    return (possible - wanted.masked_fill(~is_right, ILLEGAL_SCORE).logsumexp(1)).sum()


def _of_any_label(scores: Tensor, inventory: Inventory) -> Tensor:
    """[S, kinds] The score of a kind of transitions with any label that it can have."""
    kinds = torch.arange(len(inventory.number), device=scores.device)
    of_kind = (inventory.kind[:-1] == kinds[:, None]) & inventory.known  # [kinds, transitions]
    return torch.stack([scores.masked_fill(~own, ILLEGAL_SCORE).logsumexp(1) for own in of_kind], dim=1)
