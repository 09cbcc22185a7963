"""Calibrated probabilities of arcs, in trees that are parsed alone and together."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsing.test_reparsing import model_of
from random_parsers import RUNNERS, run_by

from parser.models.settings import CalibrationSettings
from parser.parsing.engine import parse
from parser.parsing.options import ParseOptions
from parser.parsing.probabilities import Calibration, with_calibration
from parser.treebank.conllu import read_treebank

SENTENCES = read_treebank("data/quickstart/dev.conllu")[:40]
MODEL = model_of(1)
SETTINGS = CalibrationSettings(right=1.4, wrong=0.3, offset=0.4)
PROBABILITIES = st.lists(st.floats(0, 1), min_size=1, max_size=9)


def plain(probability, settings=SETTINGS):
    value = settings.right * math.log(probability + 1e-6) - settings.wrong * math.log(1 - probability + 1e-6)
    return 1 / (1 + math.exp(-value - settings.offset))


@pytest.mark.parametrize("runner", RUNNERS)
def test_trees_stay_and_their_probabilities_are_calibrated(runner, monkeypatch):
    run_by(monkeypatch, runner)
    sentences = SENTENCES
    before = parse(MODEL, sentences, options=ParseOptions(probabilities=True))
    after = parse(with_calibration(MODEL, SETTINGS), sentences, options=ParseOptions(probabilities=True))
    for own, calibrated in zip(before, after, strict=True):
        assert (own.heads, own.labels) == (calibrated.heads, calibrated.labels)
        wanted = [plain(min(1, each)) for each in own.probabilities]
        assert calibrated.probabilities == pytest.approx(wanted, abs=1e-6)


@given(PROBABILITIES)
def test_without_a_calibration_or_with_the_neutral_one_they_stay(probabilities):
    assert Calibration(None)(probabilities) == probabilities
    assert Calibration(CalibrationSettings())(probabilities) == pytest.approx(probabilities, abs=1e-5)


@given(PROBABILITIES)
def test_more_probable_arcs_stay_so(probabilities):
    found = Calibration(SETTINGS)(sorted(probabilities))
    assert found == sorted(found)
    assert all(0 <= each <= 1 for each in found)


def test_an_ensemble_has_the_mean_of_its_models():
    one, other, third = (
        with_calibration(MODEL, each)
        for each in (SETTINGS, CalibrationSettings(right=1, wrong=0.7, offset=0), None)
    )
    together = Calibration.of(replace(one, others=(other, third))).settings
    assert np.allclose([together.right, together.wrong, together.offset], [1.2, 0.5, 0.2])
    assert Calibration.of(replace(third, others=(third,))).settings is None
