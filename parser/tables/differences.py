"""By how much one row of a table differs from another, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, stdev

QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Of Student's t at 97.5 %, for 1, 2, ... degrees of freedom; the last serves for more, a little too wide."""


def difference(ours: Mapping[int, float], theirs: Mapping[int, float]) -> str:
    """Scores by seed, paired: a seed draws the same order of sentences for both.

    The mean of the differences and its 95 % interval, supposing that they are normally distributed.
    """
    found = [score - theirs[seed] for seed, score in ours.items() if seed in theirs]
    if not found:
        return "no common seed"
    if len(found) == 1:
        return f"{found[0]:+.2f}, one seed"
    half = QUANTILES[min(len(found) - 1, len(QUANTILES)) - 1] * stdev(found) / len(found) ** 0.5
    middle = mean(found)
    return f"{middle:+.2f} [{middle - half:+.2f}, {middle + half:+.2f}], {len(found)} seeds"
