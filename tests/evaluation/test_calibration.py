"""Measures of probabilities, compared with plain versions, and the calibration that is fitted to dev."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.evaluation.calibration import (
    Confidence,
    area_of_errors,
    bins,
    brier_score,
    calibration_error,
    confidence_of,
    fitted,
)
from parser.models.loading import load_model
from parser.models.settings import CalibrationSettings
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.probabilities import Calibration
from parser.training.config import read_config
from parser.training.run import train_and_score
from parser.treebank.conllu import blocks, parse_block

ARCS = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0]), st.booleans()), min_size=1, max_size=40)
TREE = """1\tDogs\t_\tNOUN\t_\t_\t2\tnsubj:pass\t_\t_
2\tbark\t_\tVERB\t_\t_\t0\troot\t_\t_
3\t.\t_\tPUNCT\t_\t_\t2\tpunct\t_\t_

"""


def arrays(arcs):
    probabilities, is_right = zip(*arcs, strict=True)
    return np.array(probabilities), np.array(is_right)


@given(ARCS)
def test_the_area_is_the_share_of_pairs_in_order(arcs):
    right = [probability for probability, is_right in arcs if is_right]
    wrong = [probability for probability, is_right in arcs if not is_right]
    pairs = [(b > a) + (b == a) / 2 for a in wrong for b in right]
    assert area_of_errors(*arrays(arcs)) == (pytest.approx(sum(pairs) / len(pairs)) if pairs else None)


@given(ARCS, st.integers(1, 9))
def test_bins_hold_all_arcs_in_order_and_about_equally_many(arcs, count):
    found = bins(*arrays(arcs), count)
    assert sum(one.arcs for one in found) == len(arcs)
    assert max(one.arcs for one in found) - min(one.arcs for one in found) <= 1
    assert [one.probability for one in found] == sorted(one.probability for one in found)
    assert sum(one.right * one.arcs for one in found) == pytest.approx(sum(right for _, right in arcs))


def test_the_error_is_the_mean_distance_over_bins():
    probabilities, is_right = np.array([0.9, 0.2, 0.8, 0.4]), np.array([True, False, False, True])
    assert calibration_error(probabilities, is_right, 2) == pytest.approx((0.2 + 0.35) / 2)
    assert calibration_error(is_right.astype(float), is_right) == 0
    assert brier_score(probabilities, is_right) == pytest.approx((0.01 + 0.04 + 0.64 + 0.36) / 4)


@pytest.mark.parametrize(
    ("punctuation", "labels"), [(True, ["nsubj", "root", "punct"]), (False, ["nsubj", "root"])]
)
def test_arcs_are_right_with_head_and_label_but_without_subtype(punctuation, labels):
    [sentence] = [parse_block(block, tree=True) for block in blocks(TREE.splitlines(keepends=True))]
    tree = ParsedTree((2, 0, 1), ("nsubj", "root", "punct"), (0.5, 0.6, 0.7))
    found = confidence_of([sentence], [tree], punctuation)
    assert found.labels.tolist() == labels
    assert found.is_right.tolist() == [True, True, False][: len(labels)]
    assert found.probabilities.tolist() == [0.5, 0.6, 0.7][: len(labels)]
    by_label = dict(found.by_label())
    assert by_label["nsubj"].probabilities.tolist() == [0.5]
    assert set(by_label) == set(labels)


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
    files = "treebank={train: data/quickstart/dev.conllu, dev: data/quickstart/dev.conllu, test: null}"
    changes, kept = (
        [files, "tokenizer=null", "training.epochs=1"],
        "parser.calibration={right: 2, wrong: 0.5}",
    )
    found = []
    for run, more in (("one", []), ("other", [kept])):
        train_and_score(read_config(Path("configs/quickstart.yaml"), [*changes, *more]), tmp_path / run)
        found.append(load_model(tmp_path / run / "model").settings.calibration)
    assert found[0] is not None
    assert found[1] == CalibrationSettings(right=2, wrong=0.5)
