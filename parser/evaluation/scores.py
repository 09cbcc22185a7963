"""Scores of trees and tags as in the CoNLL 2018 shared task, for gold tokenization.

To add a score, count it here (for raw text in `text_scores.py`), name it in `measures.py`, and explain
it in `report.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import starmap
from math import sqrt
from types import MappingProxyType
from typing import Any, NamedTuple

from parser.enhanced.graph import EdgeCounts, Graph, collapsed_edges
from parser.evaluation.measures import MEASURES, Measure
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.projectivity import crossing, projectivize
from parser.treebank.sentence import Sentence, without_subtype

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
PUNCTUATION_TAGS = frozenset(["PUNCT", "``", "''", ":", ",", "."])
"""The UPOS tag of UD, and the five tags of the Penn Treebank: XPOS is used for words without UPOS."""
Groups = Sequence[tuple[int, int | None]]
"""The lowest and the highest value of each group; None if there is no highest value."""
ARC_LENGTHS: Groups = ((1, 1), (2, 2), (3, 3), (4, 7), (8, 15), (16, None))


@dataclass
class Scores:
    """Counts, which can be added with `+`, and scores in percent."""

    words: int = 0
    sentences: int = 0
    correct_heads: int = 0
    correct_arcs: int = 0
    correct_full_arcs: int = 0
    exact_sentences: int = 0
    gold_labels: Counter[str] = field(default_factory=Counter)
    parsed_labels: Counter[str] = field(default_factory=Counter)
    correct_labels: Counter[str] = field(default_factory=Counter)
    lengths: Counter[str] = field(default_factory=Counter)
    correct_lengths: Counter[str] = field(default_factory=Counter)
    crossing_arcs: int = 0
    correct_crossing_heads: int = 0
    lifted_crossing_heads: int = 0
    """Dependents of crossing gold arcs with the head that they have once the gold tree is projective."""
    nonprojective_sentences: int = 0
    nonprojective_words: int = 0
    """The words of these sentences."""
    nonprojective_arcs: int = 0
    """The correct arcs in these sentences."""
    correct_words: Counter[Measure] = field(default_factory=Counter)
    """See the function of this name."""
    edges: Counter[str] = field(default_factory=Counter)
    """Those of enhanced dependencies, by the fields of `EdgeCounts`."""
    squared_arcs: int = 0
    """The sum over sentences of the squared number of correct arcs; the next two are similar sums."""
    arcs_by_words: int = 0
    squared_words: int = 0

    def add(
        self,
        gold: Sentence,
        heads: Sequence[int],
        labels: Sequence[str],
        punctuation: bool = True,
        tags: Mapping[str, Sequence[str]] = MappingProxyType({}),
        graph: Graph | None = None,
    ) -> None:
        """Add a sentence. punctuation: whether punctuation is scored; tags: predicted tags, by column. graph:
        compared with the sentence's own if it has one."""
        exact, scored, correct_arcs = True, [], 0
        crosses = frozenset(crossing(gold.heads))
        lifted_heads = projectivize(gold.heads, gold.labels)[0] if crosses else gold.heads
        for word, (tag, gold_head, gold_full, head, full) in enumerate(
            zip(word_classes(gold), gold.heads, gold.labels, heads, labels, strict=True), 1
        ):
            if not punctuation and tag in PUNCTUATION_TAGS:
                continue
            scored.append(word - 1)
            gold_label, label = without_subtype(gold_full), without_subtype(full)
            right_head = head == gold_head
            right = right_head and label == gold_label
            length = length_group(word, gold_head)
            self.words += 1
            self.correct_heads += right_head
            correct_arcs += right
            self.correct_full_arcs += right_head and full == gold_full
            self.gold_labels[gold_label] += 1
            self.parsed_labels[label] += 1
            self.correct_labels[gold_label] += right
            self.lengths[length] += 1
            self.correct_lengths[length] += right
            self.crossing_arcs += word in crosses
            self.correct_crossing_heads += right_head and word in crosses
            self.lifted_crossing_heads += word in crosses and head == lifted_heads[word - 1]
            exact = exact and right
        if graph is not None and any(edges := collapsed_edges(gold)):
            self.edges.update(vars(EdgeCounts.of(edges, graph)))
        self.correct_words += correct_words(gold, heads, labels, tags, scored)
        self.correct_arcs += correct_arcs
        self.squared_arcs += correct_arcs**2
        self.arcs_by_words += correct_arcs * len(scored)
        self.squared_words += len(scored) ** 2
        if crosses:
            self.nonprojective_sentences += 1
            self.nonprojective_words += len(scored)
            self.nonprojective_arcs += correct_arcs
        self.sentences += 1
        self.exact_sentences += exact

    def __add__(self, other: Scores) -> Scores:
        return Scores(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Scores)))

    def counts(self, measure: Measure) -> tuple[float, float]:
        """Return how many items are right by a measure, and out of how many. The score is their quotient."""
        arcs = {"uas": self.correct_heads, "las": self.correct_arcs, "las_full": self.correct_full_arcs}
        if measure in arcs:
            return arcs[measure], self.words
        if measure not in ("clas", "mlas", "blex"):
            return self.correct_words[measure], self.words
        labels = self.gold_labels + self.parsed_labels
        content_words = sum(labels[label] for label in CONTENT_LABELS) / 2  # the mean of both trees, as in F1
        return self.correct_words[measure], content_words

    def percent(self, measure: Measure) -> float:
        return _percent(*self.counts(measure))

    @property
    def uas(self) -> float:
        """Unlabelled attachment score: words with the right head."""
        return self.percent("uas")

    @property
    def las(self) -> float:
        """Labelled attachment score: words with the right head and label, subtypes stripped."""
        return self.percent("las")

    @property
    def las_error(self) -> float | None:
        """The standard error of LAS, if the sentences are a sample of their kind; None for fewer than two.

        It is computed for a ratio of means (Cochran 1977, section 6.4), because the words of a sentence are
        not independent.
        """
        if self.sentences < 2 or not self.words:
            return None
        share = self.correct_arcs / self.words
        squares = self.squared_arcs - 2 * share * self.arcs_by_words + share**2 * self.squared_words
        variance = max(0.0, squares) * self.sentences / (self.sentences - 1)
        return 100 * sqrt(variance) / self.words

    @property
    def enhanced(self) -> EdgeCounts:
        """The edges of sentences with enhanced dependencies, if the parser predicts them."""
        return EdgeCounts(**self.edges)

    @property
    def exact(self) -> float:
        """Exact match: sentences in which all heads and labels are right."""
        return _percent(self.exact_sentences, self.sentences)

    @property
    def crossing_recall(self) -> float:
        """Recall of non-projective gold arcs, unlabelled."""
        return _percent(self.correct_crossing_heads, self.crossing_arcs)

    @property
    def crossing_lifted(self) -> float:
        """The share of non-projective gold arcs whose word has its lifted head instead."""
        return _percent(self.lifted_crossing_heads, self.crossing_arcs)

    @property
    def projective_las(self) -> float:
        """LAS in sentences without a non-projective gold arc."""
        arcs, words = self.correct_arcs - self.nonprojective_arcs, self.words - self.nonprojective_words
        return _percent(arcs, words)

    @property
    def nonprojective_las(self) -> float:
        """LAS in the other sentences."""
        return _percent(self.nonprojective_arcs, self.nonprojective_words)

    def label_f1(self) -> dict[str, float]:
        """Return the F1 of labelled arcs by label, the most frequent gold label first."""
        names = sorted(
            self.gold_labels | self.parsed_labels, key=lambda name: (-self.gold_labels[name], name)
        )
        return {
            name: _percent(2 * self.correct_labels[name], self.gold_labels[name] + self.parsed_labels[name])
            for name in names
        }

    def length_las(self) -> dict[str, float]:
        """Return the LAS by the length of the gold arc in words; "root" for arcs from ROOT."""
        return {
            name: _percent(self.correct_lengths[name], self.lengths[name])
            for name in LENGTH_GROUPS
            if self.lengths[name]
        }

    def as_dict(self) -> dict[str, Any]:
        return {
            **{measure: self.percent(measure) for measure in MEASURES},
            "las_error": self.las_error,
            "exact": self.exact,
            "crossing_recall": self.crossing_recall,
            "crossing_arcs": self.crossing_arcs,
            "crossing_lifted": self.crossing_lifted,
            "projective_las": self.projective_las,
            "nonprojective_las": self.nonprojective_las,
            "nonprojective_sentences": self.nonprojective_sentences,
            "scored_words": self.words,
            "scored_sentences": self.sentences,
            **({"elas": self.enhanced.elas, "eulas": self.enhanced.eulas} if self.enhanced.gold else {}),
            "label_f1": self.label_f1(),
            "length_las": self.length_las(),
        }


def score(gold: Iterable[Sentence], trees: Iterable[tuple[Any, ...]], punctuation: bool = True) -> Scores:
    """Score trees (heads, labels, ...) against the gold trees of the same sentences."""
    scores = Scores()
    for sentence, parts in zip(gold, trees, strict=True):
        tree = ParsedTree(*parts)
        scores.add(sentence, tree.heads, tree.labels, punctuation, tree.tags, tree.graph)
    return scores


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
    """The words of a sentence with a tree. tags: by column; by default the sentence's."""
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
    gold: ScoredWord, parsed: ScoredWord, head: bool, same_function_words: bool
) -> dict[Measure, bool]:
    """Whether each score counts a word as right. head: whether the word has the right head."""
    upos, xpos = gold.upos == parsed.upos, gold.xpos == parsed.xpos
    features = gold.features == parsed.features
    lemma = gold.lemma in ("_", parsed.lemma)
    arc = head and gold.label == parsed.label
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
    right, parsed = scored_words(gold, gold.heads, gold.labels, {}), scored_words(gold, heads, labels, tags)
    right_function_words, function_words = _function_words(right), _function_words(parsed)
    counts: Counter[Measure] = Counter()
    for word in scored:
        counts.update(
            right_measures(
                *(right[word], parsed[word]),
                head=right[word].head == parsed[word].head,
                same_function_words=right_function_words[word] == function_words[word],
            )
        )
    return counts


def _function_words(words: Sequence[ScoredWord]) -> list[list[tuple[int, str, str, str]]]:
    """The function words that depend on each word, with the properties that MLAS compares."""
    dependents: list[list[tuple[int, str, str, str]]] = [[] for _ in words]
    for number, word in enumerate(words):
        if word.head and word.label in FUNCTIONAL_LABELS:
            dependents[word.head - 1].append((number, word.label, word.upos, word.features))
    return dependents


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def word_classes(sentence: Sentence) -> list[str]:
    """Return the UPOS of each word, or the XPOS of words without UPOS."""
    return [xpos if upos == "_" else upos for upos, xpos in zip(sentence.upos, sentence.xpos, strict=True)]


def length_group(dependent: int, head: int) -> str:
    """Return the length group of an arc, one of `LENGTH_GROUPS`."""
    return group_of(abs(head - dependent), ARC_LENGTHS) if head else "root"


def group_of(value: int, groups: Groups) -> str:
    """Return the name of the group that contains a value."""
    return next(range_name(low, high) for low, high in groups if high is None or value <= high)


def range_name(low: int, high: int | None) -> str:
    if high is None:
        return f"{low}+"
    return str(low) if low == high else f"{low}-{high}"


LENGTH_GROUPS = ("root", *(range_name(*group) for group in ARC_LENGTHS))
