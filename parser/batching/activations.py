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
        twice_less_one_(torch.add(tensor, tensor, out=out).sigmoid_())
    else:
        torch.tanh(tensor, out=out)


def tanh(tensor: Tensor) -> Tensor:
    return twice_less_one_((tensor * 2).sigmoid_()) if tanh_is_slow(tensor) else tensor.tanh()


def twice_less_one_(tensor: Tensor) -> Tensor:
    """2 * tensor - 1, in place and in one pass, of a tensor on the CPU."""
    return torch.add(MINUS_ONE, tensor, alpha=2, out=tensor)
