"""Calibration of the probabilities of arcs: whether they equal the shares of correct arcs, whether they find
the errors, and the fit of `parser.parsing.probabilities` to a dev set.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parser.evaluation.scores import PUNCTUATION_TAGS, word_classes
from parser.models.model import Model
from parser.models.model_files import SCORES
from parser.models.settings import Calibrations, CalibrationSettings
from parser.parsing.engine import parse
from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.probabilities import Calibration, Floats, features, logistic, with_calibration
from parser.system.console import say
from parser.treebank.sentence import Sentence, without_subtype

if TYPE_CHECKING:
    from parser.models.network_model import NetworkModel

BINS = 15
UNCHANGED = np.array([1.0, 1.0, 0.0])
"""The weights that leave probabilities as they are."""
PRIOR = 1.0
"""How strongly the weights are held at `UNCHANGED`, so that few arcs change them little: the inverse variance
of a normal distribution around `UNCHANGED`."""
PRECISE = {"ftol": 1e-14, "gtol": 1e-8}
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
            has_it = self.labels == name
            yield name, Confidence(self.probabilities[has_it], self.is_right[has_it], self.labels[has_it])


def confidence_of(
    gold: Sequence[Sentence], trees: Sequence[ParsedTree], punctuation: bool = True
) -> Confidence:
    """The confidence of the arcs of trees with probabilities. punctuation: whether punctuation is counted."""
    probabilities, is_right, labels = [], [], []
    for sentence, tree in zip(gold, trees, strict=True):
        assert tree.probabilities is not None
        tags = word_classes(sentence)
        arcs = zip(tree.probabilities, tree.heads, tree.labels, strict=True)
        for word, (probability, head, full) in enumerate(arcs):
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
    return [Bin(len(arcs), float(arcs.mean()), float(right.mean())) for arcs, right in parts if len(arcs)]


def calibration_error(probabilities: Floats, is_right: Bools, count: int = BINS) -> float:
    """The expected calibration error (Naeini et al. 2015) over bins of equally many arcs: the mean distance
    between the probability and the share of correct arcs."""
    in_bins = bins(probabilities, is_right, count)
    distances = sum(each.arcs * abs(each.probability - each.right) for each in in_bins)
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


def confidence_in_column(gold: Sequence[Sentence], trees: Sequence[ParsedTree], column: str) -> Confidence:
    """The confidence of the values of a predicted column, which take the place of labels."""
    pairs = [(sentence.column(column), tree) for sentence, tree in zip(gold, trees, strict=True)]
    values = [value for _, tree in pairs for value in tree.tags[column]]
    probabilities = [each for _, tree in pairs for each in tree.tag_probabilities[column]]
    right = chain.from_iterable(own for own, _ in pairs)
    is_right = [value == own for value, own in zip(values, right, strict=True)]
    return Confidence(np.array(probabilities, float), np.array(is_right, bool), np.array(values, str))


def fit_calibration(
    model: NetworkModel, dev: Sequence[Sentence], folder: Path, arcs: CalibrationSettings | None
) -> None:
    """Set the calibrations of the model in a folder to the most likely ones on dev.

    arcs: that of arcs, if it is not to be fitted.
    """
    settings, calibrations = calibrations_on(model, dev)
    about = json.loads((folder / SCORES).read_text(encoding="utf-8"))
    replace(with_calibration(model, arcs or settings), calibrations=calibrations).save(folder, about)


def calibrations_on(model: Model, dev: Sequence[Sentence]) -> tuple[CalibrationSettings, Calibrations]:
    """The most likely calibrations of the probabilities of arcs and of predicted columns on dev."""
    uncalibrated = replace(with_calibration(model, None), calibrations={})
    trees = parse(uncalibrated, dev, options=ParseOptions(probabilities=True))
    of_arcs = confidence_of(dev, trees)
    before = {"arcs": of_arcs} | {
        column: confidence_in_column(dev, trees, column) for column in trees[0].tag_probabilities
    }
    settings = {name: fitted(confidence) for name, confidence in before.items()}
    for name, confidence in before.items():
        now = confidence.calibrated(Calibration(settings[name]))
        errors = [calibration_error(each.probabilities, each.is_right) for each in (confidence, now)]
        what = f"calibration error of the probabilities of {name} on dev"
        say(f"{what}: {errors[0]:.4f}, {errors[1]:.4f} calibrated")
    return settings.pop("arcs"), settings


def fitted(confidence: Confidence) -> CalibrationSettings:
    """The most likely calibration: a logistic regression.

    No weight of a probability is negative, or more probable arcs would become less probable (section 3.2 of
    the paper).
    """
    from scipy.optimize import minimize  # slow to import

    inputs = features(confidence.probabilities)  # [arcs, 3]

    def loss(weights: Floats) -> tuple[float, Floats]:
        """Minus the logarithm of how likely the weights [3] are, and its gradient [3]."""
        scores, change = inputs @ weights, weights - UNCHANGED
        of_arcs = np.logaddexp(0, np.where(confidence.is_right, -scores, scores)).sum()
        gradient = inputs.T @ (logistic(scores) - confidence.is_right) + PRIOR * change
        return float(of_arcs + PRIOR * (change**2).sum() / 2), gradient

    bounds = [(0, None), (0, None), (None, None)]
    most_likely = minimize(loss, UNCHANGED, jac=True, method="L-BFGS-B", bounds=bounds, options=PRECISE)
    right, wrong, offset = most_likely.x.tolist()
    return CalibrationSettings(right=right, wrong=wrong, offset=offset)
