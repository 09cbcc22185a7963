"""Whether the probabilities of arcs equal the shares of correct arcs, and whether they find the errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parser.evaluation.scores import PUNCTUATION_TAGS, word_classes
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.probabilities import Calibration
from parser.treebank.sentence import Sentence, without_subtype

BINS = 15
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Bin(NamedTuple):
    """Arcs of similar probability."""

    arcs: int
    probability: float
    """The mean probability of the arcs."""
    right: float
    """The share of correct arcs."""


class Confidence(NamedTuple):
    """How sure a parser is of arcs, and which of them have the correct head and label, without subtypes."""

    probabilities: Floats
    """[arcs]"""
    is_right: Bools
    """[arcs]"""
    labels: NDArray[np.str_]
    """[arcs] The labels of the parsed arcs, without subtypes."""

    def calibrated(self, calibration: Calibration) -> Confidence:
        """The same arcs with calibrated probabilities."""
        return self._replace(probabilities=np.array(calibration(self.probabilities.tolist())))

    def by_label(self) -> Iterator[tuple[str, Confidence]]:
        """Each label with its arcs, the most frequent label first."""
        names, counts = np.unique(self.labels, return_counts=True)
        for name in names[np.lexsort((names, -counts))].tolist():
            own = self.labels == name
            yield name, Confidence(self.probabilities[own], self.is_right[own], self.labels[own])


def confidence_of(
    gold: Sequence[Sentence], trees: Sequence[ParsedTree], punctuation: bool = True
) -> Confidence:
    """The confidence of the arcs of trees with probabilities. punctuation: whether punctuation is counted."""
    probabilities, is_right, labels = [], [], []
    for sentence, tree in zip(gold, trees, strict=True):
        assert tree.probabilities is not None
        tags = word_classes(sentence)
        for word, (probability, head, full) in enumerate(
            zip(tree.probabilities, tree.heads, tree.labels, strict=True)
        ):
            if not punctuation and tags[word] in PUNCTUATION_TAGS:
                continue
            label = without_subtype(full)
            probabilities.append(probability)
            is_right.append((head, label) == (sentence.heads[word], without_subtype(sentence.labels[word])))
            labels.append(label)
    return Confidence(np.array(probabilities, float), np.array(is_right, bool), np.array(labels, str))


def bins(probabilities: Floats, is_right: Bools, count: int = BINS) -> list[Bin]:
    """Bins of equally many arcs, from the least to the most probable; no bin is empty.

    probabilities, is_right: [arcs].
    """
    order = probabilities.argsort(kind="stable")
    parts = zip(*(np.array_split(each[order], count) for each in (probabilities, is_right)), strict=True)
    return [Bin(len(own), float(own.mean()), float(right.mean())) for own, right in parts if len(own)]


def calibration_error(probabilities: Floats, is_right: Bools, count: int = BINS) -> float:
    """The expected calibration error (Naeini et al. 2015) over bins of equally many arcs: the mean distance
    between the probability and the share of correct arcs."""
    found = bins(probabilities, is_right, count)
    distances = sum(one.arcs * abs(one.probability - one.right) for one in found)
    return distances / max(1, len(is_right))


def brier_score(probabilities: Floats, is_right: Bools) -> float:
    """The mean of (probability - 1)² for correct arcs and probability² for wrong ones (Brier 1950)."""
    return float(((probabilities - is_right) ** 2).mean())


def area_of_errors(probabilities: Floats, is_right: Bools) -> float | None:
    """The area under the curve for finding wrong arcs, the least probable first: the probability that a wrong
    arc is less probable than a correct one. 0.5 is chance; None without a wrong or a correct arc."""
    values, rank_of = np.unique(probabilities, return_inverse=True)
    counts = np.bincount(rank_of, minlength=len(values))
    ranks = (counts.cumsum() - (counts - 1) / 2)[rank_of]  # equal values share their mean rank
    right = int(is_right.sum())
    wrong = len(is_right) - right
    if not right or not wrong:
        return None
    return float((ranks[is_right].sum() - right * (right + 1) / 2) / (right * wrong))
