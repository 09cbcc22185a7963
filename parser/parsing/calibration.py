"""Calibration: makes the probabilities of arcs match the shares of correct arcs.

Parsers are overconfident: the transitions of a wrong arc were often as good as certain to them. Beta
calibration (Kull, Silva Filho & Flach 2017) keeps the order of arcs by their probabilities, and so how well
these find errors. A temperature alone, a single number for high and low probabilities, leaves about twice
the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from parser.models.model import Model
from parser.models.settings import CalibrationSettings

Floats = NDArray[np.float64]
LEAST = 1e-6
"""Added to a probability and to its complement before taking logarithms: float32 has hardly a smaller
complement, and the order of greater probabilities stays."""


@dataclass(frozen=True)
class Calibration:
    settings: CalibrationSettings | None
    """None leaves probabilities unchanged."""

    @classmethod
    def of(cls, model: Model) -> Calibration:
        """The calibration of a parser or an ensemble: the mean over the models that have one."""
        own = [each.settings.calibration for each in model.members]
        found = [(each.right, each.wrong, each.offset) for each in own if each]
        if not found:
            return cls(None)
        right, wrong, offset = map(mean, zip(*found, strict=True))
        return cls(CalibrationSettings(right=right, wrong=wrong, offset=offset))

    def __call__(self, probabilities: Sequence[float]) -> Sequence[float]:
        """The calibrated probabilities. probabilities: those of arcs, by parser and scorers."""
        if self.settings is None or not len(probabilities):
            return [min(own, 1.0) for own in probabilities]  # sums may be above
        weights = np.array([self.settings.right, self.settings.wrong, self.settings.offset])
        calibrated: list[float] = logistic(features(np.array(probabilities)) @ weights).tolist()
        return calibrated


def features(probabilities: Floats) -> Floats:
    """[arcs, 3] The features whose weights are `CalibrationSettings.right`, `wrong` and `offset`."""
    exact = probabilities.astype(float).clip(0, 1)
    return np.stack([np.log(exact + LEAST), -np.log(1 - exact + LEAST), np.ones_like(exact)], 1)


def logistic(values: Floats) -> Floats:
    found: Floats = np.exp(-np.logaddexp(0, -values))
    return found


def with_calibration(model: Model, calibration: CalibrationSettings | None) -> Model:
    """The parser, or each parser of an ensemble, with another calibration."""
    settings = model.settings.model_copy(update={"calibration": calibration})
    others = tuple(with_calibration(each, calibration) for each in model.others)
    return replace(model, settings=settings, others=others)
