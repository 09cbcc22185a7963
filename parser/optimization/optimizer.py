"""The optimizer of a config."""

from __future__ import annotations

import torch
from torch.optim import Optimizer

from parser.config import OptimizerSettings
from parser.networks.stack_parser import StackParser


def make_optimizer(
    network: StackParser, settings: OptimizerSettings, learning_rate: float = 1e-3
) -> Optimizer:
    """Adam or AdamW for all weights that are trained; pretrained vectors have no weight decay.

    The size of Adam's steps hardly depends on the size of the gradient. For a word that is not in the batch
    the L2 penalty is the whole gradient, and takes its vector to zero within some hundred steps. This
    regularizes words that are rare in training, but would delete the pretrained vectors of all others.
    """
    pretrained = set(network.tokens.pretrained_weights())
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    groups = [
        {
            "params": [weight for weight in trained if weight not in pretrained],
            "weight_decay": settings.weight_decay,
        },
        {"params": [weight for weight in trained if weight in pretrained], "weight_decay": 0.0},
    ]
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[settings.name]
    return kind(groups, lr=learning_rate, betas=settings.betas, eps=settings.eps, fused=True)
