"""The part of a report about the probabilities of arcs: measures of confidence and a reliability diagram."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from parser.evaluation.calibration import (
    BINS,
    Confidence,
    area_of_errors,
    bins,
    brier_score,
    calibration_error,
)
from parser.pages.page import rendered

ARCS_OF_BIN = 50
"""Minimum arcs of a label in each bin: fewer are right or wrong by chance."""
LABELS_SHOWN = 20
SIZE, MARGIN = 240, 48
"""Size and margin of the diagram in pixels."""
MEASURES: Mapping[str, tuple[Callable[[Confidence], float | None], str]] = {
    "calibration error": (
        lambda own: calibration_error(own.probabilities, own.is_right),
        "mean distance of probability and share of right arcs, over 15 groups of equally many; 0 is best",
    ),
    "Brier score": (
        lambda own: brier_score(own.probabilities, own.is_right),
        "mean squared distance of probability and what is so; 0 is best",
    ),
    "area of errors": (
        lambda own: area_of_errors(own.probabilities, own.is_right),
        "how often a wrong arc is less probable than a right one; 1 is best, 0.5 is chance",
    ),
}


class ConfidencePart(NamedTuple):
    names: list[str]
    """Names of the compared probabilities."""
    scores: list[tuple[str, ...]]
    """For each measure: its name, its value for each of the compared probabilities, and its meaning."""
    labels: list[tuple[str, ...]]
    """For each label: its name, arcs, the percentage of correct arcs, and the calibration errors."""
    diagram: str
    """The reliability diagram as SVG."""


def confidence_part(confidences: Mapping[str, Confidence]) -> ConfidencePart | None:
    """Return the part of a report; None without arcs. confidences: those of the same arcs, by the treatment
    of their probabilities.
    """
    if not any(len(own.labels) for own in confidences.values()):
        return None
    scores = [
        (name, *(_four(measure(own)) for own in confidences.values()), meaning)
        for name, (measure, meaning) in MEASURES.items()
    ]
    return ConfidencePart(list(confidences), scores, list(_labels(confidences)), _diagram(confidences))


def _four(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"


def _labels(confidences: Mapping[str, Confidence]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the most frequent labels."""
    of_all = zip(*(own.by_label() for own in confidences.values()), strict=True)
    for _, groups in zip(range(LABELS_SHOWN), of_all, strict=False):
        name, first = groups[0]
        count = max(1, min(BINS, len(first.labels) // ARCS_OF_BIN))
        errors = [_four(calibration_error(own.probabilities, own.is_right, count)) for _, own in groups]
        yield name, f"{len(first.labels):,}", f"{100 * first.is_right.mean():.1f}", *errors


def _diagram(confidences: Mapping[str, Confidence]) -> str:
    curves = {
        name: [
            (round(SIZE * one.probability, 1), round(SIZE * (1 - one.right), 1))
            for one in bins(own.probabilities, own.is_right)
        ]
        for name, own in confidences.items()
    }
    description = "The share of right arcs over their mean probability: on the diagonal, both are the same"
    return rendered("reliability.svg", curves=curves, size=SIZE, margin=MARGIN, description=description)
