"""Scores of tags, features and lemmas as in the CoNLL 2018 shared task, alone and together with arcs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import starmap
from typing import NamedTuple

from parser.evaluation.measures import Measure
from parser.treebank.labels import without_subtype
from parser.treebank.sentence import Sentence

# fmt: off
CONTENT_LABELS = frozenset([
    "acl", "advcl", "advmod", "amod", "appos", "ccomp", "compound", "conj", "csubj", "dep", "discourse",
    "dislocated", "expl", "fixed", "flat", "goeswith", "iobj", "list", "nmod", "nsubj", "nummod", "obj",
    "obl", "orphan", "parataxis", "reparandum", "root", "vocative", "xcomp",
])
# fmt: on
"""Labels of content words, as in the scorer of the CoNLL 2018 shared task."""
FUNCTIONAL_LABELS = frozenset(["aux", "cop", "mark", "det", "clf", "case", "cc"])
# fmt: off
UNIVERSAL_FEATURES = frozenset([
    "Abbr", "Animacy", "Aspect", "Case", "Definite", "Degree", "Evident", "Foreign", "Gender", "Mood",
    "Number", "NumType", "Person", "Polarity", "Polite", "Poss", "PronType", "Reflex", "Tense", "VerbForm",
    "Voice",
])
# fmt: on
"""The features that the scorer of the shared task compares."""


class ScoredWord(NamedTuple):
    """The properties of a word that are compared."""

    head: int
    label: str
    """The label without its subtype."""
    upos: str
    xpos: str
    features: str
    """The universal features."""
    lemma: str


def scored_words(
    sentence: Sentence, heads: Sequence[int], labels: Sequence[str], tags: Mapping[str, Sequence[str]]
) -> list[ScoredWord]:
    """The words of a sentence with a tree. tags: by column; for other columns the sentence's own are used."""
    columns = (
        heads,
        map(without_subtype, labels),
        tags.get("upos", sentence.upos),
        tags.get("xpos", sentence.xpos),
        map(universal_features, tags.get("feats", sentence.feats)),
        tags.get("lemma", sentence.lemmas),
    )
    return list(starmap(ScoredWord, zip(*columns, strict=True)))


@lru_cache(maxsize=1 << 14)
def universal_features(features: str) -> str:
    """The features that are compared, such as "Case=Nom|Number=Sing", in alphabetical order."""
    names = (feature for feature in features.split("|") if feature.split("=", 1)[0] in UNIVERSAL_FEATURES)
    return "|".join(sorted(names))


def right_measures(
    gold: ScoredWord, found: ScoredWord, head: bool, same_function_words: bool
) -> dict[Measure, bool]:
    """Whether each score counts a word as right. head: whether the word has the right head."""
    upos, xpos, features = gold.upos == found.upos, gold.xpos == found.xpos, gold.features == found.features
    lemma = gold.lemma in ("_", found.lemma)
    arc = head and gold.label == found.label
    content_arc = arc and gold.label in CONTENT_LABELS
    return {
        "upos": upos,
        "xpos": xpos,
        "ufeats": features,
        "alltags": upos and xpos and features,
        "lemmas": lemma,
        "uas": head,
        "las": arc,
        "clas": content_arc,
        "mlas": content_arc and upos and features and same_function_words,
        "blex": content_arc and lemma,
    }


def correct_words(
    gold: Sentence,
    heads: Sequence[int],
    labels: Sequence[str],
    tags: Mapping[str, Sequence[str]],
    scored: Collection[int],
) -> Counter[Measure]:
    """The number of words that are right by each measure of `right_measures`.

    tags: the predicted tags, by column; gold tags are used for other columns. scored: indices of the words to
    count.
    """
    right, found = scored_words(gold, gold.heads, gold.labels, {}), scored_words(gold, heads, labels, tags)
    right_function_words, function_words = _function_words(right), _function_words(found)
    counts: Counter[Measure] = Counter()
    for word in scored:
        counts.update(
            right_measures(
                *(right[word], found[word]),
                head=right[word].head == found[word].head,
                same_function_words=right_function_words[word] == function_words[word],
            )
        )
    return counts


def _function_words(words: Sequence[ScoredWord]) -> list[list[tuple[int, str, str, str]]]:
    """The function words that depend on each word, with the properties that MLAS compares."""
    found: list[list[tuple[int, str, str, str]]] = [[] for _ in words]
    for number, word in enumerate(words):
        if word.head and word.label in FUNCTIONAL_LABELS:
            found[word.head - 1].append((number, word.label, word.upos, word.features))
    return found
