"""The paired bootstrap, the test by randomization, and the report that compares two parsers."""

from math import comb

import numpy as np
import pytest
from plain_parser import sentence

from parser.evaluation.report import comparison_report, copied_by
from parser.evaluation.significance import compare
from parser.parsing.parsed_tree import ParsedTree

GOLD = [sentence((2, 0, 2, 3), labels=["det", "root", "obj", "det"]) for _ in range(200)]
RIGHT = ParsedTree((2, 0, 2, 3), ("det", "root", "obj", "det"))
WRONG = ParsedTree((2, 0, 2, 2), ("det", "root", "nsubj", "det"))


def trees(wrong):
    """The output of a parser with errors in `wrong` sentences, spread evenly."""
    places = set(np.linspace(0, len(GOLD) - 1, wrong).round().astype(int).tolist()) if wrong else set()
    return [WRONG if place in places else RIGHT for place in range(len(GOLD))]


def test_equal_parsers():
    comparison = compare(GOLD, trees(20), trees(20))
    assert comparison.difference == 0
    assert comparison.interval == (0, 0)
    assert comparison.p_value == 1


def test_a_significant_difference():
    comparison = compare(GOLD, trees(60), trees(0))
    assert comparison.difference == pytest.approx(100 * 60 * 2 / 800)
    assert comparison.interval[0] > 0
    assert comparison.p_value < 0.001
    other_way = compare(GOLD, trees(0), trees(60))
    assert other_way.interval == pytest.approx(tuple(-bound for bound in reversed(comparison.interval)))


def test_an_insignificant_difference():
    """The parsers differ in 41 sentences. In 22 of them the second parser is right."""
    first = [WRONG] * 22 + [RIGHT] * 178
    second = [RIGHT] * 22 + [WRONG] * 19 + [RIGHT] * 159
    comparison = compare(GOLD, first, second)
    low, high = comparison.interval
    assert low < 0 < comparison.difference < high
    # Of 41 random signs, 19 or fewer are equal in three of four cases.
    ways = sum(comb(41, number) for number in range(20)) * 2 / 2**41
    assert comparison.p_value == pytest.approx(ways, abs=0.03)


@pytest.mark.parametrize(("sentences", "expected"), [(1, 1.0), (2, 0.5), (3, 0.25)])
def test_few_sentences_prove_little(sentences, expected):
    """In 2 of the 2 ** n ways to exchange sentences, all of them are better or all are worse."""
    comparison = compare(GOLD[:sentences], [WRONG] * sentences, [RIGHT] * sentences)
    assert comparison.p_value == pytest.approx(expected, abs=0.03)


def test_the_interval_approaches_that_of_the_normal_distribution():
    gained = 2 * 60 / 200
    deviation = np.sqrt((60 * (2 - gained) ** 2 + 140 * gained**2) / 200 / 200)
    comparison = compare(GOLD, trees(60), trees(0))
    expected = [100 * (gained + side * 1.96 * deviation) / 4 for side in (-1, 1)]
    assert comparison.interval == pytest.approx(expected, rel=0.03)


def test_comparison_report():
    text = "\n".join(
        comparison_report(
            compare(GOLD, trees(60), trees(0)),
            "old",
            "new",
            copied_by(set(), {"xpos", "upos", "feats", "lemma"}),
        )
    )
    assert "B is significantly better: LAS of B - A is +15.00, 95 % interval +12." in text
    assert "XPOS               100.00 100.00   +0.00  A copies XPOS from the file\n" in text
    assert "p = 0.0001" in text
    assert "  obj             of 200                    70.00 100.00  +30.00     +60" in text
    assert "  det             of 400" in text
    assert "  root            of 200                   100.00 100.00   +0.00      +0" in text
    assert text.count("root") == 1  # not in the lists of differences


def test_labels_are_sorted_by_difference():
    gold = [sentence((0, 1, 1), labels=["root", "det", "obj"])] * 3
    right = ParsedTree((0, 1, 1), ("root", "det", "obj"))
    first = [ParsedTree((0, 1, 1), ("root", "x", "x")), *[ParsedTree((0, 1, 1), ("root", "det", "x"))] * 2]
    text = "\n".join(comparison_report(compare(gold, first, [right] * 3), "old", "new", {}))
    assert text.index("\n  obj ") < text.index("\n  det ")


@pytest.mark.parametrize("measure", ["upos", "lemmas", "clas", "mlas", "blex"])
def test_parsers_are_compared_by_any_measure(measure):
    """The second parser is right where the first has a wrong tag or a wrong arc of a content word."""
    tag = {"upos": "upos", "lemmas": "lemma", "mlas": "upos", "blex": "lemma"}.get(measure)
    wrong = WRONG if tag is None else RIGHT._replace(tags={tag: ("other",) * 4})
    comparison = compare(GOLD, [wrong] * 50 + [RIGHT] * 150, [RIGHT] * 200, measure=measure)
    lost = comparison.second.percent(measure) - comparison.first.percent(measure)
    assert comparison.difference == pytest.approx(lost)
    assert 10 < lost < 30
    low, high = comparison.interval
    assert 0 < low < lost < high
    assert f"of B - A is +{lost:.2f}" in "\n".join(comparison_report(comparison, "old", "new", {}))
