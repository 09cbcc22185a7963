"""The bootstrap: samples drawn with replacement from measurements or scores, and intervals (Efron 1979)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

LEVEL = 0.95
DRAWN_AT_ONCE = 1 << 20
"""Maximum observations of a series that are drawn at a time, to bound memory."""


def resampled(
    series: Sequence[Tensor], statistic: Callable[..., Tensor], resamples: int, seed: int
) -> Tensor:
    """Return the statistic [resamples] of samples that are drawn with replacement from the observations.

    series: [observations, ...] each; they are resampled independently. statistic: takes a tensor [samples,
    observations, ...] for each series and returns [samples].
    """
    generator = torch.Generator().manual_seed(seed)
    at_once = max(1, DRAWN_AT_ONCE // max(map(len, series)))
    found = []
    for first in range(0, resamples, at_once):
        samples = min(at_once, resamples - first)
        drawn = (torch.randint(len(own), (samples, len(own)), generator=generator) for own in series)
        found.append(statistic(*(own[rows] for own, rows in zip(series, drawn, strict=True))))
    return torch.cat(found)


def interval(values: Tensor) -> tuple[float, float]:
    """Return the 95 % confidence interval. values: [resamples], see `resampled`."""
    bounds = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=values.dtype)
    low, high = values.quantile(bounds).tolist()
    return low, high
