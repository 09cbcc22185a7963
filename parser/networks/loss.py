"""How wrong the scores of known trajectories are."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from parser.networks.examples import Batch
from parser.transitions.inventory import Inventory

ILLEGAL_SCORE = float("-inf")
NOT_SCORED = -100


def transition_loss(scores: Tensor, batch: Batch, inventory: Inventory) -> tuple[Tensor, Tensor]:
    """Sum of the cross entropies of the steps, over legal transitions, and the number of steps.

    scores: [S, transitions]. Steps whose label training never saw do not count.
    """
    legal = inventory.with_labels(batch.legal)  # [S, transitions]
    scored = inventory.known[batch.transitions]
    target = torch.where(scored, batch.transitions, NOT_SCORED)
    loss = F.cross_entropy(
        scores.masked_fill(~legal, ILLEGAL_SCORE), target, ignore_index=NOT_SCORED, reduction="sum"
    )
    return loss, scored.sum()
