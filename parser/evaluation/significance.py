"""Whether one parser is better than another, or was lucky: the paired bootstrap (Koehn 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parser.evaluation.scores import Scores, score
from parser.parsing.parse import ParsedTree
from parser.treebank.sentence import Sentence

RESAMPLES = 10_000
RESAMPLES_PER_BATCH = 250


@dataclass(frozen=True)
class Comparison:
    """Two parsers on the same sentences. Differences are the second's less the first's."""

    first: Scores
    second: Scores
    interval: tuple[float, float]
    """Between which 95 % of the differences in LAS are when sentences are drawn anew, in points."""
    p_value: float
    """How often a difference as large, either way, would come about if the two were equally good."""

    @property
    def difference(self) -> float:
        """In LAS, in points."""
        return self.second.las - self.first.las


def compare(
    gold: Sequence[Sentence],
    first: Sequence[ParsedTree],
    second: Sequence[ParsedTree],
    punctuation: bool = True,
    seed: int = 1,
) -> Comparison:
    """The trees of two parsers for the same sentences, at least one. seed: of the draws."""
    by_sentence = [
        [score([one], [tree], punctuation) for one, tree in zip(gold, trees, strict=True)]
        for trees in (first, second)
    ]
    words = np.array([scores.words for scores in by_sentence[0]])
    before, after = (np.array([scores.correct_arcs for scores in own]) for own in by_sentence)
    gained = after - before
    observed = 100 * gained.sum() / max(words.sum(), 1)
    differences = resampled(gained, words, np.random.default_rng(seed))
    low, high = np.percentile(differences, [2.5, 97.5])
    # Drawn anew, differences scatter around the observed one as it does around the true one.
    as_large = (np.abs(differences - observed) >= abs(observed)).sum()
    return Comparison(
        sum(by_sentence[0], Scores()),
        sum(by_sentence[1], Scores()),
        (float(low), float(high)),
        (float(as_large) + 1) / (RESAMPLES + 1),
    )


def resampled(
    gained: NDArray[np.int64], words: NDArray[np.int64], draw: np.random.Generator
) -> NDArray[np.float64]:
    """[RESAMPLES] Differences in points if as many sentences are drawn, each as likely as any other.

    gained: [sentences] right arcs that the second has more; words: [sentences] that are scored.
    """
    count, found = len(words), []
    for _ in range(0, RESAMPLES, RESAMPLES_PER_BATCH):
        drawn = draw.integers(count, size=(RESAMPLES_PER_BATCH, count))
        found.append(100 * gained[drawn].sum(1) / np.maximum(words[drawn].sum(1), 1))
    return np.concatenate(found)
