"""The CUDA graphs of a training run."""

from __future__ import annotations

from typing import NamedTuple

import torch

from parser.config import Config
from parser.console import warn
from parser.optimization.graphed_gradients import GraphedGradients, why_no_common_shapes
from parser.optimization.training_step import TrainingStep
from parser.replay.shape import EPOCHS, Shape, shapes_of_epochs
from parser.training.data import TrainingData
from parser.training.gold_batches import epoch_batches


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
    reason = why_no_common_shapes(config.parser.network) if on_gpu else "only a GPU has them"
    if settings.exploration and settings.exploration.from_epoch == 1:
        reason = "epochs that explore have none"
    if reason:
        warn(f"training.cuda_graphs: {reason}; going on without")
        return None
    epochs = (epoch_batches(loaded, settings, epoch) for epoch in range(1, EPOCHS + 1))
    shapes = shapes_of_epochs(loaded.train, epochs, settings.max_batch_words)
    return Graphs(shapes, GraphedGradients(step, loaded.word_dropout))
