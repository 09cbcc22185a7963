"""Scores of tags, features and lemmas as in the CoNLL 2018 shared task, alone and together with arcs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from parser.treebank.labels import CONTENT_LABELS, without_subtype
from parser.treebank.sentence import Sentence

FUNCTIONAL_LABELS = frozenset(["aux", "cop", "mark", "det", "clf", "case", "cc"])
# fmt: off
UNIVERSAL_FEATURES = frozenset([
    "Abbr", "Animacy", "Aspect", "Case", "Definite", "Degree", "Evident", "Foreign", "Gender", "Mood",
    "Number", "NumType", "Person", "Polarity", "Polite", "Poss", "PronType", "Reflex", "Tense", "VerbForm",
    "Voice",
])
# fmt: on
"""Those that the scorer of the shared task compares."""


class _Words(NamedTuple):
    """The words of a sentence, with what is compared of each."""

    heads: Sequence[int]
    labels: Sequence[str]
    """Without subtypes."""
    upos: Sequence[str]
    xpos: Sequence[str]
    features: Sequence[str]
    """The universal ones."""
    lemmas: Sequence[str]

    @classmethod
    def of(
        cls,
        sentence: Sentence,
        heads: Sequence[int],
        labels: Sequence[str],
        tags: Mapping[str, Sequence[str]],
    ) -> _Words:
        """tags: by column; the sentence's own where there are none."""
        return cls(
            heads,
            list(map(without_subtype, labels)),
            tags.get("upos", sentence.upos),
            tags.get("xpos", sentence.xpos),
            list(map(universal_features, tags.get("feats", sentence.feats))),
            tags.get("lemma", sentence.lemmas),
        )

    def function_words(self) -> list[list[tuple[int, str, str, str]]]:
        """For each word the function words that depend on it, with what MLAS compares of them."""
        found: list[list[tuple[int, str, str, str]]] = [[] for _ in self.heads]
        for word, (head, label) in enumerate(zip(self.heads, self.labels, strict=True)):
            if head and label in FUNCTIONAL_LABELS:
                found[head - 1].append((word, label, self.upos[word], self.features[word]))
        return found


@cache
def universal_features(features: str) -> str:
    """The features that are compared, such as "Case=Nom|Number=Sing", in alphabetical order."""
    names = (feature for feature in features.split("|") if feature.split("=", 1)[0] in UNIVERSAL_FEATURES)
    return "|".join(sorted(names))


def correct_words(
    gold: Sentence,
    heads: Sequence[int],
    labels: Sequence[str],
    tags: Mapping[str, Sequence[str]],
    scored: Collection[int],
) -> Counter[str]:
    """How many words are right by each measure: upos, xpos, ufeats, alltags, lemmas, mlas, blex.

    tags: the predicted ones by column, for others the gold ones count. scored: the words to count, from 0.
    """
    right = _Words.of(gold, gold.heads, gold.labels, {})
    found = _Words.of(gold, heads, labels, tags)
    right_function_words, function_words = right.function_words(), found.function_words()
    counts: Counter[str] = Counter()
    for word in scored:
        upos = right.upos[word] == found.upos[word]
        xpos = right.xpos[word] == found.xpos[word]
        ufeats = right.features[word] == found.features[word]
        lemma = right.lemmas[word] in ("_", found.lemmas[word])
        is_arc = (right.heads[word], right.labels[word]) == (found.heads[word], found.labels[word])
        is_content_arc = is_arc and right.labels[word] in CONTENT_LABELS
        same_function_words = right_function_words[word] == function_words[word]
        counts["upos"] += upos
        counts["xpos"] += xpos
        counts["ufeats"] += ufeats
        counts["alltags"] += upos and xpos and ufeats
        counts["lemmas"] += lemma
        counts["mlas"] += is_content_arc and upos and ufeats and same_function_words
        counts["blex"] += is_content_arc and lemma
    return counts
