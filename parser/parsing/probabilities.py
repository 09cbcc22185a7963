"""The probabilities of arcs: computed while parsers make the arcs, and calibrated.

The probability of an arc is that of the labelled transition that made it, among the legal ones. For an
arc from ROOT this alone says little: most systems make it when nothing else is legal. It was decided by the
earlier transitions, after each of which ROOT could still become the head of the word. So the probabilities of
all transitions that would have kept ROOT possible are summed at each step, and the product of these sums is
multiplied with the probability of the last transition.

Parsers are overconfident: the transitions of a wrong arc were often as good as certain to them. Beta
calibration (Kull, Silva Filho & Flach 2017) makes probabilities match the shares of correct arcs. It keeps
the order of arcs by their probabilities, and so how well these find errors. A temperature alone, a single
number for high and low probabilities, leaves about twice the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from parser.models.model import AnyModel, Model
from parser.models.settings import CalibrationSettings
from parser.transitions.labelled import Effects, LabelledTransitions
from parser.transitions.system import Place

Floats = NDArray[np.float64]
LEAST = 1e-6
"""Added to a probability and to its complement before taking logarithms: float32 has hardly a smaller
complement, and the order of greater probabilities stays."""


def arc_probabilities(
    labelled: LabelledTransitions, transitions: Sequence[int], scores: NDArray[np.float32], words: int
) -> list[float]:
    """Those of the arcs to the words of one sentence, like `ArcProbabilities`.

    transitions: [steps]. scores: [steps, transitions] before each step; -infinity for illegal transitions.
    """
    powers = np.exp(scores.astype(float) - scores.max(1, keepdims=True))
    probabilities = powers / powers.sum(1, keepdims=True)
    of_taken = probabilities[np.arange(len(transitions)), transitions].tolist()
    # [2, places, steps] with and without words on the stack
    kept = (labelled.keeps_root.astype(float) @ probabilities.T).tolist()
    of_arcs, of_root, rootless = [1.0] * (words + 2), [1.0] * (words + 2), 1.0
    stack, front = [0], 1
    for step, transition in enumerate(transitions):
        effects = Effects(*labelled.effects[transition].tolist())
        at = (stack[-1], stack[-2] if len(stack) > 1 else 0, front, -1)
        if effects.dependent != Place.NOWHERE:
            dependent = at[effects.dependent]
            is_of_root = at[effects.head] == 0
            of_arcs[dependent] = of_taken[step] * (of_root[dependent] * rootless if is_of_root else 1.0)
        *by_place, elsewhere = kept[len(stack) == 1]
        for word, share in zip(at, by_place, strict=False):
            of_root[word] *= share[step]
        rootless *= elsewhere[step]
        del stack[len(stack) + effects.stack_move - 1 :]
        stack.append(at[effects.top])
        front += effects.buffer_move
    return of_arcs[1:-1]


@dataclass(frozen=True)
class Calibration:
    settings: CalibrationSettings | None
    """None leaves probabilities unchanged."""

    @classmethod
    def of(cls, model: Model) -> Calibration:
        """The calibration of a parser or an ensemble: the mean over the models that have one."""
        of_members = [each.settings.calibration for each in model.members]
        weights = [(each.right, each.wrong, each.offset) for each in of_members if each]
        if not weights:
            return cls(None)
        right, wrong, offset = map(mean, zip(*weights, strict=True))
        return cls(CalibrationSettings(right=right, wrong=wrong, offset=offset))

    def __call__(self, probabilities: Sequence[float]) -> Sequence[float]:
        """The calibrated probabilities. probabilities: those of arcs, by parser and scorers."""
        if self.settings is None or not len(probabilities):
            return [min(each, 1.0) for each in probabilities]  # sums may be above
        weights = np.array([self.settings.right, self.settings.wrong, self.settings.offset])
        calibrated: list[float] = logistic(features(np.array(probabilities)) @ weights).tolist()
        return calibrated


def features(probabilities: Floats) -> Floats:
    """[arcs, 3] The features whose weights are `CalibrationSettings.right`, `wrong` and `offset`."""
    exact = probabilities.astype(float).clip(0, 1)
    return np.stack([np.log(exact + LEAST), -np.log(1 - exact + LEAST), np.ones_like(exact)], 1)


def logistic(values: Floats) -> Floats:
    shares: Floats = np.exp(-np.logaddexp(0, -values))
    return shares


def with_calibration(model: AnyModel, calibration: CalibrationSettings | None) -> AnyModel:
    """The parser, or each parser of an ensemble, with another calibration."""
    settings = model.settings.model_copy(update={"calibration": calibration})
    others = tuple(with_calibration(each, calibration) for each in model.others)
    return replace(model, settings=settings, others=others)
