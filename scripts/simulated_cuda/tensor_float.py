"""Factors of products in TF32, as CUDA has them where that is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

DROPPED_BITS = 13
"""Of the 23 bits of a float32 number after the point."""


def rounded(tensor: Tensor) -> Tensor:
    """To TF32, with the gradients of the exact ones; tensors of other data types as they are."""
    if tensor.dtype != torch.float32:
        return tensor
    exact = tensor.detach().contiguous()
    bits = exact.view(torch.int32) + (1 << (DROPPED_BITS - 1))
    difference = (bits >> DROPPED_BITS << DROPPED_BITS).view(torch.float32) - exact
    return tensor + difference.where(exact.isfinite(), 0)


def rounded_factors(name: str, args: Sequence[Any]) -> list[Any]:
    """The arguments of an operator that multiplies, of which two are factors."""
    first = 1 if name.startswith(("addmm", "baddbmm")) else 0
    return [rounded(each) if first <= place < first + 2 else each for place, each in enumerate(args)]
