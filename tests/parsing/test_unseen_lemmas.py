"""Lemmas of forms that training has not seen, next to plain code."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from parser.parsing.unseen_lemmas import CANDIDATES, KNOWN_LEMMA, LEAST_OF_RULE, LONGEST_ENDING, UnseenLemmas
from parser.treebank.lemma_rules import lemma_of, lemma_rule

FORMS = st.text(st.sampled_from("abAB"), min_size=1, max_size=9)
RULES = ("lower\t0\t\t0\t", "lower\t0\t\t1\t", "lower\t0\t\t1\ta", "lower\t0\t\t2\tb", "whole\tab")
WORDS = st.tuples(FORMS, st.sampled_from([None, 0, 1]), st.integers(0, len(RULES) - 1))


def by_ending(words, form, upos, rule):
    """The probability of a rule after the ending of a form."""
    probability = 0.0
    for length in range(min(len(form), LONGEST_ENDING) + 1):
        ending = form.lower()[len(form) - length :]
        rules = [each for known, tag, each in words if tag == upos and known.lower().endswith(ending)]
        if not rules:
            break
        kinds = len(set(rules))
        probability = (rules.count(rule) + kinds * probability) / (len(rules) + kinds)
    return probability


@given(st.lists(WORDS, max_size=12), st.lists(st.tuples(FORMS, st.sampled_from([None, 0, 1])), max_size=4))
def test_a_lemma_is_the_likeliest(words, unseen):
    chosen = UnseenLemmas(words, RULES)
    known = {lemma_of(form, RULES[rule]) for form, _, rule in words}
    random = np.random.default_rng(len(words))
    for form, upos in unseen:
        scores = random.normal(size=len(RULES), scale=3).astype(np.float32)
        weights = {}
        for rule, score in enumerate(scores.tolist()):
            lemma = lemma_of(form, RULES[rule])
            weight = math.exp(score) * (by_ending(words, form, upos, rule) + LEAST_OF_RULE)
            weights[lemma] = weights.get(lemma, 0) + weight * (KNOWN_LEMMA if lemma in known else 1)
        assert math.isclose(
            weights[chosen.lemmas([(form, upos)], scores[None])[0]], max(weights.values()), rel_tol=1e-5
        )


def test_a_rule_that_the_network_hardly_likes_may_win():
    words = [("bab", 0, 1), ("ab", 0, 1), ("aaa", 1, 1)]  # the last: its lemma is that of the rule, too
    scores = np.array([0.0, -9.5, -20.0, -20.0, -20.0], np.float32)
    assert UnseenLemmas(words, RULES).lemmas([("aab", 0)], scores[None]) == [lemma_of("aab", RULES[1])]
    assert UnseenLemmas(words, RULES).lemmas([("aab", 0)], 2 * scores[None]) == [lemma_of("aab", RULES[0])]


def test_endings_and_known_lemmas_decide_between_rules_that_the_network_likes_alike():
    pairs = [
        ("running", "run"),
        ("sitting", "sit"),
        ("walking", "walk"),
        ("walked", "walk"),
        ("talk", "talk"),
    ]
    rules = list(dict.fromkeys(lemma_rule(form, lemma) for form, lemma in pairs))
    words = [(form, 0, rules.index(lemma_rule(form, lemma))) for form, lemma in pairs]
    unseen, alike = UnseenLemmas(words, rules), np.zeros(len(rules), np.float32)
    forms = [("hitting", 0), ("talking", 0), ("Talked", 0)]  # the first by its ending, the others' are known
    assert unseen.lemmas(forms, np.stack([alike] * 3)) == ["hit", "talk", "talk"]


def test_only_the_best_rules_of_the_network_are_tried():
    rules = [f"whole\t{number}" for number in range(CANDIDATES + 1)]
    scores = -np.arange(len(rules), dtype=np.float32)
    words = [("a", 0, CANDIDATES)] * 1_000
    assert UnseenLemmas(words, rules).lemmas([("a", 0)], scores[None]) == ["0"]
