"""Significance of the difference between two parsers by the paired bootstrap (Efron 1979, Koehn 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from parser.config.measures import Measure
from parser.evaluation.scores import Scores, score
from parser.parsing.parsed_tree import ParsedTree
from parser.system.bootstrap import interval, resampled
from parser.treebank.sentence import Sentence

RESAMPLES = 10_000


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
    pairs = zip(*by_sentence, strict=True)
    counts = torch.tensor([[own.counts(measure) for own in pair] for pair in pairs], dtype=torch.double)
    before, after = (sum(own, Scores()) for own in by_sentence)
    observed = after.percent(measure) - before.percent(measure)
    differences = resampled([counts], _difference, RESAMPLES, seed)
    # Resampled differences scatter around the observed one as that does around the true one.
    as_large = int(((differences - observed).abs() >= abs(observed)).sum())
    p_value = (as_large + 1) / (RESAMPLES + 1)
    return Comparison(before, after, measure, interval(differences), p_value)


def _difference(counts: Tensor) -> Tensor:
    """[samples] In points. counts: [samples, sentences, parsers, 2] What is right, and of how many."""
    right, total = counts.sum(1).unbind(-1)
    before, after = (100 * right / total.clamp(min=1)).unbind(-1)
    return after - before
