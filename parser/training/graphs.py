"""The CUDA graphs of a training run."""

from __future__ import annotations

from typing import NamedTuple

import torch

from parser.config import Config
from parser.console import warn
from parser.optimization.graphed_gradients import GraphedGradients, has_no_common_shapes
from parser.optimization.training_step import TrainingStep
from parser.replay.shape import Shape, common_shapes, shapes_of
from parser.training.data import TrainingData
from parser.training.gold_batches import epoch_batches

EPOCHS = 4
"""The first ones, whose batches tell the shapes. A later batch may fit none of them; it has no graph."""


class Graphs(NamedTuple):
    shapes: list[Shape]
    gradients: GraphedGradients


def graphs_of(
    config: Config, device: torch.device, loaded: TrainingData, step: TrainingStep
) -> Graphs | None:
    """None if the config wants none, or if there can be none; then it says why."""
    settings = config.training
    if not settings.cuda_graphs:
        return None
    on_gpu = device.type == "cuda"
    reason = has_no_common_shapes(config.parser.network) if on_gpu else "only a GPU has them"
    if reason:
        warn(f"training.cuda_graphs: {reason}; going on without")
        return None
    batches = [
        rows for epoch in range(1, EPOCHS + 1) for rows in epoch_batches(loaded.train, settings, epoch)
    ]
    shapes = common_shapes(shapes_of(loaded.train, batches))
    return Graphs(shapes, GraphedGradients(step, loaded.word_dropout))
