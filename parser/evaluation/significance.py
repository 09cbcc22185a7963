"""Significance of the difference between two parsers by the paired bootstrap (Koehn 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parser.evaluation.scores import Scores, score
from parser.measures import Measure
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.sentence import Sentence

RESAMPLES = 10_000
RESAMPLES_PER_BATCH = 250


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
        """By the measure, in points."""
        return self.second.percent(self.measure) - self.first.percent(self.measure)


def compare(
    gold: Sequence[Sentence],
    first: Sequence[ParsedTree],
    second: Sequence[ParsedTree],
    punctuation: bool = True,
    measure: Measure = "las",
    seed: int = 1,
) -> Comparison:
    """Compare the trees of two parsers for the same sentences, at least one. seed: for resampling."""
    by_sentence = [
        [score([one], [tree], punctuation) for one, tree in zip(gold, trees, strict=True)]
        for trees in (first, second)
    ]
    counts = np.array([[scores.counts(measure) for scores in own] for own in by_sentence])
    before, after = (sum(own, Scores()) for own in by_sentence)
    observed = after.percent(measure) - before.percent(measure)
    differences = resampled(counts, np.random.default_rng(seed))
    low, high = np.percentile(differences, [2.5, 97.5])
    # Resampled differences scatter around the observed one as that does around the true one.
    as_large = (np.abs(differences - observed) >= abs(observed)).sum()
    p_value = (float(as_large) + 1) / (RESAMPLES + 1)
    return Comparison(before, after, measure, (float(low), float(high)), p_value)


def resampled(counts: NDArray[np.float64], draw: np.random.Generator) -> NDArray[np.float64]:
    """[RESAMPLES] Differences in points over bootstrap samples of the sentences.

    counts: [2, sentences, 2] for both parsers, what is right in each sentence, and of how many.
    """
    count, found = counts.shape[1], []
    for _ in range(0, RESAMPLES, RESAMPLES_PER_BATCH):
        drawn = draw.integers(count, size=(RESAMPLES_PER_BATCH, count))
        right, total = np.moveaxis(counts[:, drawn].sum(2), 2, 0)  # [2, samples] each
        before, after = 100 * right / np.maximum(total, 1)
        found.append(after - before)
    return np.concatenate(found)
