"""Measures of probabilities, compared with plain versions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.evaluation.calibration import area_of_errors, bins, brier_score, calibration_error, confidence_of
from parser.parsing.parsed_tree import ParsedTree
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
