"""Activations at the machine's speed.

On AMD's processors torch's tanh is about ten times slower than its sigmoid, on others as fast
(`scripts/measure_products.py` prints both); there it is computed as 2 sigmoid(2x) - 1.
"""

from __future__ import annotations

from torch import Tensor

from parser.batching.processor import AMD, processor


def tanh_is_slow(tensor: Tensor) -> bool:
    return tensor.is_cpu and processor().vendor == AMD


def tanh_(tensor: Tensor) -> Tensor:
    """In place."""
    return tensor.mul_(2).sigmoid_().mul_(2).sub_(1) if tanh_is_slow(tensor) else tensor.tanh_()


def tanh(tensor: Tensor) -> Tensor:
    return (tensor * 2).sigmoid_().mul_(2).sub_(1) if tanh_is_slow(tensor) else tensor.tanh()
