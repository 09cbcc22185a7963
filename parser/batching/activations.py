"""Fast activations.

On AMD processors torch's tanh is about ten times slower than its sigmoid, so it is computed there as
2 sigmoid(2x) - 1. On other processors both are equally fast (`scripts/measure_products.py` prints both).
"""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.processor import AMD, processor

MINUS_ONE = torch.tensor(-1.0)


def tanh_is_slow(tensor: Tensor) -> bool:
    return tensor.is_cpu and processor().vendor == AMD


def write_tanh(tensor: Tensor, out: Tensor) -> None:
    """out: may be `tensor`."""
    if tanh_is_slow(tensor):
        torch.add(tensor, tensor, out=out).sigmoid_()
        torch.add(MINUS_ONE, out, alpha=2, out=out)  # one pass instead of two
    else:
        torch.tanh(tensor, out=out)


def tanh(tensor: Tensor) -> Tensor:
    return (tensor * 2).sigmoid_().mul_(2).sub_(1) if tanh_is_slow(tensor) else tensor.tanh()
