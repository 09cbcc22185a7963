"""Dependency trees not yet put in a row, the words they are made of, and the dice that draw them.

Where a word stands is told by the lists `left` and `right` of the nodes. What it depends on is the node in
whose list it stands, unless it is displaced: then it names another node as its governor, and the sentence is
non-projective.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from random import Random
from typing import TypeVar

import quickstart_lexicon as lexicon
from quickstart_lexicon import Words

Option = TypeVar("Option")

APART, GLUED, FUSED = "apart", "glued", "fused"


@dataclass(eq=False)
class Node:
    """A word with the phrases that stand to its left and right, each headed by a node."""

    form: str
    lemma: str
    upos: str
    xpos: str
    label: str = "root"
    feats: str = "_"
    left: list[Node] = field(default_factory=list)
    right: list[Node] = field(default_factory=list)
    governor: Node | None = None  # the head of a displaced phrase, which is not the node it stands beside
    written: str = APART  # GLUED: no space before it; FUSED: one multiword token with the word before it

    def labelled(self, label: str) -> Node:
        self.label = label
        return self

    def has_dependent_after(self, label: str) -> bool:
        return any(child.label == label for child in self.right)


@cache
def summed_zipf_weights(count: int) -> list[int]:
    """Running totals of weights that fall with rank; integers, so that every machine draws the same words."""
    return list(accumulate(1_000_000 // (rank + 6) for rank in range(count)))


class Dice:
    """All the chance in the treebank. The reserved words are drawn only while they are allowed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.reserved_allowed = False

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, options: Sequence[Option]) -> Option:
        return options[int(self.random.random() * len(options))]

    def weighted(self, options: Sequence[tuple[int, Option]]) -> Option:
        totals = list(accumulate(weight for weight, _ in options))
        return options[bisect(totals, int(self.random.random() * totals[-1]))][1]

    def word(self, words: Words) -> str:
        totals = summed_zipf_weights(len(words))
        while True:
            word = words[bisect(totals, int(self.random.random() * totals[-1]))]
            if self.reserved_allowed or word not in lexicon.RESERVED:
                return word


# Words


def determiner(form: str, number: str = "") -> Node:
    return Node(form, form, "DET", "DT", "det", f"Number={number}" if number else "_")


def preposition(form: str) -> Node:
    return Node(form, form, "ADP", "IN", "case")


def conjunction(form: str) -> Node:
    return Node(form, form, "CCONJ", "CC", "cc")


def subordinator(form: str) -> Node:
    return Node(form, form, "SCONJ", "IN", "mark")


def infinitive_marker() -> Node:
    return Node("to", "to", "PART", "TO", "mark")


def particle(form: str) -> Node:
    return Node(form, form, "ADP", "RP", "compound:prt")


def adverb(form: str, tag: str = "RB") -> Node:
    return Node(form, form, "ADV", tag, "advmod")


def adjective(form: str, label: str = "amod") -> Node:
    return Node(form, form, "ADJ", "JJ", label)


def interjection(form: str) -> Node:
    return Node(form, form, "INTJ", "UH", "discourse")


def noun(lemma: str, is_plural: bool = False) -> Node:
    if is_plural:
        return Node(lexicon.plural(lemma), lemma, "NOUN", "NNS", feats="Number=Plur")
    return Node(lemma, lemma, "NOUN", "NN", feats="Number=Sing")


def proper_noun(form: str) -> Node:
    return Node(form, form, "PROPN", "NNP", feats="Number=Sing")


def pronoun(lemma: str, form: str = "") -> Node:
    number = lexicon.PRONOUN_NUMBERS.get(lemma)
    return Node(form or lemma, lemma, "PRON", "PRP", feats=f"Number={number}" if number else "_")


def wh_pronoun(form: str, tag: str = "WP") -> Node:
    return Node(form, form, "PRON", tag)


def verb(lemma: str) -> Node:
    """A verb in its base form; the clause or phrase that takes it will inflect it."""
    return Node(lemma, lemma, "VERB", "VB")


def auxiliary(lemma: str, label: str = "aux") -> Node:
    return Node(lemma, lemma, "AUX", "MD" if lemma in lexicon.MODALS else "VB", label)


def punctuation(form: str) -> Node:
    tag = {",": ",", ";": ":"}.get(form, ".")
    return Node(form, form, "PUNCT", tag, "punct", written=GLUED)
