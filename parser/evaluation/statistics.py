"""Medians, ratios and their bootstrap confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from parser.evaluation.significance import Numbers, interval, resampled

RESAMPLES = 2000


class Estimate(NamedTuple):
    """A value with the bounds of its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    @property
    def errors(self) -> tuple[float, float]:
        """The distances of the bounds from the value, for error bars."""
        return max(0.0, self.value - self.low), max(0.0, self.high - self.value)

    def __str__(self) -> str:
        return f"{self:.2f}"

    def __format__(self, form: str) -> str:
        """form: the format of each of the three numbers."""
        value, low, high = (format(number, form or ".2f") for number in self)
        return f"{value} [{low}, {high}]"


def exactly(value: float) -> Estimate:
    """Return an estimate without uncertainty."""
    return Estimate(value, value, value)


def mean_of(values: Sequence[float]) -> Estimate:
    """Return the mean, with the lowest and the highest value as bounds."""
    return Estimate(sum(values) / len(values), min(values), max(values))


def bootstrap(samples: Sequence[Sequence[float]], statistic: Callable[..., Numbers]) -> Estimate:
    """Estimate a statistic of several series of measurements, which are resampled independently.

    statistic: takes an array [resamples, measurements] for each series and returns [resamples].
    """
    series = [np.array(values, np.float64) for values in samples]
    value = statistic(*(values[None] for values in series)).item()
    return Estimate(value, *interval(resampled(series, statistic, RESAMPLES, seed=0)))


def median_of(values: Sequence[float]) -> Estimate:
    return bootstrap([values], _median)


def _median(values: Numbers) -> Numbers:
    """[resamples] Medians. values: [resamples, measurements]."""
    return np.asarray(np.median(values, axis=-1))


def ratio_of(first: Sequence[float], second: Sequence[float], interleaved: bool) -> Estimate:
    """Return the ratio of the first measurements to the second.

    interleaved: whether the n-th measurements of both were made one after the other, so that a slow machine
    slowed both. If so, the ratio is the median of their ratios, otherwise the ratio of their medians.
    """
    if interleaved:
        turns = min(len(first), len(second))
        ratios = [one / other for one, other in zip(first[:turns], second[:turns], strict=True)]
        return median_of(ratios)
    return bootstrap([first, second], lambda one, other: _median(one) / _median(other))


def parallel_share(sizes: Sequence[int], speeds: Sequence[Sequence[float]]) -> Estimate:
    """Estimate the parallel share p of Amdahl's law, fitted by least squares over all batch sizes.

    The time for each sentence in batches of B is modelled as time(B) / time(1) = (1 - p) + p / B.
    sizes: batch sizes, starting with 1. speeds: measurements of sentences per second at each size.
    """
    gain = 1 - 1 / np.array(sizes, np.float64)  # [sizes]

    def fit(*drawn: Numbers) -> Numbers:
        time = np.stack([1 / _median(values) for values in drawn], 1)  # [resamples, sizes]
        saved = 1 - time / time[:, :1]
        return saved @ gain / (gain @ gain)

    return bootstrap(speeds, fit)


def parallel_share_at(size: int, speed_up: float) -> float:
    """Return the parallel share from one speed-up over batches of 1 (Ding & Koehn 2019, section 5.2)."""
    return (1 - 1 / speed_up) / (1 - 1 / size)
