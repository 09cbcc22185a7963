"""The loss of a batch of known trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from parser.networks.replay.batch import Batch
from parser.transitions.inventory import NOT_OPTIMAL, Inventory
from parser.treebank.vocabulary import UNKNOWN

ILLEGAL_SCORE = float("-inf")
MARGIN = 1.0
"""Required difference between the scores of right and wrong transitions, with the objective `margin`."""


Objective = Literal["likelihood", "best", "margin"]


class BatchLoss(NamedTuple):
    """Sums over a batch, scalars on the device."""

    transitions: Tensor
    """Negative log-likelihood of the optimal transitions; with a teacher, see `transition_loss`."""
    words: Tensor
    """Weighted losses of predictions from the word vectors alone: cross entropy of the predicted columns and,
    with a scorer of arcs, of heads and labels."""

    @property
    def total(self) -> Tensor:
        return self.transitions + self.words


def transition_loss(
    scores: Tensor, batch: Batch, inventory: Inventory, objective: Objective = "likelihood"
) -> Tensor:
    """Sum over all steps of -log p(optimal transitions), normalised over the legal transitions.

    With one optimal transition per step, this is the cross entropy. If the optimal label is unknown, or the
    head is not the gold one, any label is optimal. With a teacher, its cross entropy is mixed in. scores:
    [S, transitions]. objective: see `TrainingSettings`.
    """
    if objective != "likelihood":
        return _loss_of_best(scores, batch, inventory, objective)
    normaliser = legal_scores(scores, batch, inventory).logsumexp(1)
    # Finding the steps for which only few scores are needed would make a GPU wait for the host.
    optimal = _optimal_scores if scores.is_cuda else _few_optimal_scores
    losses = normaliser - optimal(scores, batch.optimal_labels, inventory)  # [S]
    if targets := batch.soft_targets:
        losses = targets.mixed(losses, scores, normaliser)
    return losses.sum()


def tag_loss(scores: Sequence[Tensor], values: Tensor) -> Tensor:
    """Summed cross entropy of known values. scores: see `EncodedWords`; values: [W, columns]."""
    loss = values.new_zeros((), dtype=torch.get_default_dtype())
    for of_column, wanted in zip(scores, values.unbind(1), strict=True):
        loss = loss + F.cross_entropy(of_column, wanted, ignore_index=UNKNOWN, reduction="sum")
    return loss


def _loss_of_best(scores: Tensor, batch: Batch, inventory: Inventory, objective: Objective) -> Tensor:
    """Like `transition_loss`, but only for the optimal transition with the best score. Steps at which all
    transitions are optimal, such as padding, have no loss.
    """
    legal = legal_scores(scores, batch, inventory)
    is_optimal = inventory.with_optimal_labels(batch.optimal_labels)  # [S, transitions]
    right, wrong = (best.values for best in best_right_and_wrong(legal, is_optimal))
    if objective == "margin":
        return (MARGIN - right + wrong).clamp(min=0).sum()
    return torch.where(wrong > ILLEGAL_SCORE, legal.logsumexp(1) - right, 0.0).sum()


def best_right_and_wrong(
    scores: Tensor, is_optimal: Tensor
) -> tuple[torch.return_types.max, torch.return_types.max]:
    """The best score and its transition, [S] each, among the optimal and among the other transitions.

    scores: [S, transitions], ILLEGAL_SCORE for illegal transitions. is_optimal: [S, transitions].
    """
    return (
        scores.masked_fill(~is_optimal, ILLEGAL_SCORE).max(1),
        scores.masked_fill(is_optimal, ILLEGAL_SCORE).max(1),
    )


def legal_scores(scores: Tensor, batch: Batch, inventory: Inventory) -> Tensor:
    """[S, transitions] The scores, with -inf for illegal transitions."""
    return scores.masked_fill(~inventory.with_labels(batch.legal), ILLEGAL_SCORE)


def _optimal_scores(scores: Tensor, labels: Tensor, inventory: Inventory) -> Tensor:
    """[S] The log-sum-exp of the optimal transitions' scores. labels: see `Batch.optimal_labels`."""
    return scores.masked_fill(~inventory.with_optimal_labels(labels), ILLEGAL_SCORE).logsumexp(1)


def _few_optimal_scores(scores: Tensor, labels: Tensor, inventory: Inventory) -> Tensor:
    """Like `_optimal_scores`, but reads only one score for each kind if the optimal labels are known."""
    is_optimal = labels != NOT_OPTIMAL  # [S, kinds]
    transitions = inventory.with_label(labels.clamp(min=0))  # [S, kinds]
    optimal = scores.gather(1, transitions).masked_fill(~is_optimal, ILLEGAL_SCORE).logsumexp(1)
    any_label = (is_optimal & ~inventory.known[transitions]).any(1)
    if not len(steps := any_label.nonzero().squeeze(1)):
        return optimal
    return optimal.index_put((steps,), _optimal_scores(scores[steps], labels[steps], inventory))
