"""The calibration of the probabilities of arcs, fitted on dev at the end of training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from parser.evaluation.calibration import Bools, Confidence, calibration_error, confidence_of
from parser.models.model import Model
from parser.models.model_format import SCORES
from parser.models.settings import CalibrationSettings
from parser.parsing.engine import parse
from parser.parsing.options import ParseOptions
from parser.parsing.probabilities import Calibration, Floats, features, logistic, with_calibration
from parser.system.console import say
from parser.treebank.sentence import Sentence

NONE = np.array([1.0, 1.0, 0.0])
"""The weights that leave probabilities as they are."""
PRIOR = 1.0
"""How strongly the weights are held at `NONE`, so that few arcs change them little: the inverse variance of a
normal distribution around `NONE`."""
STEPS, TOLERANCE = 50, 1e-6
"""Newton's method: the maximum number of steps, and the step size below which it stops."""


def fit_calibration(model: Model, dev: Sequence[Sentence], folder: Path) -> None:
    """Set `ParserSettings.calibration` of the model in a folder to the most likely calibration on dev."""
    own = with_calibration(model, None)
    found = confidence_of(dev, parse(own, dev, options=ParseOptions(probabilities=True)))
    settings = fitted(found)
    told = json.loads((folder / SCORES).read_text(encoding="utf-8"))
    with_calibration(model, settings).save(folder, told)
    both = found, found.calibrated(Calibration(settings))
    before, now = (calibration_error(own.probabilities, own.is_right) for own in both)
    say(f"calibration error of the probabilities of arcs on dev: {before:.4f}, {now:.4f} calibrated")


def fitted(confidence: Confidence) -> CalibrationSettings:
    """The most likely calibration: a logistic regression, by Newton's method.

    A negative weight could make more probable arcs less probable: it is set to 0, and the other weights are
    fitted again (section 3.2 of the paper).
    """
    inputs = features(confidence.probabilities)  # [arcs, 3]
    free = np.ones(3, bool)
    while True:
        weights = _most_likely(inputs, confidence.is_right, free)
        negative = free & (weights < 0) & [True, True, False]
        if not negative.any():
            right, wrong, offset = weights.tolist()
            return CalibrationSettings(right=right, wrong=wrong, offset=offset)
        free &= ~negative


def _most_likely(inputs: Floats, is_right: Bools, free: Bools) -> Floats:
    """[3] The weights; those that are not free are 0. inputs: [arcs, 3]; is_right: [arcs]; free: [3]."""
    weights = NONE * free
    own = inputs[:, free]
    for _ in range(STEPS):
        shares = logistic(inputs @ weights)
        gradient = own.T @ (is_right - shares) - PRIOR * (weights - NONE)[free]
        curvature = (own * (shares * (1 - shares))[:, None]).T @ own + PRIOR * np.eye(int(free.sum()))
        step = np.zeros(3)
        step[free] = np.linalg.solve(curvature, gradient)
        if abs(step).max() < TOLERANCE:
            break
        before = _loss(weights, inputs, is_right)
        while _loss(weights + step, inputs, is_right) > before:  # too far: the curvature is different there
            step /= 2
        weights += step
    return weights


def _loss(weights: Floats, inputs: Floats, is_right: Bools) -> float:
    """The loss that the best weights minimize: minus the logarithm of how likely they are."""
    scores = inputs @ weights
    of_arcs = np.logaddexp(0, np.where(is_right, -scores, scores)).sum()
    return float(of_arcs + PRIOR * ((weights - NONE) ** 2).sum() / 2)
