"""Measure the calibration of the probabilities of labelled arcs on a test set, by what is fitted on dev.

    python scripts/studies/accuracy/measure_calibration.py runs/*/model --dev dev.conllu --test test.conllu

`temperature` divides the log odds by the number that is most likely on dev; `beta` is the calibration that
training fits (`parser/evaluation/calibration.py`). The measures are from `parser/evaluation/calibration.py`.
The model's own calibration, if any, is not applied.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from parser.evaluation.calibration import (
    Confidence,
    area_of_errors,
    brier_score,
    calibration_error,
    confidence_of,
    fitted,
)
from parser.models.loading import load_model
from parser.models.model import Model
from parser.parsing.engine import parse
from parser.parsing.options import ParseOptions
from parser.parsing.probabilities import Calibration, Floats, features, logistic, with_calibration
from parser.system.pytorch import tune_process
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import Sentence

TEMPERATURES = np.geomspace(0.2, 10, 400)


def confidence(model: Model, sentences: Sequence[Sentence]) -> Confidence:
    uncalibrated = with_calibration(model, None)
    return confidence_of(sentences, parse(uncalibrated, sentences, options=ParseOptions(probabilities=True)))


def log_odds(probabilities: Floats) -> Floats:
    return features(probabilities)[:, :2].sum(1)


def temperature_of(dev: Confidence) -> float:
    """The most likely temperature on dev."""
    signed = np.where(dev.is_right, -1, 1) * log_odds(dev.probabilities)
    return min(TEMPERATURES, key=lambda each: float(np.logaddexp(0, signed / each).sum()))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--dev", required=True, type=Path)
    arguments.add_argument("--test", required=True, type=Path)
    given = arguments.parse_args()
    tune_process()
    dev, test = (read_treebank(str(path)) for path in (given.dev, given.test))
    for path in given.models:
        model = load_model(path)
        of_dev, of_test = confidence(model, dev), confidence(model, test)
        print(path)
        scaled = logistic(log_odds(of_test.probabilities) / temperature_of(of_dev))
        for name, confidences in {
            "none": of_test,
            "temperature": of_test._replace(probabilities=scaled),
            "beta": of_test.calibrated(Calibration(fitted(of_dev))),
        }.items():
            arcs = confidences.probabilities, confidences.is_right
            known_area = area_of_errors(*arcs)
            area = 0.5 if known_area is None else known_area
            print(
                f"{name}: calibration error {calibration_error(*arcs):.4f}, "
                f"Brier score {brier_score(*arcs):.4f}, area of errors {area:.4f}"
            )


if __name__ == "__main__":
    main()
