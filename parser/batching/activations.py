"""Activations at the machine's speed: on a CPU torch's sigmoid is about ten times faster than its tanh."""

from __future__ import annotations

from torch import Tensor


def tanh_(tensor: Tensor) -> Tensor:
    """In place, as 2 sigmoid(2x) - 1."""
    return tensor.mul_(2).sigmoid_().mul_(2).sub_(1)


def tanh(tensor: Tensor) -> Tensor:
    return (tensor * 2).sigmoid_().mul_(2).sub_(1)
