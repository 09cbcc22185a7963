"""Lemmas of words whose form training has not seen."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from parser.runtime.layers import softmax
from parser.runtime.reference import Floats
from parser.treebank.lemma_rules import lemma_of

CANDIDATES = 16
"""Rules with the highest scores that are tried. More find hardly any better lemma."""
LONGEST_ENDING = 7
"""In letters."""
KNOWN_LEMMA = math.exp(2.0)
"""By what a lemma is likelier if training has it. Of the values that were tried, the best on dev of languages
with rich morphology."""
LEAST_OF_RULE = 1e-4
"""The probability of a rule that no form of the UPOS has had."""
LAST_CHARACTER = "\U0010ffff"


class SeenForms(NamedTuple):
    """The forms that training has seen with a UPOS."""

    endings: Sequence[str]
    """The forms in small letters and backwards, in order."""
    rules: Sequence[int]
    """The rule of each form's lemma."""


class RuleCounts(NamedTuple):
    of_rules: Mapping[int, int]
    kinds: int
    """The number of rules."""
    total: int
    """Of the forms and kinds."""


class UnseenLemmas:
    """Chooses the likeliest lemma by the network and by the endings of the forms in training.

    A rule's probability by the network is multiplied by the one that it has after the form's ending, in which
    longer endings are interpolated with shorter ones (Witten & Bell 1991). Rules that give the same lemma are
    added up.
    """

    def __init__(self, words: Sequence[tuple[str, int | None, int]], rules: Sequence[str]):
        """words: forms of training with the numbers of their UPOS and rule. rules: see `lemma_rule`."""
        self._given, self._rules = words, rules
        self._counted: dict[tuple[int | None, str], RuleCounts] = {}

    @cached_property
    def _words(self) -> Mapping[int | None, SeenForms]:
        """By UPOS. Only unseen words need it, and it takes longer than parsing a few sentences."""
        of_upos: dict[int | None, list[tuple[str, int]]] = {}
        for form, upos, rule in self._given:
            of_upos.setdefault(upos, []).append((form.lower()[::-1], rule))
        return {upos: SeenForms(*zip(*sorted(of_forms), strict=True)) for upos, of_forms in of_upos.items()}

    @cached_property
    def _lemmas(self) -> frozenset[str]:
        """Those that training has."""
        return frozenset(lemma_of(form, self._rules[rule]) for form, _, rule in self._given)

    def lemmas(self, words: Sequence[tuple[str, int | None]], scores: Floats) -> list[str]:
        """words: their forms and UPOS. scores: [words, rules] log probabilities, up to constants."""
        by_network = softmax(scores)
        best = by_network.argmax(1).tolist()
        return [
            self._lemma(form, upos, of_word, rule)
            for (form, upos), of_word, rule in zip(words, by_network, best, strict=True)
        ]

    def _lemma(self, form: str, upos: int | None, by_network: Floats, best: int) -> str:
        """by_network: [rules] probabilities. best: the rule with the greatest."""
        probability = by_network.item(best)
        [by_ending] = self._by_ending(form, upos, [best])
        lemma = lemma_of(form, self._rules[best])
        weight = self._weight(lemma) * probability * (by_ending + LEAST_OF_RULE)
        # What the network has to give all rules of another lemma together, at least. Mostly it does not.
        least = weight / ((1 + LEAST_OF_RULE) * KNOWN_LEMMA)
        if least > 1 - probability:
            return lemma
        candidates = np.flatnonzero(by_network * CANDIDATES > least)
        order = np.argsort(-by_network[candidates], kind="stable")[:CANDIDATES]
        rules = candidates[order].tolist()
        of_lemmas: dict[str, float] = {}
        for rule, by_ending in zip(rules, self._by_ending(form, upos, rules), strict=True):
            lemma = lemma_of(form, self._rules[rule])
            weight = self._weight(lemma) * by_network.item(rule) * (by_ending + LEAST_OF_RULE)
            of_lemmas[lemma] = of_lemmas.get(lemma, 0.0) + weight
        return max(of_lemmas, key=of_lemmas.__getitem__)

    def _weight(self, lemma: str) -> float:
        return KNOWN_LEMMA if lemma in self._lemmas else 1.0

    def _by_ending(self, form: str, upos: int | None, rules: Sequence[int]) -> list[float]:
        """The probability of each rule after the ending of a form."""
        backwards = form.lower()[::-1][:LONGEST_ENDING]
        probabilities = [0.0] * len(rules)
        for length in range(len(backwards) + 1):
            counts = self._counts(upos, backwards[:length])
            if not counts.of_rules:
                break
            of_rules, kinds, total = counts
            probabilities = [
                (of_rules.get(rule, 0) + kinds * shorter) / total
                for rule, shorter in zip(rules, probabilities, strict=True)
            ]
        return probabilities

    def _counts(self, upos: int | None, ending: str) -> RuleCounts:
        """How often forms with this ending have each rule. ending: backwards."""
        counts = self._counted.get((upos, ending))
        if counts is None:
            endings, rules = self._words.get(upos, SeenForms((), ()))
            start, end = (bisect_left(endings, each) for each in (ending, ending + LAST_CHARACTER))
            of_rules = Counter(rules[start:end])
            counts = RuleCounts(of_rules, len(of_rules), end - start + len(of_rules))
            if of_rules:  # others could fill the memory
                self._counted[upos, ending] = counts
        return counts
