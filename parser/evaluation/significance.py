"""Whether the difference between two parsers could be due to chance.

The interval is that of the paired bootstrap (Efron 1979, Koehn 2004). The p-value is that of a randomization
test (Noreen 1989, Yeh 2000): if the parsers were equally good, the trees of any sentence could be exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parser.evaluation.measures import Measure
from parser.evaluation.scores import Scores, score
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.sentence import Sentence

Numbers = NDArray[np.float64]

RESAMPLES = 10_000
MOST_NUMBERS = 10_000_000
"""The maximum number of random numbers drawn at a time."""
ROUNDING = 1e-9
"""Tolerance for rounding errors of differences, in points."""
LEVEL = 0.95
DRAWN_AT_ONCE = 1 << 20
"""Maximum observations of a series that are drawn at a time, to bound memory."""


@dataclass(frozen=True)
class Comparison:
    """Two parsers on the same sentences. Differences are second minus first."""

    first: Scores
    second: Scores
    measure: Measure
    interval: tuple[float, float]
    """95 % confidence interval of the difference by the measure, in points."""
    p_value: float
    """Two-sided p-value of this difference."""

    @property
    def difference(self) -> float:
        """The difference by the measure, in points."""
        return self.second.percent(self.measure) - self.first.percent(self.measure)


def compare(
    gold: Sequence[Sentence],
    first: Sequence[ParsedTree],
    second: Sequence[ParsedTree],
    punctuation: bool = True,
    measure: Measure = "las",
    seed: int = 1,
) -> Comparison:
    """Compare the trees of two parsers for the same sentences, at least one. seed: of the resampling."""
    by_sentence = [
        [score([one], [tree], punctuation) for one, tree in zip(gold, trees, strict=True)]
        for trees in (first, second)
    ]
    pairs = zip(*by_sentence, strict=True)
    counts = np.array([[scores.counts(measure) for scores in pair] for pair in pairs], np.float64)
    before, after = (sum(scores, Scores()) for scores in by_sentence)
    differences = resampled([counts], _difference, RESAMPLES, seed)
    return Comparison(before, after, measure, interval(differences), _p_value(counts, seed))


def _p_value(counts: Numbers, seed: int) -> float:
    """How often the difference is as large when the parsers are exchanged at random in each sentence.

    counts: [sentences, parsers, 2] how many items are right, and out of how many.
    """
    first, gains = counts[:, 0].sum(0), counts[:, 1] - counts[:, 0]  # [2], [sentences, 2]
    generator = np.random.RandomState(seed)
    observed = abs(_difference(counts[None])) - ROUNDING
    as_large, left = 0, RESAMPLES
    while left:
        samples = min(left, max(1, MOST_NUMBERS // len(counts)))
        moved = _drawn(generator, 2, (samples, len(counts))).astype(np.float64) @ gains  # [samples, 2]
        exchanged = np.stack([first + moved, first + gains.sum(0) - moved], 1)  # [samples, parsers, 2]
        as_large += int((abs(_difference(exchanged[:, None])) >= observed).sum())
        left -= samples
    return (as_large + 1) / (RESAMPLES + 1)


def _difference(counts: Numbers) -> Numbers:
    """[samples] The differences in points. counts: [samples, sentences, parsers, 2], as in `_p_value`."""
    right, total = np.moveaxis(counts.sum(1), -1, 0)  # [samples, parsers] each
    percent = 100 * right / np.maximum(total, 1)
    return percent[:, 1] - percent[:, 0]


def _drawn(generator: np.random.RandomState, below: int, shape: tuple[int, int]) -> NDArray[np.uint32]:
    """Return random numbers from 0 to below - 1. Unlike NumPy's own, they are those that PyTorch draws with
    the same seed, so intervals of committed measurements stay as they were.
    """
    return generator.randint(0, 1 << 32, shape, np.uint32) % np.uint32(below)


def resampled(
    series: Sequence[Numbers], statistic: Callable[..., Numbers], resamples: int, seed: int
) -> Numbers:
    """Return the statistic [resamples] of bootstrap samples, drawn with replacement from the observations.

    series: [observations, ...] each; they are resampled independently. statistic: takes an array [samples,
    observations, ...] for each series and returns [samples].
    """
    generator = np.random.RandomState(seed)
    at_once = max(1, DRAWN_AT_ONCE // max(map(len, series)))
    statistics = []
    for first in range(0, resamples, at_once):
        samples = min(at_once, resamples - first)
        drawn = (_drawn(generator, len(each), (samples, len(each))) for each in series)
        statistics.append(statistic(*(each[rows] for each, rows in zip(series, drawn, strict=True))))
    return np.concatenate(statistics)


def interval(values: Numbers) -> tuple[float, float]:
    """Return the 95 % confidence interval. values: [resamples], see `resampled`."""
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return low, high
