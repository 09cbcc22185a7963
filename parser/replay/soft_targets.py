"""What another parser, the teacher, would do at each step of a known trajectory (Hinton et al. 2015)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SoftTargets:
    """The k transitions that the teacher finds most probable at each of S steps."""

    transitions: Tensor
    """[S, k]"""
    weights: Tensor
    """[S, k] Their parts in the loss of the step. What is missing to 1 is the part of the optimal ones."""

    @classmethod
    def of(cls, probabilities: Tensor, k: int, weight: float) -> SoftTargets:
        """probabilities: [S, transitions], those of the teacher. weight: their part in the loss."""
        found, transitions = probabilities.topk(min(k, probabilities.shape[1]), dim=1)  # [S, k]
        return cls(transitions, weight * found)

    @classmethod
    def unpack(cls, packed: Tensor) -> SoftTargets:
        """The inverse of `packed`."""
        transitions, weights = packed.unbind(1)
        return cls(transitions.long(), weights)

    def packed(self) -> Tensor:
        """[S, 2, k] In one tensor of floats."""
        return torch.stack([self.transitions.to(self.weights.dtype), self.weights], dim=1)

    def map(self, function: Callable[[Tensor], Tensor]) -> SoftTargets:
        """With a function applied to all tensors that a device needs."""
        return SoftTargets(function(self.transitions), function(self.weights))
