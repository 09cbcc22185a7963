"""The optimizer of a config."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Optimizer

from parser.config.settings import OptimizerSettings
from parser.networks.stack_parser import StackParser

PEAK, WARMUP_EPOCHS = "peak", "warmup_epochs"
"""Keys of a group of weights that has its own learning rate."""


def make_optimizer(
    network: StackParser, settings: OptimizerSettings, learning_rate: float = 1e-3
) -> Optimizer:
    """Adam or AdamW for all weights that are trained; pretrained vectors have no weight decay.

    The groups of a pretrained transformer have learning rates of their own, which `Schedule` reads: `peak`,
    and `warmup_epochs`.

    The size of Adam's steps hardly depends on the size of the gradient. For a word that is not in the batch
    the L2 penalty is the whole gradient, and takes its vector to zero within some hundred steps. This
    regularizes words that are rare in training, but would delete the pretrained vectors of all others.
    """
    pretrained = set(network.tokens.pretrained_weights())
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    transformer = network.tokens.transformer
    rates = transformer.learning_rates() if transformer else {}
    groups: list[dict[str, Any]] = [
        {
            "params": [weight for weight in trained if weight not in pretrained and weight not in rates],
            "weight_decay": settings.weight_decay,
        },
        {"params": [weight for weight in trained if weight in pretrained], "weight_decay": 0.0},
    ]
    for rate in sorted(set(rates.values()), reverse=True):
        assert transformer
        groups.append(
            {
                "params": [weight for weight in trained if rates.get(weight) == rate],
                "weight_decay": settings.weight_decay,
                PEAK: rate,
                WARMUP_EPOCHS: transformer.settings.warmup_epochs,
            }
        )
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[settings.name]
    return kind(groups, lr=learning_rate, betas=settings.betas, eps=settings.eps, fused=True)
