"""The gradients of a batch, in as many pieces as the device's memory asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from parser.batching.padding import group_size
from parser.config import ExplorationSettings
from parser.networks.loss import transition_loss
from parser.parsing.model import Model
from parser.replay.batch import Batch
from parser.replay.examples import Examples
from parser.stepping.rollout import explored
from parser.training.data import TrainingData
from parser.training.pieces import in_pieces


def gradients(
    model: Model, loaded: TrainingData, rows: Tensor, exploration: ExplorationSettings | None = None
) -> tuple[Tensor, int]:
    """The loss of a batch and its steps; leaves the gradients of the loss over the steps with the weights.

    exploration: how to leave the gold trajectories, if at all. Where the device has too little memory, the
    batch is computed in pieces. Raises ValueError if even a sentence is too long.
    """
    if exploration and torch.rand(()) >= exploration.probability:
        exploration = None

    def summed(pieces: Sequence[Tensor]) -> tuple[Tensor, int]:
        model.network.zero_grad()
        found = [_piece_gradients(model, loaded, piece, exploration) for piece in pieces]
        losses, steps = zip(*found, strict=True)
        return torch.stack(losses).sum(), sum(steps)

    loss, steps = in_pieces(summed, rows, loaded.train.tokens.lengths)
    _divide_gradients(model.network, steps)
    return loss, steps


def _piece_gradients(
    model: Model, loaded: TrainingData, rows: Tensor, exploration: ExplorationSettings | None
) -> tuple[Tensor, int]:
    """The loss of some sentences, and their steps. A function, so that nothing of it is held afterwards."""
    batch = _batch(model, loaded, rows, exploration)
    network = model.network
    words = network.tokens(batch.tokens)
    loss = transition_loss(network.replay_words(words, batch), batch, model.inventory)
    (loss + network.tagging_loss(words, batch.tokens)).backward()
    return loss.detach(), len(batch.transitions)


def _divide_gradients(network: nn.Module, by: int) -> None:
    found = [weight.grad for weight in network.parameters() if weight.grad is not None]
    torch._foreach_div_(found, by)


def _batch(
    model: Model, loaded: TrainingData, rows: Tensor, exploration: ExplorationSettings | None
) -> Batch:
    """On the device, some words forgotten; along the gold trajectories or those of the parser's choice."""
    device, group = model.device, group_size(model.device)
    if not exploration:
        batch = loaded.train.batch(rows, group).to(device)
        return replace(batch, tokens=loaded.forgetting(batch.tokens))
    rows = rows[loaded.train.tokens.lengths[rows].argsort(descending=True, stable=True)]
    tokens, gold = loaded.train.tokens.select(rows), loaded.train.gold.select(rows)
    seen = loaded.forgetting(tokens.to(device))
    trajectory = explored(model.network, model.inventory, seen, gold, exploration).to(torch.device("cpu"))
    examples = Examples.of_trajectory(loaded.train.inventory, tokens, gold, trajectory)
    return replace(examples.batch(torch.arange(len(rows)), group).to(device), tokens=seen)
