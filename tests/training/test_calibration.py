"""The calibration is fitted to dev, and kept with the model."""

from pathlib import Path

import numpy as np
import pytest
import torch

from parser.evaluation.calibration import Confidence, calibration_error, fitted
from parser.models.model import Model
from parser.models.settings import CalibrationSettings
from parser.parsing.probabilities import Calibration
from parser.training.config import read_config
from parser.training.run import train_and_score


def confidence(probabilities, is_right):
    return Confidence(np.array(probabilities, float), np.array(is_right), np.array(["x"] * len(is_right)))


def test_it_finds_what_the_shares_of_right_arcs_are():
    random = np.random.default_rng(1)
    true = CalibrationSettings(right=1.4, wrong=0.3, offset=0.4)
    probabilities = random.beta(5, 0.5, 50_000)
    is_right = random.random(50_000) < Calibration(true)(probabilities)
    own = confidence(probabilities, is_right)
    found = fitted(own)
    assert (found.right, found.wrong, found.offset) == pytest.approx((1.4, 0.3, 0.4), abs=0.1)
    after = np.array(Calibration(found)(probabilities))
    assert calibration_error(after, is_right) < 0.01 < calibration_error(probabilities, is_right)


@pytest.mark.parametrize("extreme", [1e-9, 0.0])
def test_probabilities_of_almost_one_do_not_lead_astray(extreme):
    random = np.random.default_rng(2)
    probabilities = np.where(random.random(9_000) < 0.5, 1 - extreme, random.beta(5, 1, 9_000))
    own = confidence(probabilities, random.random(9_000) < 0.05 + 0.9 * probabilities)
    after = np.array(Calibration(fitted(own))(own.probabilities))
    assert calibration_error(after, own.is_right) < 0.015


@pytest.mark.parametrize("is_right", [True, False])
def test_arcs_that_are_all_right_or_all_wrong_do_not_decide_everything(is_right):
    found = Calibration(fitted(confidence([0.5, 0.9], [is_right, is_right])))([0.5, 0.9])
    assert found == sorted(found)
    assert all(0.05 < each < 0.99 for each in found)


def test_probabilities_that_mean_the_opposite_become_equal():
    random = np.random.default_rng(3)
    probabilities = random.random(5_000)
    own = confidence(probabilities, random.random(5_000) > probabilities)
    found = fitted(own)
    assert (found.right, found.wrong) == (0, 0)
    assert Calibration(found)([0.1, 0.9]) == pytest.approx([own.is_right.mean()] * 2, abs=0.01)


@pytest.mark.extended
def test_a_run_keeps_it_with_the_model(tmp_path):
    changes = [
        "treebank.train=data/quickstart/dev.conllu",
        "treebank.dev=data/quickstart/dev.conllu",
        "treebank.test=null",
        "tokenizer=null",
        "training.epochs=1",
    ]
    train_and_score(read_config(Path("configs/quickstart.yaml"), changes), tmp_path / "one")
    assert Model.load(tmp_path / "one/model", torch.device("cpu")).settings.calibration is not None
    kept = ["parser.calibration={right: 2, wrong: 0.5}", *changes]
    train_and_score(read_config(Path("configs/quickstart.yaml"), kept), tmp_path / "other")
    own = Model.load(tmp_path / "other/model", torch.device("cpu")).settings.calibration
    assert own == CalibrationSettings(right=2, wrong=0.5)
