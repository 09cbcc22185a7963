"""The gradients of a batch, in as many pieces as the device's memory asks for."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from parser.batching.padding import group_size
from parser.console import say
from parser.networks.loss import transition_loss
from parser.parsing.model import Model
from parser.training.data import TrainingData


def gradients(model: Model, loaded: TrainingData, rows: Tensor) -> tuple[Tensor, int]:
    """The loss of a batch and its steps; leaves the gradients of the loss over the steps with the weights.

    Where the device has too little memory, the batch is computed in pieces. Raises ValueError if even a
    sentence is too long.
    """
    examples = loaded.train
    steps = int(examples.steps.lengths[rows].sum())
    pieces = 1
    while True:
        try:
            model.network.zero_grad()
            losses = [_piece_gradients(model, loaded, piece, steps) for piece in rows.tensor_split(pieces)]
            return torch.stack(losses).sum(), steps
        except torch.OutOfMemoryError:
            if pieces == len(rows):
                words = int(examples.tokens.lengths[rows].max())
                message = f"the device has too little memory for a sentence of {words:,} words"
                raise ValueError(message) from None
        pieces = min(2 * pieces, len(rows))
        say(f"out of memory: a batch of {len(rows)} sentences is computed in {pieces} pieces")


def _piece_gradients(model: Model, loaded: TrainingData, rows: Tensor, steps: int) -> Tensor:
    """The loss of some sentences. A function, so that nothing of it is held when memory runs out."""
    batch = loaded.train.batch(rows, group_size(model.device)).to(model.device)
    batch = replace(batch, tokens=loaded.forgetting(batch.tokens))
    loss = transition_loss(model.network.replay(batch), batch, model.inventory)
    (loss / steps).backward()
    return loss.detach()
