"""The batch of a training step: sentences with word dropout, along gold or explored trajectories."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from parser.batching.padding import group_size
from parser.batching.transfer import Packed
from parser.config import ExplorationSettings
from parser.parsing.model import Model
from parser.replay.batch import Batch
from parser.replay.examples import Examples
from parser.stepping.rollout import explore
from parser.training.data import TrainingData


def training_batch(
    model: Model,
    loaded: TrainingData,
    rows: Tensor,
    exploration: ExplorationSettings | None = None,
    prepared: Packed[Batch] | None = None,
) -> Batch:
    """On the model's device.

    rows: [batch] numbers of training sentences; exploration: None for gold trajectories; prepared:
    these trajectories, if they were prepared ahead.
    """
    device, group = model.device, group_size(model.device)
    if not exploration:
        batch = (prepared or loaded.train.batch(rows, group)).to(device)
        return replace(batch, tokens=loaded.word_dropout(batch.tokens))
    rows = rows[loaded.train.tokens.lengths[rows].argsort(descending=True, stable=True)]
    tokens, gold = loaded.train.tokens.select(rows), loaded.train.gold.select(rows)
    on_device = tokens.to(device)
    trajectory = explore(model.network, model.inventory, on_device, gold, exploration)
    examples = Examples.of_trajectory(
        loaded.train.inventory, tokens, gold, trajectory.to(torch.device("cpu"))
    )
    batch = examples.batch(torch.arange(len(rows)), group).to(device)
    return replace(batch, tokens=loaded.word_dropout(on_device))
