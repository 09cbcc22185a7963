"""Fingerprints by which gradients are compared."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

WEIGHTS_SEED = 1


def fingerprints(parameters: Iterable[Tensor]) -> Tensor:
    """[2 * parameters] Norms of the positive and of the negative part of each weighted gradient.

    The parts reveal wrong signs. Fixed random weights reveal wrong positions, for example rows that are
    shifted by one. A missing gradient counts as zero.
    """
    found = [torch.zeros(0)]
    for parameter in parameters:
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        flat = (gradient.to_dense() if gradient.is_sparse else gradient).flatten()
        drawn = torch.rand(len(flat), generator=torch.Generator().manual_seed(WEIGHTS_SEED))
        flat = flat * (0.5 + drawn).to(flat)
        found.append(torch.stack([flat.clamp(min=0).norm(), flat.clamp(max=0).norm()]).cpu())
    return torch.cat(found)
