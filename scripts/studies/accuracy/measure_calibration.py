"""Measure the calibration of probabilities on a test set, by what is fitted on dev: of labelled arcs, or of
the columns that a model predicts.

    python scripts/studies/accuracy/measure_calibration.py runs/*/model --dev dev.conllu --test test.conllu
    python scripts/studies/accuracy/measure_calibration.py english-ewt --columns --dev ... --test ...

`temperature` divides the log odds by the number that is most likely on dev; `beta` is the calibration that
training fits (`parser/evaluation/calibration.py`). The measures are from `parser/evaluation/calibration.py`.
The model's own calibration, if any, is not applied.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from parser.evaluation.calibration import (
    Confidence,
    area_of_errors,
    brier_score,
    calibration_error,
    confidence_in_column,
    confidence_of,
    fitted,
)
from parser.models.loading import load_model
from parser.models.model import Model
from parser.models.named_models import find_model
from parser.parsing.engine import parse
from parser.parsing.options import ParseOptions
from parser.parsing.probabilities import Calibration, Floats, features, logistic, with_calibration
from parser.system.pytorch import tune_process
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import Sentence

TEMPERATURES = np.geomspace(0.2, 10, 400)


def confidences_of(model: Model, sentences: Sequence[Sentence], columns: bool) -> dict[str, Confidence]:
    """Of arcs, by the name `arcs`; or of the predicted columns, by their names. Not calibrated."""
    uncalibrated = replace(with_calibration(model, None), calibrations={})
    trees = parse(uncalibrated, sentences, options=ParseOptions(probabilities=True))
    if not columns:
        return {"arcs": confidence_of(sentences, trees)}
    return {name: confidence_in_column(sentences, trees, name) for name in trees[0].tag_probabilities}


def log_odds(probabilities: Floats) -> Floats:
    return features(probabilities)[:, :2].sum(1)


def temperature_of(dev: Confidence) -> float:
    """The most likely temperature on dev."""
    signed = np.where(dev.is_right, -1, 1) * log_odds(dev.probabilities)
    return min(TEMPERATURES, key=lambda each: float(np.logaddexp(0, signed / each).sum()))


def measure(name: str, of_dev: Confidence, of_test: Confidence) -> None:
    scaled = logistic(log_odds(of_test.probabilities) / temperature_of(of_dev))
    for how, confidence in {
        "none": of_test,
        "temperature": of_test._replace(probabilities=scaled),
        "beta": of_test.calibrated(Calibration(fitted(of_dev))),
    }.items():
        values = confidence.probabilities, confidence.is_right
        known_area = area_of_errors(*values)
        area = 0.5 if known_area is None else known_area
        print(
            f"{name}{how}: calibration error {calibration_error(*values):.4f}, "
            f"Brier score {brier_score(*values):.4f}, area of errors {area:.4f}"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="+")
    arguments.add_argument("--columns", action="store_true", help="of predicted columns, not of arcs")
    arguments.add_argument("--dev", required=True, type=Path)
    arguments.add_argument("--test", required=True, type=Path)
    given = arguments.parse_args()
    tune_process()
    dev, test = (read_treebank(str(path)) for path in (given.dev, given.test))
    for path in given.models:
        model = load_model(find_model(path))
        on_dev, on_test = (confidences_of(model, each, given.columns) for each in (dev, test))
        print(path)
        for name, of_test in on_test.items():
            measure(f"{name}, " if given.columns else "", on_dev[name], of_test)


if __name__ == "__main__":
    main()
