"""The gate of a mixture of experts: plain, or the noisy top-k gate of Shazeer et al. 2017, section 2.1.

The latter is also that of Suarez & Zhu 2017, section 3.2, whose code has biases as well.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.functional import linear


class Choice(NamedTuple):
    """The experts of each example, best first, and their shares."""

    expert: Tensor
    """[batch, chosen]"""
    share: Tensor | None
    """[batch, chosen]; None if one expert is chosen, whose share is 1."""


class Gate(nn.Module):
    def __init__(self, inputs: int, experts: int, chosen: int, noisy: bool):
        """chosen: the number of experts per example. noisy: whether scores have noise of learned scales."""
        super().__init__()
        self._chosen = chosen
        self.score = nn.Linear(inputs, experts)
        self.scale = nn.Linear(inputs, experts) if noisy else None

    def forward(self, inputs: Tensor, noise: Tensor | None = None) -> Choice:
        """The experts with the highest scores; their shares are the softmax of these scores.

        inputs: [batch, inputs]; noise: [batch, experts] of a noisy gate, drawn from a standard normal
        distribution if it is not given. If one expert is chosen, the gate learns nothing.
        """
        scores = linear(inputs, self.score.weight, self.score.bias)  # [batch, experts]
        if self.scale is not None:
            drawn = torch.randn_like(scores) if noise is None else noise
            scores = scores + drawn * F.softplus(linear(inputs, self.scale.weight, self.scale.bias))
        if self._chosen == 1:
            return Choice(scores.max(dim=1, keepdim=True).indices, None)
        best, expert = scores.topk(self._chosen, dim=1)  # both [batch, chosen]
        return Choice(expert, best.softmax(dim=1))
