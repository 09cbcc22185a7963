"""The moving average of a network's weights, which parses better than the weights of any one step."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

Weights = tuple[Tensor, ...] | list[Tensor]


def averaged(network: nn.Module, keep: float) -> AveragedModel:
    """A copy that follows the network: each update keeps so much of it.

    The first updates keep less, so that the weights that training began with are soon forgotten.
    """

    @torch.no_grad()
    def follow(average: Weights, current: Weights, updates: Tensor | int) -> None:
        kept = min(keep, (1 + int(updates)) / (10 + int(updates)))
        torch._foreach_lerp_(list(average), list(current), 1 - kept)

    return AveragedModel(network, multi_avg_fn=follow)
