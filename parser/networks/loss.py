"""The loss of a batch of known trajectories."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from parser.replay.batch import Batch
from parser.transitions.inventory import NOT_OPTIMAL, Inventory

ILLEGAL_SCORE = float("-inf")


class BatchLoss(NamedTuple):
    """Sums over a batch, scalars on the device."""

    transitions: Tensor
    """Negative log-likelihood of the optimal transitions."""
    tags: Tensor
    """Cross entropy of the predicted columns, with their weight; 0 if there are none."""

    @property
    def total(self) -> Tensor:
        return self.transitions + self.tags


def transition_loss(scores: Tensor, batch: Batch, inventory: Inventory) -> Tensor:
    """Sum over all steps of -log p(optimal transitions), normalised over the legal transitions.

    With one optimal transition for each step this is the cross entropy. If the optimal label is unknown, or
    the head is not the gold one, any label is optimal. scores: [S, transitions].
    """
    legal = inventory.with_labels(batch.legal)  # [S, transitions]
    normaliser = scores.masked_fill(~legal, ILLEGAL_SCORE).logsumexp(1)
    # Finding the steps of which only few scores are needed would make a GPU wait for the host.
    optimal = _optimal_scores if scores.is_cuda else _few_optimal_scores
    return (normaliser - optimal(scores, batch.optimal_labels, inventory)).sum()


def _optimal_scores(scores: Tensor, labels: Tensor, inventory: Inventory) -> Tensor:
    """[S] The log-sum-exp of the optimal transitions' scores. labels: see `Batch.optimal_labels`."""
    return scores.masked_fill(~inventory.with_optimal_labels(labels), ILLEGAL_SCORE).logsumexp(1)


def _few_optimal_scores(scores: Tensor, labels: Tensor, inventory: Inventory) -> Tensor:
    """As `_optimal_scores`, reading one score for each kind where the optimal labels are known."""
    is_optimal = labels != NOT_OPTIMAL  # [S, kinds]
    transitions = inventory.with_label(labels.clamp(min=0))  # [S, kinds]
    own = scores.gather(1, transitions).masked_fill(~is_optimal, ILLEGAL_SCORE).logsumexp(1)
    any_label = (is_optimal & ~inventory.known[transitions]).any(1)
    if not len(steps := any_label.nonzero().squeeze(1)):
        return own
    return own.index_put((steps,), _optimal_scores(scores[steps], labels[steps], inventory))
