"""The difference between two rows of a table, with its confidence interval."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, stdev

QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Quantiles of Student's t at 97.5 % for 1, 2, ... degrees of freedom. The last is used for more, which makes
intervals slightly too wide."""


def difference(ours: Mapping[int, float], theirs: Mapping[int, float]) -> str:
    """The mean difference of scores of equal seeds, with its 95 % interval, as text.

    The interval assumes normally distributed differences. ours, theirs: scores by seed.
    """
    found = [score - theirs[seed] for seed, score in ours.items() if seed in theirs]
    if not found:
        return "no common seed"
    if len(found) == 1:
        return f"{found[0]:+.2f}, one seed"
    half = QUANTILES[min(len(found) - 1, len(QUANTILES)) - 1] * stdev(found) / len(found) ** 0.5
    middle = mean(found)
    return f"{middle:+.2f} [{middle - half:+.2f}, {middle + half:+.2f}], {len(found)} seeds"
