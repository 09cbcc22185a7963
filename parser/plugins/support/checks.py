"""Numbers by which gradients are compared."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def fingerprints(parameters: Iterable[Tensor]) -> Tensor:
    """[2 * parameters] Norms of the positive and of the negative part of each gradient, elements weighted.

    So that a wrong sign shows, or wrong places. No gradient counts as zero.
    """
    found = [torch.zeros(0)]
    for parameter in parameters:
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        flat = (gradient.to_dense() if gradient.is_sparse else gradient).flatten()
        flat = flat * torch.linspace(0.5, 1.5, len(flat), dtype=flat.dtype, device=flat.device)
        found.append(torch.stack([flat.clamp(min=0).norm(), flat.clamp(max=0).norm()]).cpu())
    return torch.cat(found)
