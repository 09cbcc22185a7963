"""The paired bootstrap, the test by randomization, and the report that compares two parsers."""

from math import comb

import numpy as np
import pytest
import torch
from plain_parser import sentence

from parser.evaluation import significance
from parser.evaluation.report import comparison_report, copied_by
from parser.evaluation.significance import compare, interval, resampled
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
    assert (comparison.difference, comparison.interval, comparison.p_value) == (0, (0, 0), 1)


def test_a_significant_difference():
    comparison, other_way = compare(GOLD, trees(60), trees(0)), compare(GOLD, trees(0), trees(60))
    assert comparison.difference == pytest.approx(100 * 60 * 2 / 800)
    assert comparison.interval[0] > 0
    assert comparison.p_value < 0.001
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
    copied = copied_by(set(), {"xpos", "upos", "feats", "lemma"})
    text = "\n".join(comparison_report(compare(GOLD, trees(60), trees(0)), "old", "new", copied))
    assert "B is significantly better: LAS of B - A is +15.00, 95 % interval +12." in text
    assert "p = 0.0001" in text
    assert "A copies XPOS from the file\n" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["obj", "of", "200", "70.00", "100.00", "+30.00", "+60"] in rows
    assert [row[0] for row in rows if row].count("root") == 1  # not in the lists of differences


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


def series(count, *sizes, seed=1):
    return np.random.default_rng(seed).normal(size=(count, *sizes))


def mean(values):
    return values.mean(1)


def test_samples_scatter_as_the_standard_error():
    values = series(400)
    means = resampled([values], mean, 4000, seed=0)
    error = float(values.std()) / 400**0.5
    assert float(means.std()) == pytest.approx(error, rel=0.05)
    low, high = interval(means)
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.05)
    assert low < values.mean() < high


def test_observations_stay_whole_and_series_are_independent():
    paired = np.stack([series(50), series(50) + 3], 1)
    assert resampled([paired], lambda pairs: (pairs[..., 1] - pairs[..., 0]).std(1), 100, seed=0).max() < 1e-9
    apart = resampled([series(50), series(50) + 3], lambda one, other: mean(other) - mean(one), 100, seed=0)
    assert apart.std() > 0.1


def test_the_memory_for_samples_does_not_change_them(monkeypatch):
    def greatest(seed):
        return resampled([series(30, 2)], lambda drawn: drawn[..., 0].max(1), 101, seed).tolist()

    samples = greatest(seed=7)
    monkeypatch.setattr(significance, "DRAWN_AT_ONCE", 100)
    assert greatest(seed=7) == samples != greatest(seed=8)


def test_samples_are_those_that_pytorch_draws():
    """So a committed measurement keeps its interval."""
    (drawn,) = resampled([np.arange(37.0)], lambda rows: rows[None], 5, seed=3)
    expected = torch.randint(37, (5, 37), generator=torch.Generator().manual_seed(3))
    assert drawn.tolist() == expected.tolist()
