"""Rules make lemmas from forms, and similar inflections have the same rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.treebank.conllu import read_treebank
from parser.treebank.lemma_rules import is_rule, lemma_of, lemma_rule

WORDS = st.text("aAbBéÉßİǆ1- \u00a0\u200c", min_size=1, max_size=8)


@given(WORDS, WORDS)
def test_a_rule_gives_the_lemma_it_was_made_of(form, lemma):
    rule = lemma_rule(form, lemma)
    assert lemma_of(form, rule) == lemma
    assert is_rule(rule)


@given(WORDS, WORDS, WORDS)
def test_any_rule_gives_something_for_any_form(form, other, lemma):
    rule = lemma_rule(other, lemma)
    found = lemma_of(form, rule)
    case, *parts = rule.split("\t")
    if case != "whole" and int(parts[0]) + int(parts[2]) >= len(form):
        assert found == form
    assert found


@pytest.mark.parametrize(
    "pairs",
    [
        ["running run", "Stopping stop", "PUTTING put"],
        ["dogs dog", "Cats cat"],
        ["the the", "The the", "THE the"],
        ["London London", "LONDON London"],
        ["NASA NASA", "iPhone iPhone"],
    ],
)
def test_like_inflections_have_the_same_rule(pairs):
    assert len({lemma_rule(*pair.split()) for pair in pairs}) == 1


def test_a_treebank_needs_few_rules():
    pairs = {
        pair
        for sentence in read_treebank("data/quickstart/train.conllu")
        for pair in zip(sentence.forms, sentence.lemmas, strict=True)
    }
    rules = {lemma_rule(*pair) for pair in pairs}
    assert 3 < len(rules) < len(pairs) / 8


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lower",
        "whole\t",
        "whole\ta\tb",
        "lower\t0\t\t-1\t",
        "odd\t0\t\t0\t",
        "lower\t0\t\n\t0\t",
        "same\t0\t\t9999999\t",
    ],
)
def test_what_is_no_rule(text):
    assert not is_rule(text)
